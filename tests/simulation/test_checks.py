"""The checks themselves: a world that breaks a promise is noticed."""

import pytest

from coordinator.group import GroupMembership
from protocol.consumer import ConsumerProtocolAssignment
from protocol.types import TopicPartition
from tests.simulation.checks import ViolationError
from tests.simulation.run import live
from tests.simulation.world import World


def settled() -> World:
    """A group at rest, led by us."""
    world = World(3)
    world.sidecars[0].start()
    world.run_until(10.0)
    for member in world.members:
        member.start()
    world.run_until(60.0, lambda: world.checks.we_lead() and not world.checks.unsettled())
    assert world.checks.we_lead()
    assert not world.checks.unsettled()
    return world


def test_two_owners_are_noticed() -> None:
    world = settled()
    world.members[0].own(world.members[0].owned | world.members[1].owned)
    with pytest.raises(ViolationError, match="is consumed by"):
        world.checks.step()


def test_a_partition_that_nobody_consumes_is_noticed() -> None:
    world = settled()
    member = next(member for member in world.members if member.owned)
    member.own(member.owned - {min(member.owned)})
    assert "partitions are consumed" in world.checks.unsettled()


def test_a_leader_that_stalls_its_group_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heartbeats go on and no plan comes: the deadline that gives the group away is taken out."""
    world = settled()
    monkeypatch.setattr(GroupMembership, "_refuse", lambda self, reason: None)
    world.sidecars[0].slow_plan_s = 100.0
    world.members[0].crash()
    world.members[0].start()
    with pytest.raises(ViolationError, match="has waited for us"):
        world.run_until(world.clock.now + 60.0)


def test_a_plan_without_a_member_is_noticed() -> None:
    world = settled()
    group = world.broker.group
    group.generation += 1
    with pytest.raises(ViolationError, match="out"):
        world.checks.planned(group.leader or "", ((group.leader or "", b"\0\0\0\0\0\0\0\0\0\0"),))


def test_a_plan_that_uses_our_own_member_is_noticed() -> None:
    world = settled()
    group = world.broker.group
    group.generation += 1
    blob = ConsumerProtocolAssignment(0, (TopicPartition("t", 0),)).encode()
    with pytest.raises(ViolationError, match="own member"):
        world.checks.planned(group.leader or "", tuple((m, blob) for m in sorted(group.seats, reverse=True)))


def test_who_never_leads_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GroupMembership, "_watched", lambda self, answer: None)
    with pytest.raises(ViolationError, match="do not lead"):
        live(World(1))
