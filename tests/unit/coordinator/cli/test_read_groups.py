"""One refresh shows no progress: where records wait for a group without members, there is a second."""

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest
import typer

from bellwether_kafka.coordinator.cli import doctor, read_groups
from bellwether_kafka.coordinator.cli.groups import _assigned_by
from bellwether_kafka.coordinator.kafka import ClusterUnreachableError, ListedGroup, TransportError
from bellwether_kafka.coordinator.membership import STREAMS_PROTOCOL, Failure, MembershipConfig
from bellwether_kafka.coordinator.observation import GroupObserver, Observation, ObservedMember, Sources, Unknown

BEHIND = Observation("g", "classic", "Empty", "", 0, lags={"t": (7,)})
CAUGHT_UP = replace(BEHIND, lags={"t": (0,)})
NOTHING = replace(BEHIND, lags={})
MEMBER = ObservedMember("a", None, "a", "/h")


class Observer:
    def __init__(self, *seen: Observation) -> None:
        self.left = list(seen)

    async def observe(self) -> Observation:
        return self.left.pop(0)


async def refreshed(*seen: Observation, caught_up: bool = False) -> Observation:
    observer = cast("GroupObserver", Observer(*seen))
    return await read_groups.observe_twice(observer, caught_up=caught_up)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_groups, "COMMITS_S", 0.0)


async def test_records_that_wait_for_nobody_are_worth_a_second_refresh() -> None:
    later = replace(BEHIND, seen_at_ms=6_000)
    assert await refreshed(BEHIND, later) is later
    unknown = replace(BEHIND, kind="unknown")
    assert await refreshed(BEHIND, unknown) is BEHIND
    assert await refreshed(CAUGHT_UP, later, caught_up=True) is later


@pytest.mark.parametrize("seen", [CAUGHT_UP, NOTHING, replace(BEHIND, members=(MEMBER,))])
async def test_no_other_group_is_waited_for(seen: Observation) -> None:
    assert await refreshed(seen) is seen


@pytest.mark.parametrize(("protocol_type", "who"), [("", read_groups.CONSUMERS), ("consumer", read_groups.NOBODY)])
def test_an_empty_group_that_never_had_a_member_is_its_consumers(protocol_type: str, who: str) -> None:
    assert _assigned_by(ListedGroup("g", protocol_type, "Empty", "classic"), None, MembershipConfig("g")) == who


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
    cause: int | TransportError, remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    unknown = Unknown.of(cause, "g", 0)
    seen = Observation("g", "unknown", "", "", 0, trouble=unknown.reason, unknown=unknown)
    with pytest.raises(typer.Exit):
        read_groups.of_a_group(seen)
    message = capsys.readouterr().err
    assert "The group g cannot be described" in message
    assert remedy in " ".join(message.split())


async def test_doctor_keeps_what_it_knows_when_nobody_answers_for_transactional_ids() -> None:
    """The brokers fell silent after all else had been read, and doctor ended with nothing but that."""

    class Silent:
        async def nodes(self) -> None:
            raise ClusterUnreachableError("No broker answered.")

    sources = cast("Sources", SimpleNamespace(reader=Silent()))
    seen = replace(BEHIND, protocol=STREAMS_PROTOCOL)
    assert await doctor._transactional_ids(sources, seen) == frozenset()
