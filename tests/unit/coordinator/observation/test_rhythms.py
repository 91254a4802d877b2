"""How far apart a group's commits are is known after a restart of Bellwether, so that nobody is paged for it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from bellwether_kafka.coordinator.observation import LagVerdict, Rhythms
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.observed import Lags, of_one_partition

KEPT_MS = 2_592_000_000

BEGAN_S = 1_700_000_000
OWNERS = {TopicPartition("t", 0): "m"}


class Clock:
    now = float(BEGAN_S)

    def __call__(self) -> float:
        return self.now


async def verdicts_of(lags: Lags, every_s: int, from_s: int, to_s: int) -> set[LagVerdict]:
    """A group that reads 100 records a second and commits every so often, refreshed each half a minute."""
    refreshes = (
        of_one_partition(BEGAN_S + s, 100 * (s // every_s * every_s), 100 * s) for s in range(from_s, to_s, 30)
    )
    return {(await lags.refreshed(refresh, owners=OWNERS)).summary().verdict for refresh in refreshes}


async def verdicts_after_a_restart(path: Path, every_s: int) -> set[LagVerdict]:
    """Of two hours after a restart just behind a commit, which is not seen."""
    before, restarted_s = Rhythms(path), 4 * 3600 + 60
    await verdicts_of(Lags(before), every_s, 0, 4 * 3600)
    await before.write()
    return await verdicts_of(Lags(Rhythms(path, clock=Clock())), every_s, restarted_s, restarted_s + 2 * 3600)


@pytest.mark.slow
@pytest.mark.parametrize("every_s", [900, 3600])
async def test_a_group_that_commits_seldom_is_not_stalled_after_a_restart(tmp_path: Path, every_s: int) -> None:
    assert LagVerdict.STALLED not in await verdicts_after_a_restart(tmp_path / "rhythms.json", every_s)


@pytest.mark.slow
async def test_without_a_file_it_would_be_stalled(tmp_path: Path) -> None:
    """The file is what the test above is about."""
    (tmp_path / "file").write_text("no folder")
    with capture_logs() as lines:
        assert LagVerdict.STALLED in await verdicts_after_a_restart(tmp_path / "file" / "rhythms.json", 3600)
    assert [line["event"] for line in lines] == ["rhythms_not_kept"]


async def learn(rhythms: Rhythms, group: str, *waits_ms: int) -> None:
    rhythms.learned(group, cast("Any", SimpleNamespace(waits_ms=waits_ms)))
    await rhythms.write()


async def test_groups_of_other_processes_stay_and_groups_that_commit_often_are_not_kept(tmp_path: Path) -> None:
    path, clock = tmp_path / "kept" / "rhythms.json", Clock()
    await learn(Rhythms(path, clock=clock), "a", 900_000)
    other = Rhythms(path, clock=clock)
    await learn(other, "b", 3_600_000)
    await learn(other, "often", 5_000)
    again = Rhythms(path, clock=clock)
    assert (again.of("a"), again.of("b"), again.of("often")) == ((900_000,), (3_600_000,), ())
    await learn(again, "a", 900_000, *[5_000] * 5)
    assert Rhythms(path, clock=clock).of("a") == (), "it commits often now"
    clock.now += KEPT_MS / 1000 + 1
    assert Rhythms(path, clock=clock).of("b") == (), "nobody has learned it again"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "[" * 100_000,
        '{"g": []}',
        '{"g": {"waits_ms": "900000", "at_ms": 1700000000000}}',
        '{"g": {"waits_ms": [1e99], "at_ms": 1700000000000}}',
        '{"g": {"waits_ms": [900000], "at_ms": true}}',
        '{"g": {"waits_ms": [900000], "at_ms": 1700000000000}}' + " " * 1_000_000,
    ],
)
def test_a_file_that_no_bellwether_has_written_is_as_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rhythms.json"
    path.write_text(text)
    assert Rhythms(path, clock=Clock()).of("g") == ()
