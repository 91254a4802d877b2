"""Exchanges partitions between single members, after a plan is level: first for fewer reads from other racks, then for
fewer moves.

`constrained` and `general` place quickly, and look at members of a kind together or at free partitions alone. What a
member gives up and what it gets instead follows here. The result is exact (`cycles`): no plan with equally even loads
has fewer partitions outside their members' racks, nor, with as few, keeps more.
"""

import numpy as np

from bellwether_kafka.assignors.consumer.derived import Component, remote_racks, subscriptions
from bellwether_kafka.assignors.consumer.sticky.cycles import reduce_cost
from bellwether_kafka.assignors.consumer.sticky.filling import ClassCounts
from bellwether_kafka.assignors.shared import (
    NOBODY,
    BoolArray,
    ClusterView,
    GroupView,
    IntArray,
    LongArray,
    run_ordinals,
)

# Above this many cells (kind of partition, member) the plan stays as it is: a few passes would take seconds.
CELLS = 4_000_000


def exchange(
    group: GroupView, cluster: ClusterView, component: Component, flats: LongArray, before: IntArray, placed: IntArray
) -> IntArray:
    """Returns the cheapest plan that is as level as `placed`, which stays where nothing can be saved.

    `before`, `placed` and the result are positions in `component.members`, and `before` NOBODY for free partitions.
    """
    size = len(component.members)
    remote = remote_racks(cluster)
    racks = group.rack[component.members]
    had, load = np.bincount(before[before >= 0], minlength=size), np.bincount(placed, minlength=size)
    # No plan keeps more than if the members that had most also get most.
    kept_max = int(np.minimum(np.sort(had), np.sort(load)).sum())
    if np.count_nonzero(placed == before) == kept_max and not remote[cluster.signature[flats], racks[placed]].any():
        return placed
    topic_kind, allowed = _readers(group, cluster, component)
    topic = topic_kind[np.searchsorted(cluster.first, flats, side="right") - 1]
    signatures = len(cluster.signature_racks)
    kinds, kind = np.unique(topic.astype(np.int64) * signatures + cluster.signature[flats], return_inverse=True)
    if len(kinds) * size > CELLS:
        return placed
    counts = ClassCounts(
        partitions=_tally(kind, placed, len(kinds), size),
        allowed=allowed[kinds // signatures],
        stuck=_tally(kind, before, len(kinds), size),
        size=np.ones(size, dtype=np.int64),
        supply=np.bincount(kind),
        load=load,
    )
    was = counts.partitions.copy()
    reduce_cost(counts, remote[np.ix_(kinds % signatures, racks)])
    keeps = int(np.minimum(counts.partitions, counts.stuck).sum())
    if np.array_equal(was, counts.partitions) and np.count_nonzero(placed == before) == keeps:
        return placed
    return dealt(kind, before, placed, counts.partitions)


def _readers(group: GroupView, cluster: ClusterView, component: Component) -> tuple[LongArray, BoolArray]:
    """Returns (per topic the number of its set of subscribers, `[that number, member]`: whether the member
    subscribes)."""
    kind_of = np.zeros(len(cluster.topics), dtype=np.int64)
    if component.uniform:
        return kind_of, np.ones((1, len(component.members)), dtype=np.bool_)
    table = subscriptions(group, len(cluster.topics))[np.ix_(component.sets, component.topics)]
    kinds, kind_of[component.topics] = np.unique(table, axis=1, return_inverse=True)
    row = np.searchsorted(component.sets, group.topic_set[component.members])
    return kind_of, kinds.T[:, row]


def _tally(kind: LongArray, owner: IntArray, kinds: int, size: int) -> LongArray:
    owned = np.flatnonzero(owner >= 0)
    return np.bincount(kind[owned] * size + owner[owned], minlength=kinds * size).reshape(kinds, size)


def dealt(kind: LongArray, before: IntArray, placed: IntArray, count: LongArray) -> IntArray:
    """Picks partitions for counts per (kind, member): members keep what they had, then what `placed` gives them, as far
    as the counts allow, and get the rest in order."""
    size = count.shape[1]
    owner = np.full(len(kind), NOBODY, dtype=np.int32)
    for wish in (before, placed):
        room = (count - _tally(kind, owner, len(count), size)).ravel()
        item = np.flatnonzero((owner == NOBODY) & (wish >= 0))
        cell = kind[item] * size + wish[item]
        order = np.lexsort((item, placed[item] != wish[item], cell))
        item, cell = item[order], cell[order]
        item = item[run_ordinals(cell) < room[cell]]
        owner[item] = wish[item]
    rest = np.flatnonzero(owner == NOBODY)
    rest = rest[np.argsort(kind[rest], kind="stable")]
    room = (count - _tally(kind, owner, len(count), size)).ravel()
    owner[rest] = np.tile(np.arange(size), len(count)).repeat(room)
    return owner
