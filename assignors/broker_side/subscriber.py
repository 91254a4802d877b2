"""A consumer group as a broker's assignor sees it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

NOBODY = -1
Owners = list[list[int]]


@dataclass(frozen=True, slots=True)
class Subscriber:
    """One member. `topics` are topic indices; `owned` are its partitions of each topic, ascending and disjoint from
    those of all others."""

    member_id: str
    instance_id: str | None
    topics: frozenset[int]
    owned: Mapping[int, Sequence[int]]


def alike(members: Sequence[Subscriber]) -> bool:
    """Returns whether all members subscribe to the same topics, which a broker calls homogeneous."""
    return len({member.topics for member in members}) <= 1


def unowned(partitions: Sequence[int]) -> Owners:
    """Returns owners by topic and partition, all NOBODY; `partitions` is the number of partitions of each topic."""
    return [[NOBODY] * count for count in partitions]
