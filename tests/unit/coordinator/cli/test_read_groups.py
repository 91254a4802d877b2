"""One refresh shows no progress: where records wait for a group without members, there is a second."""

import asyncio
from dataclasses import replace

import pytest

from bellwether_kafka.coordinator.cli import Exit
from bellwether_kafka.coordinator.kafka.wire import ListedGroup, TransportError
from bellwether_kafka.coordinator.membership import Failure
from bellwether_kafka.coordinator.observation import Observation, ObservedMember, Unknown
from tests.kit.commands import ShownGroups

BEHIND = Observation("g", "classic", "Empty", "", 0, lags={"t": (7,)})
CAUGHT_UP = replace(BEHIND, lags={"t": (0,)})
NOTHING = replace(BEHIND, lags={})
MEMBER = ObservedMember("a", None, "a", "/h")


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits for commits, none of which takes time; other waits are real."""
    long, sleep = list[float](), asyncio.sleep

    async def at_once(seconds: float) -> None:
        long.append(seconds) if seconds >= 1 else await sleep(seconds)

    monkeypatch.setattr(asyncio, "sleep", at_once)
    return long


def refreshed(groups: ShownGroups, *seen: Observation) -> bool:
    """Whether `describe` shows the second one of these."""
    groups.show(*seen, replace(seen[0], state="Dead"))
    shown = groups.says("describe", "g")
    return "Dead" in shown.splitlines()[0]


def test_records_that_wait_for_nobody_are_worth_a_second_refresh(groups: ShownGroups, waits: list[float]) -> None:
    assert refreshed(groups, BEHIND)
    assert waits == [6.0], "consumers commit every 5 s"
    groups.seen.clear()
    assert not refreshed(groups, BEHIND, replace(BEHIND, kind="unknown")), "the first one is known"


@pytest.mark.parametrize("seen", [CAUGHT_UP, NOTHING, replace(BEHIND, members=(MEMBER,))])
def test_no_other_group_is_waited_for(seen: Observation, groups: ShownGroups, waits: list[float]) -> None:
    assert not refreshed(groups, seen)
    assert waits == []


@pytest.mark.parametrize(("protocol_type", "who"), [("", "its consumers"), ("consumer", "nobody")])
def test_an_empty_group_that_never_had_a_member_is_its_consumers(
    protocol_type: str, who: str, groups: ShownGroups
) -> None:
    groups.listed = [ListedGroup("g", protocol_type, "Empty", "classic")]
    (row,) = [line for line in groups.says("groups").splitlines() if line.startswith("g ")]
    assert who in row


@pytest.mark.parametrize(
    ("cause", "remedy"),
    [
        (TransportError(Failure.DISCONNECTED, "111 ECONNREFUSED"), "It may be moving to another broker: try again"),
        (30, "grant Bellwether's principal the ACL DESCRIBE on Group 'g'"),
        (
            TransportError(Failure.UNSUPPORTED, "no FindCoordinator"),
            "Name brokers in bootstrap.servers, by a listener that takes this request.",
        ),
    ],
)
def test_a_broker_that_does_not_answer_ends_with_what_to_do(
    cause: int | TransportError, remedy: str, groups: ShownGroups
) -> None:
    unknown = Unknown.of(cause, "g", 0)
    groups.show(Observation("g", "unknown", "", "", 0, trouble=unknown.reason, unknown=unknown))
    ended = groups.run("describe", "g")
    assert ended.returncode == Exit.INPUT
    assert "The group g cannot be described" in ended.stderr
    assert remedy in " ".join(ended.stderr.split())
