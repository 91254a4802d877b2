"""What refreshes need not compute again while nothing has changed: of a thousand groups at rest, nearly everything."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

from bellwether_kafka.coordinator.kafka import MetadataRead
from bellwether_kafka.coordinator.membership import DescribeAnswer

V = TypeVar("V")


@dataclass(slots=True)
class Kept(Generic[V]):
    """The value that belongs to the latest key. Keys are compared by what they contain."""

    _key: Any = None
    _value: V | None = field(default=None)

    def get(self, key: object) -> V | None:
        """None where the key is another one."""
        return self._value if self._key == key else None

    def put(self, key: object, value: V) -> V:
        self._key, self._value = key, value
        return value

    def of(self, key: object, make: Callable[[], V]) -> V:
        """Makes the value where the key is another one."""
        known = self.get(key)
        return known if known is not None else self.put(key, make())


@dataclass(frozen=True, slots=True, eq=False)
class PlannedFrom:
    """What a plan for plain consumers follows from, and nothing else: who is in the group and has what, and topics."""

    answer: DescribeAnswer
    read: MetadataRead

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PlannedFrom) or self.answer != other.answer:
            return False
        mine, theirs = self.read, other.read
        if (mine.topics, mine.unreadable, mine.absent) != (theirs.topics, theirs.unreadable, theirs.absent):
            return False
        # Codes mean the same as long as they run over the same table.
        same = mine.placements is theirs.placements and (mine.racks, mine.online) == (theirs.racks, theirs.online)
        return same and np.array_equal(mine.counts, theirs.counts) and np.array_equal(mine.codes, theirs.codes)

    __hash__ = None  # type: ignore[assignment]  # arrays have no hash
