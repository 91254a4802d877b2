"""Levels partitions over members that all subscribe to the same topics (KIP-615), rack-aware as in KIP-881.

It follows AbstractStickyAssignor's constrained builder (docs/internals/assignors.md#sticky-with-equal-subscriptions)
with these differences: members are visited in member id order instead of hash order, as many partitions as possible are
placed locally, spread over the racks of their replicas, and a partition that no rack can improve returns to its owner,
so that a settled group does not change.
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
    # Partitions above a quota become free. Members with more than the lower quota keep one more, as many as may.
    load = np.bincount(kept[kept >= 0], minlength=members)
    over = load > least
    higher = min(extras, int(over.sum()))
    surplus = _Slots(np.maximum(load - least - 1, 0), over, int(over.sum()) - higher)
    free = _Slots(least - np.minimum(load, least), ~over, extras - higher)
    if aware:
        # As many as possible go to racks that hold them; those that no rack can have nearer return to their owner.
        flow, wanted = _near(cluster, flats, kept, racks, surplus, free)
        _cut(cluster, flats, kept, surplus, wanted)
        _place_local(cluster, flats, kept, racks, flow, free)
        _give_back(kept, owner, free)
    else:
        _cut(cluster, flats, kept, surplus, np.zeros(0, dtype=np.int64))
    # The rest is distributed in turns.
    pool = np.flatnonzero(kept == NOBODY)
    kept[pool] = free.take(np.ones(members, dtype=np.bool_), len(pool))
    return kept


@dataclass(slots=True, eq=False)
class _Slots:
    """How much more the members can take, or have to give."""

    room: LongArray  # per member, up to the lower quota; what it gives in any case
    takes_extra: BoolArray  # per member, whether it may take or give one more than that
    spare: int  # how many members may still do so

    @property
    def total(self) -> int:
        return int(self.room.sum()) + self.spare

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


def _cut(cluster: ClusterView, flats: LongArray, kept: IntArray, surplus: _Slots, wanted: LongArray) -> None:
    """Takes partitions from members above their quota: of each signature as many as are wanted elsewhere, then any. The
    highest partition numbers go first, then by topic, so that all topics shrink evenly."""
    if not surplus.total:
        return
    item = np.flatnonzero(surplus.takes_extra[kept] & (kept >= 0))
    topic = np.searchsorted(cluster.first, flats[item], side="right") - 1
    partition = flats[item] - cluster.first[topic]
    item = item[np.lexsort((-topic, -partition, kept[item]))]
    signature = cluster.signature[flats[item]]
    for row in np.flatnonzero(wanted):
        able = item[signature == row]
        member, nth = kept[able], run_ordinals(kept[able])
        must = np.flatnonzero(nth < surplus.room[member])
        may = np.flatnonzero((nth == surplus.room[member]) & surplus.takes_extra[member])[: surplus.spare]
        taken = able[np.concatenate([must[np.argsort(nth[must], kind="stable")], may])[: wanted[row]]]
        surplus.use(np.bincount(kept[taken], minlength=len(surplus.room)))
        kept[taken] = NOBODY
    item = item[kept[item] != NOBODY]
    more = np.flatnonzero(surplus.takes_extra)
    surplus.room[more[len(more) - surplus.spare :]] += 1
    kept[item[run_ordinals(kept[item]) < surplus.room[kept[item]]]] = NOBODY


def _near(
    cluster: ClusterView, flats: LongArray, kept: IntArray, racks: IntArray, surplus: _Slots, free: _Slots
) -> tuple[LongArray, LongArray]:
    """Returns how many free partitions of each signature go to each rack, and how many of each signature to take from
    members above their quota for that."""
    rack_total, rows = len(cluster.column_racks), len(cluster.signature_racks)
    signature, inside = cluster.signature[flats], racks >= 0
    giving = np.flatnonzero(surplus.takes_extra[kept] & (kept >= 0))
    members = np.bincount(racks[inside], minlength=rack_total)
    # Each signature in proportion to the members of its racks: then a rack that gains or loses members finds some of
    # each in the others.
    total = np.bincount(signature, minlength=rows)[:, None]
    share = total * members / np.maximum(cluster.signature_racks @ members, 1)[:, None]
    local = np.flatnonzero((kept >= 0) & (racks[kept] >= 0))
    has = np.bincount(signature[local] * np.int64(rack_total) + racks[kept[local]], minlength=rows * rack_total)
    return rack_quotas(
        np.bincount(signature[kept == NOBODY], minlength=rows),
        np.bincount(signature[giving], minlength=rows),
        surplus.total,
        cluster.signature_racks,
        np.maximum(np.ceil(share).astype(np.int64) - has.reshape(rows, rack_total), 0),
        np.bincount(racks[inside], weights=free.room[inside], minlength=rack_total).astype(np.int64),
        np.bincount(racks[inside & free.takes_extra], minlength=rack_total),
        free.spare,
    )


def _place_local(
    cluster: ClusterView, flats: LongArray, kept: IntArray, racks: IntArray, flow: LongArray, free: _Slots
) -> None:
    """Gives free partitions to members in a rack that holds them, as many of each signature as flow to the rack."""
    pool = np.flatnonzero(kept == NOBODY)
    signature = cluster.signature[flats[pool]]
    rack_of = np.full(len(pool), -1, dtype=np.int64)
    for row in np.flatnonzero(flow.sum(axis=1)):
        to = _interleaved(flow[row])
        item = np.flatnonzero(signature == row)[: len(to)]
        rack_of[item] = to[: len(item)]
    for rack in np.flatnonzero(flow.sum(axis=0)):
        chosen = pool[rack_of == rack]
        chosen = chosen[np.argsort(cluster.signature[flats[chosen]], kind="stable")]  # some of each to each member
        kept[chosen] = free.take(racks == rack, len(chosen))


def rack_quotas(
    supply: LongArray,
    excess_of: LongArray,
    excess: int,
    has_replica: BoolArray,
    even: LongArray,
    room: LongArray,
    extra: LongArray,
    spare: int,
) -> tuple[LongArray, LongArray]:
    """Returns (how many partitions of each signature (row) go to each rack (column), how many of each signature come
    from members above their quota) so that the total is the largest possible: a maximum flow, which KIP-881's greedy
    pass may miss. Of equal ones it is an even one.

    `supply` counts free partitions per signature, `excess_of` those of members above their quota, of which `excess` in
    total become free. `has_replica` marks the racks of a signature, `even` is how many of it should go to each rack at
    first. `room` counts places up to the lower quota per rack, `extra` counts members per rack that may take one more;
    only `spare` of the whole group may.
    """
    rows, racks = len(supply), len(room)
    source, sink, extras = rows + racks, rows + racks + 1, rows + racks + 2
    network = shared.Network(rows + racks + 3)
    network.excess[:rows] = supply.tolist()
    network.excess[source] = excess
    network.excess[sink] = -int(supply.sum()) - excess
    giving = np.flatnonzero(excess_of)
    released = network.add([source] * len(giving), giving, excess_of[giving], [0] * len(giving))
    most = supply + np.minimum(excess_of, excess)
    row, rack = np.nonzero(has_replica & (most > 0)[:, None])
    nothing = [0] * len(row)
    for r in range(racks):
        network.add([rows + r] * 2, [sink, extras], [int(room[r]), int(extra[r])], [0, 0])
    network.add([extras], [sink], [spare], [0])
    first = np.minimum(even[row, rack], most[row])
    arcs = network.add(row, rows + rack, first, nothing)
    network.saturate()
    more = network.add(row, rows + rack, most[row] - first, nothing)
    network.saturate()
    flow, taken = np.zeros((rows, racks), dtype=np.int64), np.zeros(rows, dtype=np.int64)
    flow[row, rack] = np.add(network.flow(arcs), network.flow(more))
    taken[giving] = network.flow(released)
    return flow, taken


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
