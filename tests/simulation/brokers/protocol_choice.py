"""Which protocol a coordinator node chooses for a group."""

from collections.abc import Mapping

from bellwether_kafka.protocol.primitives import string_code
from tests.kit.membership import BUCKETS_MIN, HashOrder, spread_hash
from tests.simulation.brokers.member_entries import GroupMember


def chosen_protocol(member_entries: Mapping[str, GroupMember], order: HashOrder) -> str:
    """The name with the most votes among those that all know; ties go by the order of a hash table."""
    if not member_entries:
        return ""
    shared = set.intersection(*({name for name, _ in s.protocols} for s in member_entries.values()))
    votes: dict[str, int] = {}
    for member_entry in member_entries.values():
        first = next(name for name, _ in member_entry.protocols if name in shared)
        votes[first] = votes.get(first, 0) + 1
    place = _in_java if order is HashOrder.JAVA else _in_scala
    return min(votes, key=lambda name: (-votes[name], place(name)))


def _in_java(name: str) -> tuple[int, ...]:
    """Where a key is in a java.util.HashMap of a few."""
    return (spread_hash(name) & (BUCKETS_MIN - 1),)


def _in_scala(name: str) -> tuple[int, ...]:
    """Where a key is in Scala's immutable HashMap, a trie of five bits of the mixed hash at each level."""
    value = string_code(name)
    value = (value + (~(value << 9) & 0xFFFFFFFF)) & 0xFFFFFFFF
    value ^= value >> 14
    value = (value + (value << 4)) & 0xFFFFFFFF
    value ^= value >> 10
    return tuple(value >> shift & 31 for shift in range(0, 35, 5))
