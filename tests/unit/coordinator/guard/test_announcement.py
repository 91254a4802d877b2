"""A guard lets a Bellwether that is to lead the group come into it before the members of its process are removed."""

import pytest

from bellwether_kafka.coordinator import control
from bellwether_kafka.coordinator.guard import evacuation
from tests.kit.membership import GROUP, plain
from tests.unit.coordinator.guard.stage import NAMED, Stage, heartbeat, killed, stage

OTHER = plain("b", "app-2")


def stated(on: Stage) -> list[control.Stopped]:
    records = [control.decode(key, value) for key, value in on.brokers.log if value is not None]
    return [record for record in records if isinstance(record, control.Stopped)]


def removes(on: Stage, key: bytes) -> None:
    """A Bellwether reads the topic, comes into the group and removes the member."""
    if key.startswith(b"stopped/"):
        on.brokers.show(OTHER, plain("bw", "bellwether"), state="PreparingRebalance")


def test_the_end_is_stated_to_a_bellwether_that_is_to_lead_and_it_removes_the_members() -> None:
    """With the guard an exactly-once application was never adopted: the leader was gone before Bellwether came."""
    on = stage(NAMED, plain("a"), OTHER)
    on.brokers.echo(heartbeat(leads=(), claims=(GROUP,)))
    on.brokers.before = lambda request: removes(on, getattr(request, "key", b"") or b"")
    message = on.play(killed)
    (record,) = stated(on)
    assert (record.target, record.members, record.static) == (GROUP, ("a",), ())
    assert "Bellwether has removed its members." in message
    assert on.brokers.removed == []


@pytest.mark.parametrize("fields", [{}, {"leads": (), "claims": ()}, {"leads": (), "claims": (GROUP,), "at_ms": 1}])
def test_where_no_bellwether_is_to_lead_the_members_are_removed_at_once(fields: dict[str, object]) -> None:
    on = stage(NAMED, plain("a"), OTHER)
    on.brokers.echo(heartbeat(**fields))
    on.play(killed)
    assert stated(on) == []
    assert on.brokers.removed == ["a"]


def test_without_a_control_topic_the_members_are_removed_at_once() -> None:
    on = stage(NAMED, plain("a"), OTHER)
    on.brokers.no_topic = True
    on.play(killed)
    assert on.brokers.removed == ["a"]


@pytest.mark.slow
def test_a_bellwether_that_does_not_come_holds_the_removal_up_for_a_bounded_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(evacuation, "ANNOUNCED_S", 0.3)
    on = stage(NAMED, plain("a"), OTHER)
    on.brokers.echo(heartbeat(leads=(), claims=(GROUP,)))
    on.play(killed)
    assert len(stated(on)) == 1
    assert on.brokers.removed == ["a"]
