"""Finds anomalies in a group's assignment and membership, as a broker shows them. Pure.

No assignor gives a partition two owners on purpose, but bugs in sticky assignors have done so
(KAFKA-12984).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, GroupPlan, IntArray, LongArray
from bellwether_kafka.coordinator.kafka.wire import AssignedPartitions, BrokerGroup, BrokerMember
from bellwether_kafka.coordinator.membership import STREAMS_PROTOCOL
from bellwether_kafka.coordinator.names import listed
from bellwether_kafka.coordinator.observation.findings import APART_MIN, UNEVEN, Finding, FindingKind, of_kind
from bellwether_kafka.coordinator.planning import subtopology_numbers
from bellwether_kafka.protocol.primitives import TopicPartition

BY_TOPIC = 'policy = "topic-balance"'
HAND_OVERS_SHOWN = 4
OF_PATTERNS = (
    "a broker matches a pattern by RE2/J and over the whole name (^topic finds only topic; write ^topic.*), and leaves"
    " out topics that the member has no right to DESCRIBE"
)


@dataclass(frozen=True, slots=True)
class Behind:
    """A member that has confirmed the assignment of an older epoch than the group has."""

    member_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class HandOver:
    """Items, as they are displayed, that `successor` is to have and that one of `behind` has to give up first. If the
    broker still shows the items as assigned, `behind` is that member; what is being given up it shows with nobody."""

    items: tuple[str, ...]
    successor: str
    behind: tuple[Behind, ...]
    epoch: int

    @property
    def sentence(self) -> str:
        who = " or ".join(f"{m.member_id}, at epoch {m.epoch} of {self.epoch}," for m in self.behind)
        return f"{who} has to give up {listed(self.items)}, which {self.successor} is to have"


class Holds(Protocol):
    """A member with its subscription and its assigned partitions."""

    @property
    def member_id(self) -> str: ...
    @property
    def topics(self) -> tuple[str, ...]: ...
    @property
    def owned(self) -> tuple[TopicPartition, ...]: ...


def of_assignment(members: Iterable[Holds], counts: Mapping[str, int]) -> tuple[Finding, ...]:
    """Returns the anomalies of an assignment. `counts` are the partition counts of the known topics. A member whose
    subscription is unknown counts as subscribed to every topic."""
    owners: dict[TopicPartition, list[str]] = defaultdict(list)
    absent: list[tuple[TopicPartition, str]] = []
    foreign: list[tuple[TopicPartition, str]] = []
    for member in members:
        subscribed = frozenset(member.topics)
        for partition in member.owned:
            owners[partition].append(member.member_id)
            if subscribed and partition.topic not in subscribed:
                foreign.append((partition, member.member_id))
            elif partition.partition >= counts.get(partition.topic, partition.partition + 1):
                absent.append((partition, member.member_id))
    double = {partition: names for partition, names in owners.items() if len(names) > 1}
    return (*_two_owners(double), *_no_such_partition(absent, counts), *_not_subscribed(foreign))


def _two_owners(double: Mapping[TopicPartition, Sequence[str]]) -> Iterator[Finding]:
    if not double:
        return
    each = [f"{_named(partition)} ({listed(names)})" for partition, names in double.items()]
    message = f"Partitions have two owners or more: {listed(each)}."
    remedy = (
        "Their records are read twice, and commits of one owner overwrite those of the other. Restart these members,"
        " and check the assignor of the member that leads; a plan of Bellwether has one owner for each partition."
    )
    yield of_kind(FindingKind.TWO_OWNERS, message, remedy, count=len(double))


def _no_such_partition(absent: Sequence[tuple[TopicPartition, str]], counts: Mapping[str, int]) -> Iterator[Finding]:
    if not absent:
        return
    each = [
        f"{_named(partition)} ({member}; {partition.topic} has {counts[partition.topic]})"
        for partition, member in absent
    ]
    message = f"Members have partitions that do not exist: {listed(each)}."
    remedy = "Restart the member that leads: the topic may have been created again with fewer partitions."
    yield of_kind(FindingKind.NO_SUCH_PARTITION, message, remedy, count=len(absent))


def _not_subscribed(foreign: Sequence[tuple[TopicPartition, str]]) -> Iterator[Finding]:
    if not foreign:
        return
    each = [f"{_named(partition)} ({member})" for partition, member in foreign]
    message = f"Members have partitions of topics to which they do not subscribe: {listed(each)}."
    remedy = (
        "Such a member may not read them, and no other member does. A static member that returned with other topics"
        " keeps its partitions until a rebalance: restart the member that leads."
    )
    yield of_kind(FindingKind.NOT_SUBSCRIBED, message, remedy, count=len(foreign))


def hand_overs(group: BrokerGroup) -> tuple[HandOver, ...]:
    """Returns what waits for a member of a group that its broker reconciles: an item goes to its next owner only once
    the present one has confirmed that it gave it up, which one that does not poll does not. Nothing of a group that is
    settled, or whose next owners only have not been told yet."""
    numbers = subtopology_numbers(group)
    has = {member.member_id: _names_of(member.assigned, numbers) for member in group.members}
    owner = {item: name for name, items in has.items() for item in items}
    epochs = {member.member_id: member.epoch for member in group.members}
    behind = [name for name, epoch in sorted(epochs.items()) if 0 <= epoch < group.epoch]
    waiting: defaultdict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for member in sorted(group.members, key=lambda member: member.member_id):
        for item in _to_come(member, has, numbers):
            holder = owner.get(item)
            holders = (holder,) if holder is not None else tuple(m for m in behind if m != member.member_id)
            if holders:
                waiting[member.member_id, holders].append(item)
    return tuple(
        HandOver(tuple(items), successor, tuple(Behind(name, epochs[name]) for name in holders), group.epoch)
        for (successor, holders), items in waiting.items()
    )


def _to_come(member: BrokerMember, has: dict[str, list[str]], numbers: dict[str, int]) -> list[str]:
    mine = frozenset(has[member.member_id])
    return [item for item in _names_of(member.target, numbers) if item not in mine]


def _names_of(assigned: AssignedPartitions, numbers: dict[str, int]) -> list[str]:
    """Returns the names of partitions, or those of tasks as Java prints them."""
    return [
        f"{numbers[name]}_{partition}" if name in numbers else f"{name}-{partition}"
        for name, partitions in assigned
        for partition in partitions
    ]


def of_hand_overs(hand_overs: Sequence[HandOver]) -> tuple[Finding, ...]:
    """Returns an anomaly if members of a group that its broker reconciles keep others from what they are to have."""
    if not hand_overs:
        return ()
    message = f"The broker waits for members: {'; '.join(each.sentence for each in hand_overs[:HAND_OVERS_SHOWN])}."
    remedy = (
        "A member confirms when it polls, max.poll.interval.ms (5 minutes unless set) later at the latest: see its log"
        " for a poll that takes long, and restart it if it does not return. Another assignor would wait, too."
    )
    return (of_kind(FindingKind.HELD_UP, message, remedy, count=sum(len(each.items) for each in hand_overs)),)


def of_patterns(patterns: Sequence[str], unread: Sequence[str]) -> tuple[Finding, ...]:
    """Returns an anomaly if nobody reads topics of which a group has offsets, while its members subscribe by patterns
    that brokers match. No broker lists what a pattern finds."""
    if not patterns or not unread:
        return ()
    message = (
        f"The group has committed offsets of topics that nobody reads: {listed(unread)}. Its members subscribe by the"
        f" pattern {' and '.join(patterns[:2])}."
    )
    remedy = f"If they should be read: {OF_PATTERNS}. Else their offsets end after offsets.retention.minutes."
    return (of_kind(FindingKind.NOT_MATCHED, message, remedy, count=len(unread)),)


def of_processes(processes: Iterable[tuple[str, Iterable[str]]]) -> tuple[Finding, ...]:
    """Returns an anomaly if threads with one process id run on several hosts, as after a volume was copied: they count
    as one process. `processes` are the ids with the hosts of their threads."""
    double = [(process, sorted({*hosts})) for process, hosts in processes]
    double = [(process, hosts) for process, hosts in double if len(hosts) > 1]
    if not double:
        return ()
    each = [f"{process} ({' and '.join(hosts)})" for process, hosts in double]
    message = f"Threads on several hosts have one process id and are planned as one process: {listed(each)}."
    remedy = (
        "A state directory has been copied: stop the application on all but one of these hosts, and delete"
        " kafka-streams-process-metadata below state.dir there. Until then a standby may be beside its task."
    )
    return (of_kind(FindingKind.TWO_HOSTS, message, remedy, count=len(double)),)


def of_applications(subscriptions: Iterable[tuple[str, Iterable[str]]], protocol: str) -> tuple[Finding, ...]:
    """Returns an anomaly if the members fall into sets that share no topic. `subscriptions` are the names and topics of
    members. Streams threads are skipped: all of them have the same subscription."""
    if protocol == STREAMS_PROTOCOL:
        return ()
    named = [(name, frozenset(topics)) for name, topics in subscriptions]
    parts = _components({topics for _, topics in named if topics})
    if len(parts) < 2:
        return ()
    names: list[set[str]] = [set() for _ in parts]
    for name, topics in named:
        first = next(iter(topics), None)
        for place, part in enumerate(parts):
            if first in part:
                names[place].add(name)
    each = sorted(f"{listed(sorted(who))} ({listed(sorted(part))})" for who, part in zip(names, parts, strict=True))
    number = "two" if len(parts) == 2 else str(len(parts))
    message = (
        f"This looks like {number} applications under one group id: no topic is common to {' and '.join(each[:4])}."
    )
    remedy = "If so, give each a group.id of its own: a restart of one makes the members of all others rebalance."
    return (of_kind(FindingKind.TWO_APPLICATIONS, message, remedy, count=len(parts)),)


def _components(subscriptions: Iterable[frozenset[str]]) -> list[set[str]]:
    """Returns disjoint sets of topics. Two topics are in the same set if subscriptions connect them."""
    parts: list[set[str]] = []
    for topics in subscriptions:
        touched = [part for part in parts if part & topics]
        parts = [part for part in parts if not part & topics]
        parts.append(set(topics).union(*touched))
    return parts


def of_shares(plan: GroupPlan, present: IntArray | LongArray) -> tuple[Finding, ...]:
    """Returns an anomaly for topics that are spread unevenly although the members' totals are equal. `present` are
    the owners of all partitions, with the indices of `plan`. Only members with the same subscription are compared."""
    if plan.words.kind != "consumer":
        return ()
    readers = _readers(plan)
    totals = np.bincount(present[present != NOBODY], minlength=len(plan.owners))
    cluster, uneven = plan.cluster, dict[str, tuple[int, int, int]]()
    for topic, first, count in zip(cluster.topics, cluster.first.tolist(), cluster.counts.tolist(), strict=False):
        owner, who = present[first : first + count], readers.get(topic)
        if who is None or not count or (owner == NOBODY).any() or np.ptp(totals[who]) > 1:
            continue
        shares = np.bincount(owner, minlength=len(totals))[who]
        most, fewest = int(shares.max()), int(shares.min())
        if most - fewest >= APART_MIN and most > UNEVEN * count / len(who):
            uneven[topic] = most, fewest, count
    if not uneven:
        return ()
    worst = sorted(uneven.items(), key=lambda item: (item[1][1] - item[1][0], item[0]))
    each = [f"of the {count} partitions of {topic} members have {low} to {most}" for topic, (most, low, count) in worst]
    message = f"Members have unequal shares of a topic although their totals are equal: {listed(each)}."
    remedy = f"If topics differ in load, lead the group with {BY_TOPIC}, which spreads each topic evenly."
    return (of_kind(FindingKind.UNEVEN_TOPIC, message, remedy, setting=BY_TOPIC, count=len(uneven)),)


def _readers(plan: GroupPlan) -> dict[str, LongArray]:
    """Returns the owners subscribed to each topic, for those topics whose owners all have the same subscription."""
    classes: dict[frozenset[str], list[int]] = defaultdict(list)
    for place, owner in enumerate(plan.owners):
        classes[owner.topics].append(place)
    times: dict[str, int] = defaultdict(int)
    for topics in classes:
        for topic in topics:
            times[topic] += 1
    return {
        topic: np.array(places, dtype=np.int64)
        for topics, places in classes.items()
        for topic in topics
        if times[topic] == 1
    }


def _named(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"
