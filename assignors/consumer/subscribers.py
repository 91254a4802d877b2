"""Who subscribes to what, per class of topics instead of per topic: the front part that the simple assignors share.

Real groups have few distinct subscriptions and many topics, so topics with the same subscribers are handled at once.
"""

from dataclasses import dataclass

import numpy as np

from assignors.model import BoolArray, GroupView, IntArray

NO_CLASS = -1


@dataclass(frozen=True, slots=True, eq=False)
class TopicClasses:
    """Topics grouped by their subscribers.

    `of[t]` is the class of topic t, NO_CLASS where nobody subscribes. `members[c]` are the subscribers of class c as
    member indices in MemberInfo order.
    """

    of: IntArray
    members: tuple[IntArray, ...]


def member_order(group: GroupView) -> IntArray:
    """Member indices in Java's MemberInfo order: static members first by instance id, then dynamic ones by id."""
    members = group.members
    return np.array(sorted(range(group.size), key=lambda m: members[m].order), dtype=np.int32)


def subscription_table(group: GroupView, topics: int) -> BoolArray:
    """`[row of topic_sets, topic]`: whether that subscription has that topic."""
    table = np.zeros((max(1, len(group.topic_sets)), topics), dtype=np.bool_)
    for row, wanted in enumerate(group.topic_sets):
        table[row, wanted] = True
    return table


def used_sets(group: GroupView) -> IntArray:
    """The rows of `topic_sets` that at least one member has."""
    return np.unique(group.topic_set)


def topic_classes(group: GroupView, topics: int) -> TopicClasses:
    """Splits the topics by subscribers: exact, one pass of partition refinement per distinct subscription."""
    rows = used_sets(group)
    label = np.zeros(topics, dtype=np.int32)
    following = 1
    for row in rows:
        wanted = group.topic_sets[row]
        split, inverse = np.unique(label[wanted], return_inverse=True)
        label[wanted] = following + inverse
        following += len(split)
    found, first, of = np.unique(label, return_index=True, return_inverse=True)
    order = member_order(group)
    rows_in_order = group.topic_set[order]
    table = subscription_table(group, topics)
    members: list[IntArray] = []
    classes = np.full(len(found), NO_CLASS, dtype=np.int32)
    for i, representative in enumerate(first):
        subscribers = order[table[rows_in_order, representative]]
        if len(subscribers):
            classes[i] = len(members)
            members.append(subscribers)
    return TopicClasses(of=classes[of].astype(np.int32), members=tuple(members))


def components(group: GroupView, topics: int) -> IntArray:
    """The connected component of every member: members linked by shared topics; NO_CLASS for members without topics.

    Work can only be levelled inside a component.
    """
    of_topic = np.arange(topics, dtype=np.int32)
    rows = [group.topic_sets[row] for row in used_sets(group) if len(group.topic_sets[row])]
    changed = True
    while changed:
        changed = False
        for wanted in rows:
            lowest = of_topic[wanted].min()
            if (of_topic[wanted] != lowest).any():
                of_topic[wanted] = lowest
                changed = True
        of_topic = of_topic[of_topic]
    of_set = np.array([of_topic[w[0]] if len(w) else NO_CLASS for w in group.topic_sets], dtype=np.int32)
    return of_set[group.topic_set] if group.size else np.zeros(0, dtype=np.int32)
