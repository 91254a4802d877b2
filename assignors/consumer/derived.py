"""Facts that assignors derive from a view: owners, components, racks and subscribers.

* An owner is the member whose claim has the highest generation, or whom memory trusts more. Two claims of the same
  highest generation cancel each other, a stale claim that no other contests is honoured, and a claim to a topic that
  its member does not subscribe to is ignored. For `t-0`, claimed by A in generation 7 and by B in 5, that is A.
* A component has members that share topics, directly or through others. Components cannot help each other, so each is
  solved alone: disjoint subscriptions add no cost.
* Topics with the same subscribers are one class, because groups have few subscriptions and many topics.
"""

from dataclasses import dataclass

import numpy as np

from bellwether_kafka.assignors.shared import NO_RACK, NOBODY, BoolArray, ClusterView, GroupView, IntArray, LongArray

UNCLAIMED = -2


def claimants(group: GroupView) -> IntArray:
    """Returns the member index of each entry of `group.claims`."""
    if not len(group.claims):
        return np.zeros(0, dtype=np.int32)
    return np.arange(group.size, dtype=np.int32).repeat(group.claims_first[1:] - group.claims_first[:-1])


def compare(
    claimant: IntArray, claims: IntArray, generation: IntArray, partition_total: int
) -> tuple[IntArray, IntArray]:
    """Returns, per flat partition, (the member with the claim of the highest generation, NOBODY if none or several;
    that generation, or UNCLAIMED). `claimant`, `claims` (flat partitions) and `generation` are parallel arrays."""
    winner = np.full(partition_total, NOBODY, dtype=np.int32)
    best = np.full(partition_total, UNCLAIMED, dtype=np.int32)
    winner[claims] = claimant
    best[claims] = generation
    # This assignment keeps one claimant per partition. If a member does not find itself, the partition has several.
    if len(claims) and (winner[claims] != claimant).any():
        times = np.bincount(claims, minlength=partition_total)
        several = np.flatnonzero(times[claims] > 1)
        order = several[np.lexsort((generation[several], claims[several]))]
        partition, age = claims[order], generation[order]
        last = np.append(partition[1:] != partition[:-1], True)
        top = np.flatnonzero(last)
        tie = (partition[top] == partition[top - 1]) & (age[top] == age[top - 1])
        best[partition[top]] = age[top]
        winner[partition[top]] = np.where(tie, NOBODY, claimant[order[top]])
    return winner, best


def subscriptions(group: GroupView, topic_total: int) -> BoolArray:
    """Returns a table of whether each distinct subscription (row) contains each topic (column)."""
    table = np.zeros((len(group.topic_sets), topic_total), dtype=np.bool_)
    for row, topics in enumerate(group.topic_sets):
        table[row, topics] = True
    return table


def wanted(group: GroupView, cluster: ClusterView) -> BoolArray:
    """Marks the flat partitions of topics to which at least one member subscribes."""
    topics = np.logical_or.reduce(subscriptions(group, len(cluster.topics))[group.sets_in_use], axis=0)
    return np.repeat(topics, cluster.counts)


def current_owner(group: GroupView, cluster: ClusterView) -> IntArray:
    """Returns the owner of each flat partition before this rebalance, NOBODY if there is none or claims cancel each
    other.

    An owner always subscribes to the topic.
    """
    if group.current is not None:
        return group.current
    if not len(group.claims) and not (group.remembered != NOBODY).any():
        return np.full(cluster.partition_total, NOBODY, dtype=np.int32)
    claimant, claims = claimants(group), group.claims
    everything = group.wants_all(len(cluster.topics))
    if not everything:
        table, topic_of = subscriptions(group, len(cluster.topics)), cluster.topic_of()
    if not everything and len(claims):
        fit = table[group.topic_set[claimant], topic_of[claims]]
        claimant, claims = claimant[fit], claims[fit]
    winner, age = compare(claimant, claims, group.claim_generation[claimant], cluster.partition_total)
    remembered = group.remembered
    trusted = (remembered != NOBODY) & (age <= group.remembered_generation)
    if not trusted.any():
        return winner
    if not everything:
        trusted &= table[group.topic_set[np.maximum(remembered, 0)], topic_of]
    return np.where(trusted, remembered, winner).astype(np.int32)


def former_owners(group: GroupView, cluster: ClusterView, current: IntArray) -> tuple[IntArray, LongArray]:
    """Returns (member, flat partition) of claims by members other than the current owner, only the newest of each
    partition: its former owners. There are several if they claim the same generation."""
    claimant, claims = claimants(group), group.claims
    over = np.flatnonzero(current[claims] != claimant)
    if not len(over):
        return claimant[over], over
    if not group.wants_all(len(cluster.topics)):
        table = subscriptions(group, len(cluster.topics))
        over = over[table[group.topic_set[claimant[over]], cluster.topic_of()[claims[over]]]]
    claimant, claims = claimant[over], claims[over].astype(np.int64)
    newest = np.full(cluster.partition_total, UNCLAIMED, dtype=np.int32)
    age = group.claim_generation[claimant]
    np.maximum.at(newest, claims, age)
    last = age == newest[claims]
    return claimant[last], claims[last]


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


def rack_matters(cluster: ClusterView, racks: IntArray, flats: IntArray | LongArray) -> bool:
    """Returns whether members in these racks differ in how many of these flat partitions they read from another rack.

    KIP-881 also asks whether the partitions differ in their replica racks, because Java's algorithm only exchanges some
    for others. That would leave the only partition of a topic in the wrong rack for good.
    """
    signatures = np.flatnonzero(np.bincount(cluster.signature[flats], minlength=len(cluster.signature_racks)))
    remote = remote_racks(cluster)[np.ix_(signatures, np.unique(racks))]
    return bool((remote != remote[:, :1]).any())


def remote_racks(cluster: ClusterView) -> BoolArray:
    """Returns `[signature, rack]`: whether a member in that rack reads a partition with these replica racks from
    another rack. A member without a rack never does, and nobody does if the replica racks are unknown.

    NO_RACK and FOREIGN_RACK, as negative indices, are the last columns.
    """
    rows, racks = cluster.signature_racks.shape
    remote: BoolArray = np.ones((rows, racks + 2), dtype=np.bool_)
    remote[:, :racks] = ~cluster.signature_racks
    remote[:, NO_RACK] = False
    remote[~cluster.signature_racks.any(axis=1)] = False
    return remote


def mismatched(cluster: ClusterView, racks: IntArray, flats: IntArray | LongArray) -> BoolArray:
    """Marks partitions that their member reads from another rack. `racks` has the rack of each partition's member."""
    return np.asarray(remote_racks(cluster)[cluster.signature[flats], racks])


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
