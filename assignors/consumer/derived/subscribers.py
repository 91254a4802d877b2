"""Subscribers per class of topics instead of per topic, for the simple assignors.

Groups have few distinct subscriptions and many topics, so topics with the same subscribers are handled together.
"""

from dataclasses import dataclass

import numpy as np

from bellwether_kafka.assignors.consumer.derived.claims import subscriptions
from bellwether_kafka.assignors.shared import GroupView, IntArray

NO_CLASS = -1


@dataclass(frozen=True, slots=True, eq=False)
class TopicClasses:
    """Topics grouped by their subscribers.

    `of[t]` is the class of topic t, NO_CLASS if no member subscribes. `members[c]` are the subscribers of class c as
    member indices in MemberInfo order.
    """

    of: IntArray
    members: tuple[IntArray, ...]


def member_order(group: GroupView) -> IntArray:
    """Returns member indices in Java's MemberInfo order: static members first by instance id, then dynamic ones by
    member id."""
    members = group.members
    if members.instance_ids.count(None) == len(members):
        return group.by_id
    orders = [member.order for member in members]
    return np.array(sorted(range(group.size), key=orders.__getitem__), dtype=np.int32)


def topic_classes(group: GroupView, topics: int) -> TopicClasses:
    """Groups the topics by subscribers exactly, with one pass of partition refinement per distinct subscription."""
    if group.size and topics and group.wants_all(topics):
        return TopicClasses(of=np.zeros(topics, dtype=np.int32), members=(member_order(group),))
    label = np.zeros(topics, dtype=np.int32)
    following = 1
    for row in group.sets_in_use.tolist():
        wanted = group.topic_sets[row]
        split, inverse = np.unique(label[wanted], return_inverse=True)
        label[wanted] = following + inverse
        following += len(split)
    labels, first, of = np.unique(label, return_index=True, return_inverse=True)
    order = member_order(group)
    rows_in_order = group.topic_set[order]
    table = subscriptions(group, topics)
    members: list[IntArray] = []
    classes = np.full(len(labels), NO_CLASS, dtype=np.int32)
    for i, representative in enumerate(first):
        subscribers = order[table[rows_in_order, representative]]
        if len(subscribers):
            classes[i] = len(members)
            members.append(subscribers)
    return TopicClasses(of=classes[of].astype(np.int32), members=tuple(members))
