"""Splits a group into connected components: members that share topics, directly or through other members.

Components cannot help each other, so each is solved alone: disjoint subscriptions add no cost, and a component whose
members all subscribe to the same topics is levelled in linear time.
"""

from dataclasses import dataclass

import numpy as np

from bellwether_kafka.assignors.shared import ClusterView, GroupView, IntArray, LongArray


@dataclass(frozen=True, slots=True, eq=False)
class Component:
    """One component. `members` are member indices ordered by member id, `topics` are sorted topic indices, `sets` are
    the distinct subscriptions in it (rows of `GroupView.topic_sets`)."""

    members: IntArray
    topics: IntArray
    sets: IntArray

    @property
    def uniform(self) -> bool:
        return len(self.sets) == 1

    def flats(self, cluster: ClusterView) -> LongArray:
        """Returns the flat partitions of the topics, ordered by topic and partition."""
        if len(self.topics) == len(cluster.topics):
            return np.arange(cluster.partition_total)
        inside = np.zeros(len(cluster.topics), dtype=np.bool_)
        inside[self.topics] = True
        return np.flatnonzero(np.repeat(inside, cluster.counts))


def components(group: GroupView, topic_total: int) -> list[Component]:
    """Returns the components of a group. Members without subscriptions and topics without subscribers are in none."""
    sets: IntArray = np.array([s for s in group.sets_in_use.tolist() if len(group.topic_sets[s])], dtype=np.int32)
    if not len(sets):
        return []
    if len(group.topic_sets) == 1:
        return [Component(group.by_id, group.topic_sets[0], sets)]
    if len(sets) == 1:
        members = group.by_id[group.topic_set[group.by_id] == sets[0]]
        return [Component(members, group.topic_sets[sets[0]], sets)]
    label = _labels([group.topic_sets[s] for s in sets], topic_total)
    root_of_set = np.full(len(group.topic_sets), -1, dtype=np.int32)
    root_of_set[sets] = [label[group.topic_sets[s][0]] for s in sets]
    root_of_member = root_of_set[group.topic_set[group.by_id]]
    wanted = np.zeros(topic_total, dtype=np.bool_)
    wanted[np.concatenate([group.topic_sets[s] for s in sets])] = True
    topics = np.flatnonzero(wanted).astype(np.int32)
    parts = []
    members_by_root = _grouped(root_of_member, group.by_id)
    topics_by_root = _grouped(label[topics], topics)
    sets_by_root = _grouped(root_of_set[sets], sets)
    for root, inside in sets_by_root.items():
        parts.append(Component(members_by_root[root], topics_by_root[root], inside))
    return parts


def _labels(sets: list[IntArray], topic_total: int) -> IntArray:
    """Returns, per topic, the lowest topic of its component (label propagation with pointer jumping)."""
    lengths = np.array([len(s) for s in sets], dtype=np.int64)
    topic = np.concatenate(sets)
    starts = np.cumsum(lengths) - lengths
    label = np.arange(topic_total, dtype=np.int32)
    while True:
        lowest = np.repeat(np.minimum.reduceat(label[topic], starts), lengths)
        lower = label.copy()
        np.minimum.at(lower, topic, lowest)
        np.minimum.at(lower, label[topic], lowest)
        lower = lower[lower]
        if np.array_equal(lower, label):
            return label
        label = lower


def _grouped(keys: IntArray, values: IntArray) -> dict[int, IntArray]:
    """Returns the values of each key >= 0, in their original order."""
    order = np.argsort(keys, kind="stable")
    unique, first = np.unique(keys[order], return_index=True)
    parts = np.split(values[order], first[1:])
    return {int(key): part for key, part in zip(unique, parts, strict=True) if key >= 0}
