"""Levels partitions over members with different subscriptions that hang together through shared topics.

Works on counts per (topic, class of interchangeable members) and names partitions only at the end, so the work does
not grow with partitions times members: keep what is owned, pour what is free, level coarsely, then let the steal graph
finish (`steal`). Only the difference to what was held before moves, however often a count went out and back. Racks
(KIP-881) split rows and classes, and decide among plans that are equally balanced.
"""

from dataclasses import dataclass

import numpy as np

from bellwether_kafka.assignors import shared
from bellwether_kafka.assignors.consumer.derived import Component, mismatched, rack_matters, subscriptions
from bellwether_kafka.assignors.consumer.sticky.constrained import spread
from bellwether_kafka.assignors.consumer.sticky.cycles import cheapen
from bellwether_kafka.assignors.consumer.sticky.filling import ClassCounts, level_rows, pour, pour_within
from bellwether_kafka.assignors.consumer.sticky.steal import StealGraph
from bellwether_kafka.assignors.shared import NO_RACK, NOBODY, BoolArray, ClusterView, GroupView, IntArray, LongArray

COARSE_PASSES = 6
# Above this many (row, class) cells rows are not split by racks: memory and time would grow with their product.
CELLS = 20_000_000


@dataclass(frozen=True, slots=True, eq=False)
class _Frame:
    """Coordinates of one component: partitions in rows, members in classes."""

    row: LongArray  # of each partition, in the order of `flats`: its topic, or topic and replica racks
    supply: LongArray  # [row]: its partitions
    of_class: LongArray  # of each member: those with the same subscription, or subscription and rack, are alike
    size: LongArray  # [class]: its members
    allowed: BoolArray  # [row, class]: whether the class subscribes
    foreign: BoolArray  # [row, class]: whether no replica is in the rack of the class

    def tally(self, owner: IntArray) -> LongArray:
        """Partitions per (row, class) for owners given as member positions."""
        held = np.flatnonzero(owner >= 0)
        cell = self.row[held] * len(self.size) + self.of_class[owner[held]]
        return np.bincount(cell, minlength=self.allowed.size).reshape(self.allowed.shape)


def balance(
    group: GroupView, cluster: ClusterView, component: Component, flats: LongArray, owner: IntArray
) -> IntArray:
    """The new owner of each partition of a component, as positions in `component.members`, like `owner`.

    Max-min optimal: no chain of moves could give a member more without leaving one that is better off by two.
    """
    racks = group.rack[component.members]
    # Count what is owned, per topic and class of members.
    plain = _frame(group, cluster, component, flats, racked=False)
    before = plain.tally(owner)
    counts = ClassCounts(before.copy(), plain.allowed, before, plain.size, plain.supply, before.sum(axis=0))
    # Level the counts, whatever partitions they are.
    _level(counts, plain.foreign)
    # Name partitions: owners keep theirs as far as the counts allow.
    placed = _realise(cluster, plain, flats, owner, counts.held)
    # Racks decide among plans that are equally balanced: rows and classes are split by them, and all is done again.
    if rack_matters(cluster, racks, flats):
        framed = _frame(group, cluster, component, flats, racked=True)
        if framed.allowed.size <= CELLS:
            return _with_racks(cluster, framed, flats, owner, placed, racks)
    return placed


def _frame(group: GroupView, cluster: ClusterView, component: Component, flats: LongArray, *, racked: bool) -> _Frame:
    topic = np.searchsorted(cluster.first, flats, side="right") - 1
    sets = group.topic_set[component.members].astype(np.int64)
    signature = cluster.signature[flats] if racked else np.zeros(len(flats), dtype=np.int32)
    rack = group.rack[component.members] if racked else np.full(len(sets), NO_RACK, dtype=np.int32)
    base = int(signature.max()) + 1
    rows, row = np.unique(topic * base + signature, return_inverse=True)
    offset = len(cluster.racks) + 2
    classes, first, of_class = np.unique(sets * offset + rack + 2, return_index=True, return_inverse=True)
    order = np.argsort(first)  # by the first member id, so that the order of the JoinGroup answer does not matter
    classes, of_class = classes[order], np.argsort(order)[of_class]
    table = subscriptions(group, len(cluster.topics))
    allowed = np.ascontiguousarray(table[classes // offset][:, rows // base].T)
    foreign = np.zeros_like(allowed)
    if racked:
        first_of_row = np.unique(row, return_index=True)[1]
        class_rack = (classes % offset - 2).astype(np.int32)
        for c in range(len(classes)):
            foreign[:, c] = mismatched(cluster, np.full(len(rows), class_rack[c], dtype=np.int32), flats[first_of_row])
    return _Frame(row, np.bincount(row), of_class, np.bincount(of_class), allowed, foreign)


def _level(counts: ClassCounts, foreign: BoolArray) -> None:
    # What nobody owns goes to the lowest.
    pour(counts, counts.stuck)
    # Whole rows at once, until the rest is chains of single partitions.
    level_rows(counts, COARSE_PASSES)
    # Max-min optimal from here on.
    StealGraph(counts, foreign).settle()
    # As balanced as before, but nearer and with fewer moves.
    if foreign.any() or (counts.held < counts.stuck).any():
        cheapen(counts, foreign)


def _with_racks(
    cluster: ClusterView, frame: _Frame, flats: LongArray, owner: IntArray, placed: IntArray, racks: IntArray
) -> IntArray:
    """Places again with the loads of a balanced plan as targets: local partitions first, and then as before."""
    before = frame.tally(owner)
    home = np.where(frame.foreign, 0, before)
    target = np.bincount(frame.of_class[placed], minlength=len(frame.size))
    held = home.copy()
    counts = ClassCounts(held, frame.allowed, home, frame.size, frame.supply, held.sum(axis=0))
    pour_within(counts, frame.allowed & ~frame.foreign, target, before)
    pour_within(counts, frame.allowed, target, before)
    _level(counts, frame.foreign)
    new = _realise(cluster, frame, flats, owner, counts.held)
    options = [option for option in (owner, placed, new) if (option >= 0).all()]
    # The first of the best: what is there already stays unless something is better.
    return min(options, key=lambda option: _cost(cluster, frame, flats, option, racks))


def _cost(cluster: ClusterView, frame: _Frame, flats: LongArray, owner: IntArray, racks: IntArray) -> tuple[int, int]:
    """Imbalance first, then partitions without a replica in their owner's rack."""
    load = np.bincount(owner, minlength=len(frame.of_class))
    return int((load * load).sum()), int(mismatched(cluster, racks[owner], flats).sum())


def _realise(cluster: ClusterView, frame: _Frame, flats: LongArray, owner: IntArray, held: LongArray) -> IntArray:
    """Names partitions for counts per (row, class): what stays, stays; the rest is dealt row by row."""
    before = frame.tally(owner)
    kept = _keep(frame, owner, np.minimum(before, held), before)
    to_class = np.where(kept >= 0, frame.of_class[kept], NOBODY)
    free = np.flatnonzero(kept == NOBODY)
    free = free[np.argsort(frame.row[free], kind="stable")]
    need = held - frame.tally(kept)
    to_class[free] = np.repeat(np.tile(np.arange(len(frame.size)), len(frame.supply)), need.ravel())
    return _within_classes(cluster, frame, flats, kept, to_class)


def _keep(frame: _Frame, owner: IntArray, remain: LongArray, before: LongArray) -> IntArray:
    """The owners of what stays. Where a class gives up some of a row, its fullest members give first, each a little of
    every row that it has to give."""
    leave = (before - remain).ravel()
    if not leave.any():
        return owner.copy()
    item = np.flatnonzero(owner >= 0)
    cell_of = frame.row[item] * len(frame.size) + frame.of_class[owner[item]]
    item, cell_of = item[leave[cell_of] > 0], cell_of[leave[cell_of] > 0]
    member = owner[item]
    in_row = _nth(member.astype(np.int64) * len(frame.supply) + frame.row[item], -item)
    height = np.bincount(owner[owner >= 0], minlength=len(frame.of_class))[member]
    height = height - _nth(member, in_row * len(frame.supply) + frame.row[item])
    kept = owner.copy()
    kept[item[_nth(cell_of, -height) < leave[cell_of]]] = NOBODY
    return kept


def _nth(group: IntArray | LongArray, key: LongArray) -> LongArray:
    """The position of each item among those of its group, in the order of the key."""
    order = np.lexsort((key, group))
    nth = np.empty(len(order), dtype=np.int64)
    nth[order] = shared.run_ordinals(group[order])
    return nth


def _within_classes(
    cluster: ClusterView, frame: _Frame, flats: LongArray, kept: IntArray, to_class: LongArray
) -> IntArray:
    """Levels each class over its members, who are alike."""
    members = np.argsort(frame.of_class, kind="stable")
    start = shared.offsets(frame.size)
    owner: IntArray = members[start[to_class]].astype(np.int32)
    position = np.empty(len(members), dtype=np.int32)
    position[members] = shared.ordinals(frame.size)
    for c in np.flatnonzero(frame.size > 1):
        mine = np.flatnonzero(to_class == c)
        if not len(mine):
            continue
        alike = members[start[c] : start[c + 1]]
        was = np.where(kept[mine] >= 0, position[kept[mine]], NOBODY).astype(np.int32)
        owner[mine] = alike[spread(cluster, flats[mine], was, np.full(len(alike), NO_RACK, dtype=np.int32))]
    return owner
