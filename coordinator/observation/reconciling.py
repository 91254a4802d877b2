"""Who holds up a group that its broker reconciles: a partition or task goes to its next owner only once the present one
has confirmed that it gave it up. A member that does not poll confirms nothing until max.poll.interval.ms ends. Pure.
"""

from collections import defaultdict
from dataclasses import dataclass

from bellwether_kafka.coordinator.kafka import AssignedPartitions, BrokerGroup, BrokerMember
from bellwether_kafka.coordinator.planning import listed, subtopology_numbers


@dataclass(frozen=True, slots=True)
class Behind:
    """A member that has confirmed the assignment of an older epoch than the group has."""

    member_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class HandOver:
    """Items, as they are displayed, that `successor` is to have and that one of `behind` has to give up first. If the
    broker still shows the items as assigned, `behind` is that member; what is being given up it shows with nobody."""

    items: tuple[str, ...]
    successor: str
    behind: tuple[Behind, ...]
    epoch: int

    @property
    def sentence(self) -> str:
        who = " or ".join(f"{m.member_id}, at epoch {m.epoch} of {self.epoch}," for m in self.behind)
        return f"{who} has to give up {listed(self.items)}, which {self.successor} is to have"


def hand_overs(group: BrokerGroup) -> tuple[HandOver, ...]:
    """Returns what waits for a member. Nothing of a group that is settled, or whose next owners only have not been told
    yet."""
    numbers = subtopology_numbers(group)
    has = {member.member_id: _items(member.assigned, numbers) for member in group.members}
    owner = {item: name for name, items in has.items() for item in items}
    epochs = {member.member_id: member.epoch for member in group.members}
    behind = [name for name, epoch in sorted(epochs.items()) if 0 <= epoch < group.epoch]
    waiting: defaultdict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for member in sorted(group.members, key=lambda member: member.member_id):
        for item in _to_come(member, has, numbers):
            holder = owner.get(item)
            holders = (holder,) if holder is not None else tuple(m for m in behind if m != member.member_id)
            if holders:
                waiting[member.member_id, holders].append(item)
    return tuple(
        HandOver(tuple(items), successor, tuple(Behind(name, epochs[name]) for name in holders), group.epoch)
        for (successor, holders), items in waiting.items()
    )


def _to_come(member: BrokerMember, has: dict[str, list[str]], numbers: dict[str, int]) -> list[str]:
    mine = frozenset(has[member.member_id])
    return [item for item in _items(member.target, numbers) if item not in mine]


def _items(assigned: AssignedPartitions, numbers: dict[str, int]) -> list[str]:
    """Returns the names of partitions, or those of tasks as Java prints them."""
    return [
        f"{numbers[name]}_{partition}" if name in numbers else f"{name}-{partition}"
        for name, partitions in assigned
        for partition in partitions
    ]
