"""Returns moving partitions to members that had them before, if they have room, as franz-go and kafka-python do. Java
leaves this choice to the order of its hash tables (docs/internals/assignors.md#sticky-with-equal-subscriptions).

A plan fixes how many partitions each member keeps and gets, but as long as these numbers stay, the partitions can be
chosen: a member above its quota gives up partitions that another member had, and that member gets them.
"""

import numpy as np

from bellwether_kafka.assignors import shared
from bellwether_kafka.assignors.shared import NOBODY, BoolArray, IntArray, LongArray

EXACT_MAX = 10_000  # claims; with more, each claim goes to the first member with room


def give_back(before: IntArray, placed: IntArray, key: LongArray, claimant: IntArray, claims: LongArray) -> IntArray:
    """Returns the owner of each partition. As many partitions stay with their owner `before` as in `placed`, and
    members have as many of each `key`; partitions with the same key may be exchanged. `claims` by `claimant` are those
    of former owners."""
    moving = (placed != before) & (placed != NOBODY)
    if not len(claims) or not moving.any():
        return placed
    size = int(max(before.max(), placed.max(), claimant.max())) + 1
    gives, takes = _places(key, before, moving & (before != NOBODY), size), _places(key, placed, moving, size)
    giver, taker = _of(gives, key[claims], before[claims], size), _of(takes, key[claims], claimant, size)
    free = before[claims] == NOBODY
    able = (taker >= 0) & (placed[claims] != NOBODY) & (free & moving[claims] | (giver >= 0))
    if not able.any():
        return placed
    item, giver, taker = claims[able], np.where(free, -1, giver)[able], taker[able]
    chosen = _matched(item, giver, taker, gives[1], takes[1])
    return _dealt(before, placed, key, moving, item[chosen], takes[0][taker[chosen]] % size, gives, size)


Places = tuple[LongArray, LongArray]


def _places(key: LongArray, member: IntArray, which: BoolArray, size: int) -> Places:
    """Returns (codes of key and member, ascending; the number of partitions of each)."""
    codes, counts = np.unique(key[which] * size + member[which], return_counts=True)
    return codes, counts


def _of(places: Places, key: LongArray, member: IntArray, size: int) -> LongArray:
    """Returns the position of each (key, member) in the places, -1 if it is not there."""
    code = key * size + np.maximum(member, 0)
    at = np.minimum(np.searchsorted(places[0], code), max(0, len(places[0]) - 1))
    hit = (places[0][at] == code) & (member >= 0) if len(places[0]) else np.zeros(len(code), dtype=np.bool_)
    return np.where(hit, at, -1)


def _matched(item: LongArray, giver: LongArray, taker: LongArray, gives: LongArray, takes: LongArray) -> LongArray:
    """Returns the positions of the claims to satisfy: as many as the places of givers (-1: the partition is free) and
    takers allow, each partition once."""
    if len(item) > EXACT_MAX:
        return _first_come(item, giver, taker, gives, takes)
    items, node = np.unique(item, return_inverse=True)
    base, end = len(items), len(items) + len(gives)
    network = shared.Network(end + len(takes))
    first = np.unique(item, return_index=True)[1]
    owned = giver[first] >= 0
    network.excess[:base] = (~owned).astype(int).tolist()
    network.excess[base:end] = gives.tolist()
    network.excess[end:] = (-takes).tolist()
    many = np.flatnonzero(owned)
    network.add(
        base + giver[first][many], many, np.ones(len(many), dtype=np.int64), np.zeros(len(many), dtype=np.int64)
    )
    ones, nothing = np.ones(len(item), dtype=np.int64), np.zeros(len(item), dtype=np.int64)
    arcs = network.add(node, end + taker, ones, nothing)
    network.saturate()
    return np.flatnonzero(network.flow(arcs))


def _first_come(item: LongArray, giver: LongArray, taker: LongArray, gives: LongArray, takes: LongArray) -> LongArray:
    first = np.sort(np.unique(item, return_index=True)[1])
    first = first[_nth(taker[first]) < takes[taker[first]]]
    owned = giver[first] >= 0
    fits = np.ones(len(first), dtype=np.bool_)
    fits[owned] = _nth(giver[first][owned]) < gives[giver[first][owned]]
    return first[fits]


def _nth(group: LongArray) -> LongArray:
    """Returns the position of each element among those equal to it, in their order."""
    order = np.argsort(group, kind="stable")
    nth = np.empty(len(order), dtype=np.int64)
    nth[order] = shared.run_ordinals(group[order])
    return nth


def _dealt(
    before: IntArray,
    placed: IntArray,
    key: LongArray,
    moving: BoolArray,
    back: LongArray,
    to: LongArray,
    gives: Places,
    size: int,
) -> IntArray:
    """Assigns `back` to the former owners `to`. Givers give up the rest of their number from other partitions, and
    these fill the open places."""
    owner = before.copy()
    owner[placed == NOBODY] = NOBODY
    owner[back] = to
    # A giver still has to give as many as the plan takes from it, minus those that already went to former owners.
    given = np.zeros(len(gives[0]), dtype=np.int64)
    from_owner = back[before[back] != NOBODY]
    np.add.at(given, _of(gives, key[from_owner], before[from_owner], size), 1)
    rest = moving.copy()
    rest[back] = False
    item: LongArray = np.flatnonzero(rest & (before != NOBODY))
    place = _of(gives, key[item], before[item], size)
    remains = _nth(place) >= (gives[1] - given)[place]
    pool = np.concatenate([np.flatnonzero(rest & (before == NOBODY)), item[~remains]])
    # The open places: those of the plan minus those already taken.
    open_key, open_member = key[moving], placed[moving].astype(np.int64)
    code = np.sort(open_key * size + open_member)
    taken = np.sort(key[back] * size + to)
    left = code[_nth(code) >= _times(taken, code)]
    pool = pool[np.argsort(key[pool], kind="stable")]
    owner[pool] = left % size
    return owner


def _times(values: LongArray, wanted: LongArray) -> LongArray:
    """Returns how often each wanted value occurs among the ascending values."""
    return np.searchsorted(values, wanted, "right") - np.searchsorted(values, wanted, "left")
