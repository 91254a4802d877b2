"""A consumer group as a broker's assignor sees it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

NOBODY = -1
Owners = list[list[int]]


@dataclass(frozen=True, slots=True)
class Subscriber:
    """Topics by their index; `owned` are the partitions that it has of each topic, ascending and disjoint from those of
    all others."""

    member_id: str
    instance_id: str | None
    topics: frozenset[int]
    owned: Mapping[int, Sequence[int]]


def alike(members: Sequence[Subscriber]) -> bool:
    """Whether all subscribe to the same topics: what a broker calls homogeneous."""
    return len({member.topics for member in members}) <= 1


def unowned(partitions: Sequence[int]) -> Owners:
    """Owners by topic and partition, nobody yet; `partitions` is how many each topic has."""
    return [[NOBODY] * count for count in partitions]
