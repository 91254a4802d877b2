"""Levels partitions over members with different subscriptions that are connected through shared topics.

It works on counts per (topic, class of interchangeable members) and picks partitions only at the end, so that the work
does not grow with partitions times members: keep owned partitions, distribute free ones, level coarsely, and finish
with the steal graph (`steal`). Only the final difference to the counts before moves partitions. Racks (KIP-881) split
rows and classes, and decide between equally balanced plans.
"""

from dataclasses import dataclass

import numpy as np

from bellwether_kafka.assignors import shared
from bellwether_kafka.assignors.consumer.derived import Component, mismatched, rack_matters, remote_racks, subscriptions
from bellwether_kafka.assignors.consumer.sticky.constrained import spread
from bellwether_kafka.assignors.consumer.sticky.cycles import reduce_cost
from bellwether_kafka.assignors.consumer.sticky.filling import ClassCounts, level_rows, pour, pour_within
from bellwether_kafka.assignors.consumer.sticky.steal import StealGraph
from bellwether_kafka.assignors.shared import NO_RACK, NOBODY, BoolArray, ClusterView, GroupView, IntArray, LongArray

COARSE_PASSES = 6
# Above this many (row, class) cells, racks do not split rows: memory and time would grow with their product.
CELLS = 20_000_000


@dataclass(frozen=True, slots=True, eq=False)
class _Frame:
    """The coordinates of one component: partitions in rows, members in classes."""

    row: LongArray  # per partition, in the order of `flats`: its topic, or topic and replica racks
    supply: LongArray  # [row]: how many partitions it has
    of_class: LongArray  # per member: members with the same subscription (and rack) are in one class
    size: LongArray  # [class]: how many members it has
    allowed: BoolArray  # [row, class]: whether the class subscribes
    foreign: BoolArray  # [row, class]: whether no replica is in the rack of the class

    def tally(self, owner: IntArray) -> LongArray:
        """Returns the partitions per (row, class) for owners given as member positions."""
        owned = np.flatnonzero(owner >= 0)
        cell = self.row[owned] * len(self.size) + self.of_class[owner[owned]]
        return np.bincount(cell, minlength=self.allowed.size).reshape(self.allowed.shape)


def balance(
    group: GroupView, cluster: ClusterView, component: Component, flats: LongArray, owner: IntArray
) -> IntArray:
    """Returns the new owner of each partition of a component, as positions in `component.members`, like `owner`.

    The result is max-min optimal: no chain of moves could give a member more by taking from one that has at least two
    more.
    """
    racks = group.rack[component.members]
    # Count what is owned, per topic and class of members.
    plain = _frame(group, cluster, component, flats, racked=False)
    before = plain.tally(owner)
    counts = ClassCounts(before.copy(), plain.allowed, before, plain.size, plain.supply, before.sum(axis=0))
    # Level the counts, whatever partitions they are.
    _level(counts, plain.foreign)
    # Pick partitions: owners keep theirs as far as the counts allow.
    placed = _realise(cluster, plain, flats, owner, counts.partitions)
    # Racks decide between equally balanced plans: they split rows and classes, and everything is repeated.
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
    offset = len(cluster.column_racks) + 2
    classes, first, of_class = np.unique(sets * offset + rack + 2, return_index=True, return_inverse=True)
    order = np.argsort(first)  # by the first member id, so that the order of the JoinGroup response does not matter
    classes, of_class = classes[order], np.argsort(order)[of_class]
    table = subscriptions(group, len(cluster.topics))
    allowed = np.ascontiguousarray(table[classes // offset][:, rows // base].T)
    foreign = np.zeros_like(allowed)
    if racked:
        foreign = remote_racks(cluster)[np.ix_(rows % base, classes % offset - 2)]
    return _Frame(row, np.bincount(row), of_class, np.bincount(of_class), allowed, foreign)


def _level(counts: ClassCounts, foreign: BoolArray) -> None:
    # Unowned partitions go to the lowest classes.
    pour(counts, counts.stuck)
    # Whole rows at once, until only chains of single partitions remain.
    level_rows(counts, COARSE_PASSES)
    # Max-min optimal from here on.
    StealGraph(counts, foreign).settle()
    # Keeps the balance, but with fewer foreign racks and moves.
    if foreign.any() or (counts.partitions < counts.stuck).any():
        reduce_cost(counts, foreign)


def _with_racks(
    cluster: ClusterView, frame: _Frame, flats: LongArray, owner: IntArray, placed: IntArray, racks: IntArray
) -> IntArray:
    """Places again with the loads of a balanced plan as targets: local partitions first, then the rest. Returns the
    best of this plan, `placed` and the present owners."""
    before = frame.tally(owner)
    home = np.where(frame.foreign, 0, before)
    target = np.bincount(frame.of_class[placed], minlength=len(frame.size))
    count = home.copy()
    counts = ClassCounts(count, frame.allowed, before, frame.size, frame.supply, count.sum(axis=0))
    pour_within(counts, frame.allowed & ~frame.foreign, target, before)
    pour_within(counts, frame.allowed, target, before)
    _level(counts, frame.foreign)
    new = _realise(cluster, frame, flats, owner, counts.partitions)
    options = [option for option in (owner, placed, new) if (option >= 0).all()]
    # min keeps the first of equals, so that the present owners stay unless another plan is better.
    return min(options, key=lambda option: _cost(cluster, frame, flats, option, racks))


def _cost(cluster: ClusterView, frame: _Frame, flats: LongArray, owner: IntArray, racks: IntArray) -> tuple[int, int]:
    """Returns (imbalance, the number of partitions without a replica in their owner's rack)."""
    load = np.bincount(owner, minlength=len(frame.of_class))
    return int((load * load).sum()), int(mismatched(cluster, racks[owner], flats).sum())


def _realise(cluster: ClusterView, frame: _Frame, flats: LongArray, owner: IntArray, count: LongArray) -> IntArray:
    """Picks partitions for counts per (row, class): owners keep as much as the counts allow, and the rest is
    distributed row by row."""
    before = frame.tally(owner)
    kept = _keep(frame, owner, np.minimum(before, count), before)
    to_class = np.where(kept >= 0, frame.of_class[kept], NOBODY)
    free = np.flatnonzero(kept == NOBODY)
    free = free[np.argsort(frame.row[free], kind="stable")]
    need = count - frame.tally(kept)
    to_class[free] = np.repeat(np.tile(np.arange(len(frame.size)), len(frame.supply)), need.ravel())
    return _within_classes(cluster, frame, flats, kept, to_class)


def _keep(frame: _Frame, owner: IntArray, remain: LongArray, before: LongArray) -> IntArray:
    """Returns the owners of the partitions that stay. If a class gives up some of a row, its fullest members give
    first, each a little of every row that the class has to give."""
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
    """Returns the position of each item within its group, in the order of the key."""
    order = np.lexsort((key, group))
    nth = np.empty(len(order), dtype=np.int64)
    nth[order] = shared.run_ordinals(group[order])
    return nth


def _within_classes(
    cluster: ClusterView, frame: _Frame, flats: LongArray, kept: IntArray, to_class: LongArray
) -> IntArray:
    """Levels the partitions of each class over its interchangeable members."""
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
