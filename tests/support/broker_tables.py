"""The hash table in which a broker's coordinator keeps the members of a classic group: which of them leads next
(docs/internals/broker-behaviour.md#leader-succession). What Bellwether foretells is compared with it."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from bellwether_kafka.protocol.primitives import java_string_hash

BUCKETS_MIN = 16


class HashOrder(Enum):
    JAVA = "java"  # java.util.HashMap, Kafka 4: by bucket, then by arrival
    SCALA = "scala"  # scala.collection.mutable.HashMap, Kafka 3.9 and before: by bucket, then by the signed hash


@lru_cache(maxsize=100_000)
def spread_hash(key: str) -> int:
    """h ^ h >>> 16 of String.hashCode, unsigned."""
    value = java_string_hash(key)
    return value ^ value >> 16


def buckets_for(members: int, order: HashOrder = HashOrder.JAVA) -> int:
    """The buckets of a table that never held more: it doubles above 3/4 in Java, at 3/4 in Scala."""
    buckets = BUCKETS_MIN
    while members > buckets * 3 // 4 - (order is HashOrder.SCALA):
        buckets *= 2
    return buckets


@dataclass(frozen=True, slots=True)
class BrokerTable:
    order: HashOrder = HashOrder.JAVA
    buckets: int = BUCKETS_MIN

    def place(self, member_id: str) -> tuple[int, int]:
        """What it sorts by; members with equal places are in the order of their arrival."""
        spread = spread_hash(member_id)
        signed = spread - (1 << 32) if spread >> 31 else spread
        return spread & (self.buckets - 1), signed if self.order is HashOrder.SCALA else 0

    def listed(self, member_ids: Iterable[str]) -> list[str]:
        return sorted(member_ids, key=self.place)

    def grown(self, members: int) -> "BrokerTable":
        return BrokerTable(self.order, max(self.buckets, buckets_for(members, self.order)))

    def before(self, member_ids: Iterable[str], own: str) -> list[str]:
        """Those that sort before a new member with this id."""
        return [m for m in member_ids if m != own and self.place(m) <= self.place(own)]

    def unavoidable(self, member_ids: Iterable[str]) -> list[str]:
        """Those that no new member sorts before: in Java's table the ones of the first bucket."""
        return [m for m in member_ids if self.order is HashOrder.JAVA and self.place(m) == (0, 0)]
