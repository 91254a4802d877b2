"""Two processes under one group.instance.id: the fenced one comes back after ten seconds and fences the other, and so
on. They subscribe to other topics, or run in other zones. The broker tells no leader; one that follows every change
never lets the group rest."""

from dataclasses import replace

import pytest

from bellwether_kafka.coordinator.membership import Code
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription
from tests.simulation.members import Member
from tests.simulation.world import World

BACK_S, MINUTES = 10.0, 4
REBALANCES_MAX = 6  # those of two reactions, each with the one in which a cooperative group hands over


class Fenced(Member):
    """Comes back after it was fenced, as some clients and all supervisors do."""

    rack: str | None = None
    fenced = 0

    def _subscription(self, protocol: str) -> bytes:
        return replace(ConsumerProtocolSubscription.decode(super()._subscription(protocol)), rack_id=self.rack).encode()

    def _trouble(self, error: int) -> None:
        if error != Code.FENCED_INSTANCE_ID:
            super()._trouble(error)
            return
        self.fenced += 1
        self._end()
        self.world.clock.after(BACK_S, self.start)


def suitable(flock: str) -> World:
    """A world of static members of this kind that one instance leads."""
    for seed in range(400):
        world = World(seed)
        static = not world.streams and bool(world.members[0].instance_id) and len(world.members) >= 3
        if (
            static
            and world.flock == flock
            and not world.hostile
            and not world.config.standby
            and world.config.instance_id
        ):
            return world
    raise AssertionError("no world")


@pytest.mark.parametrize("differs", ["", "topics", "rack"])
@pytest.mark.parametrize("flock", ["eager", "cooperative"])
def test_a_duel_under_one_instance_id_does_not_keep_the_group_from_resting(
    flock: str, differs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = suitable(flock)
    world.subscribed = ("t", "u")
    world.topics.change({"t": 8, "u": 4})
    members = [Fenced(world, f"m{i}", world.members[0].kind, f"i{i}") for i in range(4)]
    twin = Fenced(world, "twin", world.members[0].kind, "i0")
    world.members[:] = members
    for each in (*members, twin):
        each.topics, each.rack = ("t",), "az1"
    monkeypatch.setattr(world, "violate", lambda text: None)  # the world's promises know of no such duel
    with world:
        fought(world, members, twin, differs)


def fought(world: World, members: list[Fenced], twin: Fenced, differs: str) -> None:
    world.instances[0].start()
    world.run_until(20)
    for each in members:
        each.start()
    world.run_until(120)
    assert world.instances[0].leads
    twin.topics = ("t", "u") if differs == "topics" else ("t",)
    twin.rack = "az2" if differs == "rack" else "az1"
    world.members.append(twin)
    before = world.broker.group.generation
    twin.start()
    world.run_until(world.clock.now + 60 * MINUTES)
    assert twin.fenced + members[0].fenced >= 10
    assert world.broker.group.generation - before <= (REBALANCES_MAX if differs else 0)
    assert world.instances[0].leads
