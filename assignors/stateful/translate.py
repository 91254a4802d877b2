"""Translates a group of stateful members to a Streams group, and the result back, so that both kinds use one chain, one
memory and one validation.

The topics of a topic group become a subtopology; tasks and processes correspond directly. The size of the state
differs: members report it themselves (`end`), and it takes the place of a changelog's end offsets.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bellwether_kafka.assignors.shared import Decision
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.assignors.streams.application import EndOffsets, Subtopology, Topology
from bellwether_kafka.protocol import messages
from bellwether_kafka.protocol.messages import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    StatefulTaskState,
    Task,
)
from bellwether_kafka.protocol.primitives import RemoteProtocolError, TaskId, is_topic_name

CAPACITY_TAG = "capacity"


@dataclass(frozen=True, slots=True)
class DecodedMember:
    """One member's decoded bytes. `info` is None if its userData cannot be read, `subscription` is None if nothing
    can."""

    metadata: bytes
    subscription: ConsumerProtocolSubscription | None = None
    info: messages.StatefulSubscription | None = None


def read_member(metadata: bytes) -> DecodedMember:
    """Decodes one member. Never raises: a member that cannot be read is degraded."""
    subscription = None
    try:
        subscription = ConsumerProtocolSubscription.decode(metadata)
        return DecodedMember(
            metadata, subscription, messages.StatefulSubscription.decode(subscription.user_data or b"")
        )
    except RemoteProtocolError:
        return DecodedMember(metadata, subscription)


def topology_of(group_id: str, members: Iterable[DecodedMember]) -> Topology | None:
    """Returns a topology with one topic group, 0, of all topics that members subscribe to; None if there are none or no
    member can be read.

    Members that subscribe to fewer or more topics are found later, when the topology is checked against each of them.
    Illegal topic names are ignored.
    """
    named = {t for m in members if m.info and m.subscription for t in m.subscription.topics}
    topics = sorted(filter(is_topic_name, named))
    return Topology(group_id, (Subtopology(0, tuple(topics)),), "members") if topics else None


def stateful_topology(topology: Topology, counts: Mapping[str, int]) -> Topology:
    """Gives every subtopology its largest source topic as changelog, because that has a partition for each task."""

    def with_state(subtopology: Subtopology) -> Subtopology:
        largest = max(subtopology.sources, key=lambda topic: (counts.get(topic, 0), topic), default=None)
        return replace(subtopology, changelogs=(largest,) if largest is not None else ())

    return replace(topology, subtopologies=tuple(map(with_state, topology.subtopologies)))


def end_offsets(
    topology: Topology, counts: Mapping[str, int], members: Iterable[DecodedMember], now_ms: int
) -> EndOffsets:
    """Returns the size of each task's state: the largest that any member reports."""
    changelog = {s.id: s.changelogs[0] for s in topology.subtopologies if s.changelogs}
    ends = {topic: np.zeros(counts.get(topic, 0), dtype=np.int64) for topic in changelog.values()}
    for state in (state for m in members if m.info for state in m.info.tasks):
        topic_ends, partition = ends.get(changelog.get(state.task.group, "")), state.task.partition
        if topic_ends is not None and partition < len(topic_ends):
            topic_ends[partition] = max(int(topic_ends[partition]), state.position, state.end)
    return EndOffsets(ends, now_ms)


def as_streams(member: DecodedMember, topology: Topology, counts: Mapping[str, int]) -> bytes:
    """Returns the subscription that a Streams thread in place of this member would send. Tasks that do not exist are
    left out. A task that the member reports as running counts only as state if its list of owned partitions shows that
    it runs elsewhere."""
    subscription, info = member.subscription, member.info
    if subscription is None:
        return member.metadata
    if info is None:
        return replace(subscription, version=3, user_data=None).encode()
    sources = {s.id: s.sources for s in topology.subtopologies}
    owned = set(subscription.owned_partitions)

    def exists(task: Task) -> bool:
        return any(task.partition < counts.get(topic, 0) for topic in sources.get(task.group, ()))

    def offset_sum(state: StatefulTaskState) -> int:
        mine = any((topic, state.task.partition) in owned for topic in sources[state.task.group])
        if state.running and (mine or not owned):
            return messages.LATEST_OFFSET
        return messages.UNKNOWN_OFFSET_SUM if state.position == messages.UNKNOWN else state.position

    sums = tuple((TaskId(*state.task), offset_sum(state)) for state in info.tasks if exists(state.task))
    tags = (*((key, value) for key, value in info.tags if key != CAPACITY_TAG), (CAPACITY_TAG, str(info.capacity)))
    data = messages.SubscriptionInfo(process_id=info.process_id, task_offset_sums=sums, client_tags=tags)
    rack = subscription.rack_id or info.rack
    return replace(subscription, version=3, user_data=data.encode(), rack_id=rack).encode()


def from_streams(decision: Decision[TaskPlan]) -> tuple[tuple[str, bytes], ...]:
    """Returns the assignments of a decision in the members' own format, by member id, with Bellwether's own."""
    topics = {s.id: tuple(sorted(s.sources)) for s in decision.plan.topology.subtopologies}
    warming = _warmups(decision)
    return tuple(
        (member_id, _assignment(decision, member_id, blob, topics, warming)) for member_id, blob in decision.assignments
    )


def _warmups(decision: Decision[TaskPlan]) -> set[tuple[str, TaskId]]:
    """Returns the (member id, task) pairs of the warm-ups."""
    view, target = decision.plan.view, decision.plan.target
    warmups = np.stack([target.standby_task, target.standby_process], axis=1)[target.warmup].tolist()
    return {(member, view.tasks.task_id(task)) for task, p in warmups for member in view.processes[p].members}


def _assignment(
    decision: Decision[TaskPlan],
    member_id: str,
    blob: bytes,
    topics: Mapping[int, tuple[str, ...]],
    warming: set[tuple[str, TaskId]],
) -> bytes:
    partitions = ConsumerProtocolAssignment.decode(blob).partitions
    active, standby = decision.plan.tasks_of(member_id)
    named = sorted({task.subtopology for task in (*active, *standby)})
    data = messages.StatefulAssignment(
        groups=tuple((group, topics[group]) for group in named),
        active=tuple(Task(*t[:2]) for t in active),
        copies=tuple(
            messages.Copy(Task(*t[:2]), messages.WARMUP if (member_id, t) in warming else messages.STANDBY)
            for t in standby
        ),
    )
    return ConsumerProtocolAssignment(1, partitions, data.encode()).encode()


def inspect_stateful(decision: Decision[TaskPlan], sent: Sequence[tuple[str, bytes]]) -> tuple[str, ...]:
    """Decodes translated assignments again and returns how they differ from the decision; () if they do not."""
    findings: list[str] = []
    for (member_id, blob), (theirs, original) in zip(sent, decision.assignments, strict=True):
        try:
            read = ConsumerProtocolAssignment.decode(blob)
            data = messages.StatefulAssignment.decode(read.user_data or b"")
        except RemoteProtocolError as error:
            findings.append(f"the assignment of {member_id} does not read back: {error}")
            continue
        active, standby = decision.plan.tasks_of(member_id)
        same = (
            member_id == theirs
            and read.partitions == ConsumerProtocolAssignment.decode(original).partitions
            and [tuple(task) for task in data.active] == [task[:2] for task in active]
            and [tuple(copy.task) for copy in data.copies] == [task[:2] for task in standby]
        )
        if not same:
            findings.append(f"the assignment of {member_id} is not that of the plan")
    return tuple(findings)
