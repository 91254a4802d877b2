"""The broker's partition assignors as policies for comparison. Bellwether never leads with them (see
`assignors/broker_side`)."""

import numpy as np

from bellwether_kafka.assignors.broker_side import OF_PARTITIONS, Subscriber
from bellwether_kafka.assignors.consumer.derived import current_owner
from bellwether_kafka.assignors.consumer.registry import Policy
from bellwether_kafka.assignors.shared import NOBODY, ClusterView, GroupView, IntArray

BROKER_SIDE = tuple(OF_PARTITIONS)


def broker_side(name: str) -> Policy:
    """Returns the policy for a name in `BROKER_SIDE`."""
    return Policy(name, {name: BrokerSide(name)})


class BrokerSide:
    """Adapts a broker-side assignor to Bellwether's interface. Topics are passed sorted by name, members in the view's
    order."""

    cooperative = False

    def __init__(self, name: str) -> None:
        self.name, self._of_partitions = name, OF_PARTITIONS[name]

    def assign(self, group: GroupView, cluster: ClusterView) -> IntArray:
        owners_by_topic = self._of_partitions(_subscribers(group, cluster), cluster.counts.tolist())
        flat = [owner for topic in owners_by_topic for owner in topic]
        return np.array(flat, dtype=np.int32)


def _subscribers(group: GroupView, cluster: ClusterView) -> list[Subscriber]:
    owner, topic = current_owner(group, cluster), cluster.topic_of()
    owned: list[dict[int, list[int]]] = [{} for _ in range(group.size)]
    assigned = np.flatnonzero(owner != NOBODY)
    numbers = assigned - cluster.first[topic[assigned]]
    for m, t, p in zip(owner[assigned].tolist(), topic[assigned].tolist(), numbers.tolist(), strict=True):
        owned[m].setdefault(t, []).append(p)
    wanted = [frozenset(topics.tolist()) for topics in group.topic_sets]
    ids = zip(group.members.ids, group.members.instance_ids, group.topic_set.tolist(), owned, strict=True)
    return [Subscriber(member, instance, wanted[row], mine) for member, instance, row, mine in ids]
