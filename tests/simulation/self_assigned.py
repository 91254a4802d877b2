"""A consumer that assigns itself partitions: it commits without being a member, and the broker accepts that while the
group is empty (docs/internals/broker-behaviour.md#commits-without-a-member)."""

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.simulation.brokers.group_states import EMPTY

if TYPE_CHECKING:
    from tests.simulation.world import World

COMMIT_S = 1.0


class SelfAssigned:
    """`refused` has the time of each commit that a member in the group has prevented, in seconds."""

    def __init__(self, world: "World", every_s: float = COMMIT_S) -> None:
        self.world = world
        self.every_s = every_s
        self.accepted = 0
        self.refused: list[float] = []
        self._commit()

    def _commit(self) -> None:
        broker = self.world.broker
        self.world.clock.after(self.every_s, self._commit)
        if not broker.at_work:
            return  # it tries again, as any client does
        if broker.group.state == EMPTY:
            self.accepted += 1
            self.world.committed = True
        else:
            self.refused.append(self.world.clock.now)
            self.world.log(f"a commit without a member is refused: the group is {broker.group.state}")


class Mirror(SelfAssigned):
    """Copies the offsets of another cluster, from time to time and only into a group without members."""


def to_lead(world: "World", *, subscribes: bool) -> "World":
    """The same, where nothing but the setting says whether consumers subscribe."""
    world.config = replace(world.config, subscribes=subscribes)
    for instance in world.instances:
        instance.config = world.config
    return world
