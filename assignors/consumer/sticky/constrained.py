"""Levels partitions over members that all subscribe to the same topics (KIP-615), rack-aware as in KIP-881.

It follows AbstractStickyAssignor's constrained builder (docs/reference/assignors.md#sticky-with-equal-subscriptions)
with three differences: members are visited in member id order instead of hash order, the rack pass places as many
partitions locally as possible, and a partition that no rack can improve returns to its owner, so that a settled group
does not change.
"""

from dataclasses import dataclass

import numpy as np

from bellwether_kafka.assignors import shared
from bellwether_kafka.assignors.consumer.derived import mismatched, rack_matters
from bellwether_kafka.assignors.shared import (
    NOBODY,
    BoolArray,
    ClusterView,
    IntArray,
    LongArray,
    ordinals,
    run_ordinals,
)


def spread(cluster: ClusterView, flats: LongArray, owner: IntArray, racks: IntArray) -> IntArray:
    """Returns the new owner of each partition. Counts differ by at most one, and exactly the remainder has the higher
    count.

    `flats` are sorted flat partitions. `owner` is the current owner of each as an index into `racks` (the rack of each
    member, in member id order), NOBODY for none. Owners keep partitions up to their quota, except that if racks matter,
    a partition without a replica in its owner's rack is placed anew.
    """
    members = len(racks)
    least, extras = divmod(len(flats), members)
    kept = owner.copy()
    # If racks matter, partitions that their owner reads from another rack become free.
    aware = rack_matters(cluster, racks, flats)
    if aware:
        owned = np.flatnonzero(kept >= 0)
        kept[owned[mismatched(cluster, racks[kept[owned]], flats[owned])]] = NOBODY
    # Members with more than the lower quota get the higher one; partitions above a quota become free.
    load = np.bincount(kept[kept >= 0], minlength=members)
    quota = np.full(members, least, dtype=np.int64)
    quota[np.flatnonzero(load > least)[:extras]] += 1
    _cut(cluster, flats, kept, load, quota)
    load = np.minimum(load, quota)
    takes_extra = quota == least
    free = _Slots(least - np.minimum(load, least), takes_extra, extras - int(members - takes_extra.sum()))
    # As many as possible go to racks that hold them; those that no rack can have nearer return to their owner.
    if aware:
        _place_local(cluster, flats, kept, racks, free)
        _give_back(kept, owner, free)
    # The rest is distributed in turns.
    pool = np.flatnonzero(kept == NOBODY)
    kept[pool] = free.take(np.ones(members, dtype=np.bool_), len(pool))
    return kept


@dataclass(slots=True, eq=False)
class _Slots:
    """How much more the members can take."""

    room: LongArray  # per member, up to the lower quota
    takes_extra: BoolArray  # per member, whether it may have one more than the lower quota
    spare: int  # how many members may still do so

    def take(self, among: BoolArray, count: int) -> IntArray:
        """Takes and returns the next `count` places of these members: in passes in member order, then the extras, first
        of members that were at the lower quota from the start, then in the order in which members reached it."""
        if not count:
            return np.zeros(0, dtype=np.int32)
        chosen = _in_turns(self.room * among, count)
        if len(chosen) < count:
            able = np.flatnonzero(self.takes_extra & among)
            able = able[np.argsort(self.room[able], kind="stable")]
            chosen = np.concatenate([chosen, able[: min(self.spare, count - len(chosen))]])
        self.use(np.bincount(chosen, minlength=len(self.room)))
        return chosen.astype(np.int32)

    def use(self, taken: LongArray) -> None:
        over = taken > self.room
        self.room = self.room - np.minimum(taken, self.room)
        self.takes_extra = self.takes_extra & ~over
        self.spare -= int(over.sum())


def _in_turns(room: LongArray, count: int) -> LongArray:
    """Returns the member indices of the first `count` free places, one per member and pass."""
    members = np.flatnonzero(room)
    free = room[members]
    if not len(members):
        return np.zeros(0, dtype=np.int64)
    if free.min() == free.max():
        return np.tile(members, int(free[0]))[:count]
    return np.asarray(np.sort(ordinals(free) * len(room) + np.repeat(members, free))[:count] % len(room))


def _cut(cluster: ClusterView, flats: LongArray, kept: IntArray, load: LongArray, quota: LongArray) -> None:
    """Takes excess partitions from members above their quota, the highest partition numbers first, then by topic, so
    that all topics shrink evenly."""
    over = load > quota
    if not over.any():
        return
    item = np.flatnonzero(over[kept] & (kept >= 0))
    topic = np.searchsorted(cluster.first, flats[item], side="right") - 1
    partition = flats[item] - cluster.first[topic]
    order = np.lexsort((topic, partition, kept[item]))
    item, member = item[order], kept[item[order]]
    kept[item[run_ordinals(member) >= quota[member]]] = NOBODY


def _place_local(cluster: ClusterView, flats: LongArray, kept: IntArray, racks: IntArray, free: _Slots) -> None:
    """Gives as many free partitions as possible to members in a rack that holds them."""
    pool = np.flatnonzero(kept == NOBODY)
    rows, row_of = np.unique(cluster.signature[flats[pool]], return_inverse=True)
    rack_total = len(cluster.column_racks)
    placed = racks >= 0
    flow = rack_quotas(
        np.bincount(row_of, minlength=len(rows)),
        cluster.signature_racks[rows],
        np.bincount(racks[placed], weights=free.room[placed], minlength=rack_total).astype(np.int64),
        np.bincount(racks[placed & free.takes_extra], minlength=rack_total),
        free.spare,
    )
    rack_of = np.full(len(pool), -1, dtype=np.int64)
    for row in np.flatnonzero(flow.sum(axis=1)):
        rack_of[np.flatnonzero(row_of == row)[: flow[row].sum()]] = _interleaved(flow[row])
    for rack in np.flatnonzero(flow.sum(axis=0)):
        chosen = pool[rack_of == rack]
        kept[chosen] = free.take(racks == rack, len(chosen))


def rack_quotas(supply: LongArray, has_replica: BoolArray, room: LongArray, extra: LongArray, spare: int) -> LongArray:
    """Returns how many partitions of each signature (row) go to each rack (column) so that the total is the largest
    possible: a maximum flow, which KIP-881's greedy pass may miss.

    `supply` counts partitions per signature, `has_replica` marks its racks, `room` counts places up to the lower quota
    per rack, `extra` counts members per rack that may take one more; only `spare` of the whole group may.
    """
    rows, racks = len(supply), len(room)
    sink, extras = rows + racks, rows + racks + 1
    network = shared.Network(rows + racks + 2)
    network.excess[:rows] = supply.tolist()
    network.excess[sink] = -int(supply.sum())
    row, rack = np.nonzero(has_replica & (supply > 0)[:, None])
    arcs = network.add(row, rows + rack, supply[row], [0] * len(row))
    for r in range(racks):
        network.add([rows + r] * 2, [sink, extras], [int(room[r]), int(extra[r])], [0, 0])
    network.add([extras], [sink], [spare], [0])
    network.saturate()
    flow = np.zeros((rows, racks), dtype=np.int64)
    flow[row, rack] = network.flow(arcs)
    return flow


def _interleaved(counts: LongArray) -> LongArray:
    """Returns each index as often as its count, spread evenly, so that every topic is spread evenly over the racks."""
    index = np.repeat(np.arange(len(counts)), counts)
    return index[np.argsort((ordinals(counts) + 0.5) / counts[index], kind="stable")]


def _give_back(kept: IntArray, owner: IntArray, free: _Slots) -> None:
    """Returns free partitions to their owner as far as it has room, because moving them would gain nothing."""
    item = np.flatnonzero((kept == NOBODY) & (owner >= 0))
    item = item[np.argsort(owner[item], kind="stable")]
    member = owner[item]
    nth = run_ordinals(member)
    back = nth < free.room[member]
    extra = np.zeros(len(item), dtype=np.bool_)
    extra[np.flatnonzero((nth == free.room[member]) & free.takes_extra[member])[: free.spare]] = True
    back |= extra
    kept[item[back]] = member[back]
    free.use(np.bincount(member[back], minlength=len(free.room)))
