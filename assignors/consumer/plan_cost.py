"""The cost of a plan: the one scoring that the chain, metrics, dry runs and recorded rebalances share."""

import numpy as np

from bellwether_kafka.assignors.consumer.derived import components, mismatched, wanted
from bellwether_kafka.assignors.shared import NOBODY, BoolArray, ClusterView, Cost, GroupView, IntArray


def score(group: GroupView, cluster: ClusterView, owner: IntArray) -> Cost:
    """Returns the cost of a plan. A partition without an owner only counts as `unowned`, and only if its topic is
    subscribed. Members without a rack and partitions with unknown replica racks never cross racks. `spread` is that of
    the worst component."""
    return Cost(
        unowned=int((wanted(group, cluster) & (owner == NOBODY)).sum()),
        cross_rack=int(crossing(group, cluster, owner).sum()),
        spread=imbalance(group, cluster, owner)[0],
    )


def crossing(group: GroupView, cluster: ClusterView, owner: IntArray) -> BoolArray:
    """Marks partitions whose owner's rack holds no replica, where the owner's rack and the racks of the replicas are
    known."""
    flats = np.flatnonzero(owner != NOBODY)
    result = np.zeros(len(owner), dtype=np.bool_)
    result[flats] = mismatched(cluster, group.rack[owner[flats]], flats)
    return result


def imbalance(group: GroupView, cluster: ClusterView, owner: IntArray) -> tuple[int, float]:
    """Returns (the worst spread, the standard deviation) over all components, as work cannot move between
    components."""
    count = np.bincount(owner[owner != NOBODY], minlength=group.size)
    parts = [count[c.members] for c in components(group, len(cluster.topics))]
    if not parts:
        return 0, 0.0
    worst = max(int(part.max() - part.min()) for part in parts)
    # In integers, so that equal counts of other members give the same figure to the last digit.
    squares = sum(int((part * part).sum()) - int(part.sum()) ** 2 / len(part) for part in parts)
    return worst, float(np.sqrt(squares / sum(map(len, parts))))
