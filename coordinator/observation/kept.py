"""Caches for refreshes, so that groups without changes cost almost no computing."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

from bellwether_kafka.assignors.shared import Rule
from bellwether_kafka.coordinator.kafka.client import MetadataRead
from bellwether_kafka.coordinator.membership import DescribeAnswer

V = TypeVar("V")


@dataclass(slots=True)
class Kept(Generic[V]):
    """A cache of one value, for the latest key. Keys are compared by value."""

    _key: Any = None
    _value: V | None = field(default=None)

    def get(self, key: object) -> V | None:
        """Returns the value, or None if the cached key differs."""
        return self._value if self._key == key else None

    def put(self, key: object, value: V) -> V:
        self._key, self._value = key, value
        return value

    def of(self, key: object, make: Callable[[], V]) -> V:
        """Returns the value, which is made if the cached key differs."""
        cached = self.get(key)
        return cached if cached is not None else self.put(key, make())


@dataclass(frozen=True, slots=True, eq=False)
class PlannedFrom:
    """A cache key with everything that a plan for plain consumers depends on: the described group, the metadata, how
    often the rack file has been read, and of a group whose broker asks Bellwether its assignor and the orders."""

    answer: DescribeAnswer
    read: MetadataRead
    racks_version: int = 0
    assignor: str = ""
    rules: tuple[Rule, ...] = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PlannedFrom) or self.answer != other.answer:
            return False
        if (self.racks_version, self.assignor, self.rules) != (other.racks_version, other.assignor, other.rules):
            return False
        mine, theirs = self.read, other.read
        if (mine.topics, mine.unreadable, mine.absent) != (theirs.topics, theirs.unreadable, theirs.absent):
            return False
        # Codes are indices into the table of placements, so they are comparable only if it is the same table.
        same = mine.placements is theirs.placements and (mine.racks, mine.online) == (theirs.racks, theirs.online)
        return same and np.array_equal(mine.counts, theirs.counts) and np.array_equal(mine.codes, theirs.codes)

    __hash__ = None  # type: ignore[assignment]  # arrays have no hash
