"""`bellwether assess` on groups that are broken on purpose, on embedded brokers in three racks: each is
recognized, and nothing is found in a healthy one."""

import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from bellwether_kafka.coordinator.cli import Exit
from bellwether_kafka.coordinator.kafka import wire
from bellwether_kafka.coordinator.kafka.wire import TransportError
from bellwether_kafka.coordinator.membership import DescribeAnswer, DescribedMember, Failure
from bellwether_kafka.coordinator.replay import write_history
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.brokers import EmbeddedCluster
from tests.kit.commands import Described, bellwether
from tests.kit.plans import LOADS, recorded_leads, traffic

pytestmark = [pytest.mark.embedded, pytest.mark.slow]

RACKS = ("az1", "az2", "az3")


def member(name: str, *owned: int, rack: str | None = None, client: str = "app") -> DescribedMember:
    message = ConsumerProtocolSubscription(version=3, topics=("orders",), rack_id=rack).encode()
    has = ConsumerProtocolAssignment(0, tuple(TopicPartition("orders", p) for p in owned)).encode()
    return DescribedMember(name, None, message, has, client, "/h")


def stable(*members: DescribedMember) -> DescribeAnswer:
    return DescribeAnswer(0, 0, "Stable", "consumer", "range", members)


def rebalancing(*names: str, client: str = "app") -> DescribeAnswer:
    members = tuple(DescribedMember(name, None, client_id=client, client_host="/h") for name in names)
    return DescribeAnswer(0, 0, "PreparingRebalance", "consumer", "", members)


def at_home(shift: int) -> DescribeAnswer:
    """A member in each rack; with 0 it has what its rack holds. The mock puts partition p on broker p mod 3 + 1."""
    owned = [[p for p in range(6) if (p + shift) % 3 == r] for r in range(3)]
    return stable(*(member(f"m{r}", *owned[r], rack=RACKS[r]) for r in range(3)))


def scene(group: str, observe: int) -> DescribeAnswer:
    """What the brokers say of a group at this look, from 0."""
    pair = member("w-1", 0, 1, 2, rack="az1"), member("w-2", 3, 4, 5, rack="az1")
    if group == "storm":
        return stable(*pair) if observe % 2 else stable(member("w-1", *range(6), rack="az1"))
    if group == "ghosted":
        before, after = stable(member("old", *range(6), client="w")), stable(member("new", *range(6), client="w"))
        return before if observe == 0 else rebalancing("old", "new", client="w") if observe < 5 else after
    return {
        "healthy": at_home(0),
        "crossed": at_home(1),
        "skewed": stable(member("m0", *range(6)), member("m1")),
        "stuck": rebalancing("m0", "m1"),
        "connect": DescribeAnswer(0, 0, "Stable", "connect", "sessioned"),
    }.get(group, at_home(0))


class Broken(Described):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._refreshes: Counter[str] = Counter()

    async def describe_group(self, group_id: str) -> DescribeAnswer:
        self._refreshes[group_id] += 1
        return scene(group_id, self._refreshes[group_id] - 1)


@pytest.fixture(scope="module")
def brokers() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=3) as cluster:
        cluster.create_topic("orders", 6)
        yield cluster


@pytest.fixture(scope="module")
def config(brokers: EmbeddedCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("assess") / "bellwether.toml"
    head = f'[kafka]\n"bootstrap.servers" = "{brokers.bootstrap}"\n'
    path.write_text(f'{head}[[groups]]\nname = "ghosted"\nmode = "assist"\nclient_ids_unique = true\n')
    return path


def asked(config: Path, *arguments: str) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wire, "Transport", Broken)
        ended = bellwether("assess", *arguments, "--config", str(config), COLUMNS="250")
    assert ended.returncode == Exit.DONE, ended.stderr
    return ended.stdout


GROUPS = ("healthy", "crossed", "skewed", "stuck", "ghosted", "storm")


@pytest.fixture(scope="module")
def reported(config: Path) -> dict[str, Any]:
    assessed_groups = json.loads(asked(config, *GROUPS, "--for", "20s", "--interval", "0.5", "-o", "json"))
    return {assessed["group"]: assessed for assessed in assessed_groups}


def about(assessed: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {finding["kind"]: finding for finding in assessed["findings"]}


def row(assessed: dict[str, Any], policy: str) -> dict[str, Any]:
    (only,) = [row for row in assessed["rows"] if row["policy"] == policy]
    measures: dict[str, Any] = only["measures"]
    return {**only, **measures}


def test_a_healthy_group_is_left_alone(reported: dict[str, Any]) -> None:
    assessed = reported["healthy"]
    assert assessed["findings"] == []
    assert 'mode = "observe"' in assessed["configuration"]
    assert (row(assessed, "now")["cross_rack"], row(assessed, "now")["imbalance"]) == (0, 1.0)


def test_cross_rack_reads_are_compared_under_every_policy(reported: dict[str, Any]) -> None:
    assessed = reported["crossed"]
    assert row(assessed, "now")["cross_rack"] == 6
    assert row(assessed, "rack-first")["cross_rack"] == 0
    assert row(assessed, "broker-range")["cross_rack"] > 0, "a broker does not look at racks"
    assert row(assessed, "broker-uniform")["moves"] == 0
    assert not row(assessed, "broker-uniform")["leads"]
    assert "6 partitions cross racks" in about(assessed)["cross_rack"]["message"]
    assert 'mode = "lead"' in assessed["configuration"]
    assert re.search(r'policy = "(rack-first|kafka)"', assessed["configuration"])


def test_a_skewed_group_is_reported_what_would_even_it(reported: dict[str, Any]) -> None:
    assessed = reported["skewed"]
    assert (row(assessed, "now")["imbalance"], row(assessed, "now")["by_load"]) == (2.0, False)
    assert row(assessed, "kafka")["imbalance"] == 1.0
    assert "by count" in about(assessed)["uneven_members"]["message"]
    assert "client.rack" in about(assessed)["cross_rack"]["remedy"]
    assert row(assessed, "now")["cross_rack"] is None, "no member names a rack"


def test_a_stuck_group_is_called_so_and_has_no_numbers(reported: dict[str, Any]) -> None:
    assessed = reported["stuck"]
    (period,) = assessed["periods"]
    assert assessed["rows"] == []
    assert period["stuck_ms"] > 2_000
    assert period["member_s_max"] is None
    assert period["member_s_min"] > 4, "two members for more than two seconds"
    assert "PreparingRebalance" in about(assessed)["stuck_rebalance"]["message"]
    assert about(assessed)["stuck_rebalance"]["remedy"]


def test_a_ghost_is_seen_from_its_proof_to_its_end(reported: dict[str, Any]) -> None:
    assessed = reported["ghosted"]
    (period,) = assessed["periods"]
    assert [(ghost["member_id"], ghost["client_id"]) for ghost in period["ghosts"]] == [("old", "w")]
    assert period["ghost_s"] > 0
    assert about(assessed)["ghosts"]["avoided"]
    assert 'mode = "assist"' in assessed["configuration"]


def test_a_storm_is_reported_with_what_was_behind_it(reported: dict[str, Any]) -> None:
    assessed = reported["storm"]
    (period,) = assessed["periods"]
    (storm,) = period["storms"]
    assert storm["rebalances"] == period["rebalances"] >= 5
    assert "joined" in storm["behind"] or "left" in storm["behind"]
    assert "The application decides who joins" in about(assessed)["rebalance_storm"]["remedy"]
    assert 'policy = "sticky-min-churn"' in assessed["configuration"]


def test_what_is_not_known_has_a_reason_and_no_number(reported: dict[str, Any]) -> None:
    for assessed in reported.values():
        for row_of_policy in assessed["rows"]:
            assert row_of_policy["measures"] is None or row_of_policy["measures"]["bytes_per_s"] is None
            assert row_of_policy["measures"] is None or row_of_policy["measures"]["cost_per_hour"] is None
            assert row_of_policy["measures"] is not None or row_of_policy["why"]
    assert any("no partition has a weight" in reason for reason in reported["healthy"]["unknown"])


def test_one_refresh_shows_no_rebalances_and_says_so(config: Path) -> None:
    shown = asked(config, "crossed")
    assert "one refresh shows no rebalances" in shown
    assert "broker-uniform" in shown
    assert re.search(r"rack-first +0 +0 +- +- +1\.00", shown), shown


def test_the_page_is_one_file_that_fetches_nothing(config: Path) -> None:
    html = asked(config, "crossed", "stuck", "-o", "html")
    assert html.startswith("<!doctype html>")
    assert "width=device-width" in html
    assert not re.search(r"<script|src=|href=|url\(|@import|https?://", html)
    assert "crossed: classic, Stable" in html
    assert "stuck rebalance" in html


def test_recorded_rebalances_are_shown_beside_the_refresh(config: Path, tmp_path: Path) -> None:
    write_history(tmp_path / "rebalances", [*recorded_leads([3, 4, 4], "sticky-min-churn"), traffic(LOADS), b"junk"])
    shown = asked(config, "group", "other", "--history", str(tmp_path / "rebalances"), "--since", "1970-01-01T00:00:00")
    of_group, of_other = shown.split("other: ")
    assert "recorded rebalances under each policy" in of_group
    assert re.search(r"as recorded +3 ", of_group), of_group
    assert re.search(r"broker-uniform +\d+ +\d+ +\d+\.\d +\d\.\d\d +\d+\.\d{3} +-", of_group), "no price is set"
    assert "how a member ended is not recorded" in of_group
    assert "nothing was recorded of other" in of_other


def test_a_named_group_that_cannot_be_assessed_is_not_left_out_silently(config: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wire, "Transport", Broken)
        ended = bellwether("assess", "connect", "--config", str(config))
    assert ended.stderr.startswith("connect is left out: Group 'connect' is of type 'connect'")


class SilentBroker(Described):
    """The coordinator node of `crossed` answers only the second request."""

    refreshes: ClassVar[Counter[str]] = Counter()

    async def describe_group(self, group_id: str) -> DescribeAnswer:
        self.refreshes[group_id] += 1
        if group_id in ("crossed", "mute") and self.refreshes[group_id] != (2 if group_id == "crossed" else 0):
            raise TransportError(Failure.TIMED_OUT, "no answer")
        return DescribeAnswer(0, 69) if group_id in ("none", "absent") else scene(group_id, 0)


def assessed_beside_a_silent_broker(config: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SilentBroker, "refreshes", Counter())
        patch.setattr(wire, "Transport", SilentBroker)
        return bellwether("assess", *arguments, "--config", str(config), COLUMNS="250")


def test_a_group_that_is_silent_for_a_while_ends_no_assessment(config: Path) -> None:
    asked = ("healthy", "crossed", "mute", "--for", "1500ms", "--interval", "0.5", "-o", "json")
    ended = assessed_beside_a_silent_broker(config, *asked)
    assert ended.returncode == Exit.DONE, ended.stderr
    assert [assessed["group"] for assessed in json.loads(ended.stdout)] == ["healthy", "crossed"]
    assert re.search(r"crossed could not be read \d of \d times: the group's coordinator node does not", ended.stderr)
    assert "mute is left out: the group's coordinator node does not answer" in ended.stderr


def test_an_assessment_of_silent_groups_only_is_no_success(config: Path) -> None:
    ended = assessed_beside_a_silent_broker(config, "mute")
    assert (ended.returncode, ended.stdout) == (Exit.INPUT, "")
    assert "mute is left out" in ended.stderr


def test_all_groups_that_do_not_exist_are_named(config: Path) -> None:
    ended = assessed_beside_a_silent_broker(config, "none", "healthy", "absent")
    assert (ended.returncode, ended.stdout) == (Exit.INPUT, "")
    assert "There is no group none, absent; see 'bellwether groups'." in ended.stderr


def test_mistakes_are_sentences(config: Path, tmp_path: Path) -> None:
    for wrong, message in (
        (("--since", "2026-01-01"), "name one with --history"),
        (("--history", str(tmp_path / "none")), "cannot be read"),
    ):
        ended = bellwether("assess", *wrong, "--config", str(config))
        assert (ended.returncode, ended.stdout) == (Exit.INPUT, "")
        assert message in ended.stderr
