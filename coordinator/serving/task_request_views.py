"""Converts a broker's request for an application to the input of a plan, as if a member led it, and the plan back.

A broker's assignor sees neither topics nor their racks. If the group has been observed with the same tasks, its
topology and its topics are those of the observation. Otherwise each subtopology has one invented source topic: then a
plan is balanced and spreads standbys, but does not place active tasks by rack.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bellwether_kafka.assignors.shared import (
    NO_RACK,
    ClusterView,
    IntArray,
    LongArray,
    RawGroup,
    RawMember,
    lookup,
    offsets,
)
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.assignors.streams.application import EndOffsets, Topology, build_tasks
from bellwether_kafka.coordinator.kafka.wire import BrokerGroup, BrokerMember, BrokerSubtopology
from bellwether_kafka.coordinator.membership import STREAMS_PROTOCOL
from bellwether_kafka.coordinator.planning import classic_view, topology_of
from bellwether_kafka.coordinator.serving.known import KnownMember
from bellwether_kafka.coordinator.serving.wire_tasks import UNKNOWN, TaskGroup

GENERATION = 1  # of all claims: a broker knows what each member runs
BEGUN = 1  # the offset sum of a copy whose member has not reported one yet

Assigned = tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True, eq=False)
class KnownApplication:
    """What an observation shows of an application and a broker's assignor does not see."""

    topology: Topology
    cluster: ClusterView

    def fits(self, group: TaskGroup) -> bool:
        """Returns whether these are the tasks of the request: their number and state, by subtopology."""
        table = build_tasks(self.topology, self.cluster, EndOffsets())[0].table
        ids, first, counts = np.unique(table.subtopology, return_index=True, return_counts=True)
        shown = {
            str(number): (int(n), bool(table.stateful[at])) for number, at, n in zip(ids, first, counts, strict=True)
        }
        return shown == dict(zip(group.subtopologies, zip(group.counts, group.stateful, strict=True), strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class TaskViews:
    """The input of `decide_streams`."""

    raw: RawGroup
    cluster: ClusterView
    ends: EndOffsets
    topology: Topology


def task_views(
    group: TaskGroup,
    observed: KnownApplication | None,
    group_id: str,
    read_at: float,
    members_seen: Sequence[KnownMember | None] = (),
) -> TaskViews:
    """Returns the views of a request. `members_seen` is what was observed of its members. Raises TopologyError if the
    topology contradicts itself."""
    if observed is not None and not observed.fits(group):
        observed = None
    parts = _invented(group) if observed is None else _observed(observed.topology)
    cluster = _cluster(group, parts, read_at) if observed is None else observed.cluster
    shown = BrokerGroup(
        group_id=group_id,
        protocol="streams",
        error=0,
        epoch=GENERATION,
        members=_members(group),
        subtopologies=parts,
    )
    described = classic_view(shown).members
    seen = dict(zip(group.members, members_seen, strict=False))
    joined = tuple(
        RawMember(
            member.member_id, member.instance_id, member.metadata, client_id=_client_id(seen.get(member.member_id))
        )
        for member in described
    )
    return TaskViews(
        raw=RawGroup(group_id, GENERATION, STREAMS_PROTOCOL, joined),
        cluster=cluster,
        ends=EndOffsets(_ends(group, parts)),
        topology=topology_of(shown) if observed is None else observed.topology,
    )


def _client_id(seen: KnownMember | None) -> str:
    return "" if seen is None else seen.client_id


def as_asked(group: TaskGroup, plan: TaskPlan) -> IntArray:
    """Returns the plan in the request's order: the member of each task, then (member, task) of each standby."""
    table, first = plan.view.tasks, offsets(group.counts)
    numbers = _numbers(group)
    row_of = {numbers[name]: row for row, name in enumerate(group.subtopologies)}
    begins = np.array([first[row_of[number]] for number in table.subtopology.tolist()], dtype=np.int64)
    task_of = (begins + table.partition).astype(np.int32)
    position = {member: m for m, member in enumerate(group.members)}
    member_of = np.array([position[member.member_id] for member in plan.joined], dtype=np.int32)
    owner = np.empty(len(task_of), dtype=np.int32)
    owner[task_of] = member_of[plan.process_map.member[plan.threads.active]]
    lasting = ~plan.target.warmup
    standby_member = member_of[plan.process_map.member[plan.threads.standby[lasting]]]
    pairs = np.stack([standby_member, task_of[plan.target.standby_task[lasting]]], axis=1)
    return np.concatenate([owner, pairs.reshape(-1)]).astype(np.int32)


def _numbers(group: TaskGroup) -> dict[str, int]:
    """Returns numbers for subtopology ids, as `classic_view` does."""
    plain = all(name.isdecimal() for name in group.subtopologies)
    return {name: int(name) if plain else number for number, name in enumerate(group.subtopologies)}


def _observed(topology: Topology) -> tuple[BrokerSubtopology, ...]:
    return tuple(
        BrokerSubtopology(
            subtopology_id=str(part.id),
            sources=tuple(topic for topic in part.sources if topic not in part.repartition_sources),
            repartitions=part.repartition_sources,
            changelogs=part.changelogs,
        )
        for part in topology.subtopologies
    )


def _invented(group: TaskGroup) -> tuple[BrokerSubtopology, ...]:
    return tuple(
        BrokerSubtopology(
            subtopology_id=name,
            sources=(f"subtopology-{name}",),
            repartitions=(),
            changelogs=(f"subtopology-{name}-changelog",) if stateful else (),
        )
        for name, stateful in zip(group.subtopologies, group.stateful, strict=True)
    )


def _cluster(group: TaskGroup, parts: tuple[BrokerSubtopology, ...], read_at: float) -> ClusterView:
    """Returns the invented topics, without racks of their partitions, but with those of members."""
    counts = {
        topic: count
        for part, count in zip(parts, group.counts, strict=True)
        for topic in (*part.sources, *part.changelogs)
    }
    topics, racks = tuple(sorted(counts)), tuple(sorted(group.racks))
    sizes = [counts[topic] for topic in topics]
    total = sum(sizes)
    return ClusterView(
        topics=topics,
        counts=np.array(sizes, dtype=np.int32),
        first=offsets(sizes),
        racks=racks,
        signature=np.zeros(total, dtype=np.int32),
        signature_racks=np.zeros((1, len(racks)), dtype=np.bool_),
        leader_rack=np.full(total, NO_RACK, dtype=np.int32),
        read_at=read_at,
        index={topic: i for i, topic in enumerate(topics)},
    )


def _members(group: TaskGroup) -> tuple[BrokerMember, ...]:
    task_names = [(name, p) for name, n in zip(group.subtopologies, group.counts, strict=True) for p in range(n)]
    runs, copies = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
    for task, member in enumerate(group.owner.tolist()):
        runs[member].append(task)
    for member, task in group.copies.tolist():
        copies[member].append(task)
    sums = _offset_sums(group)
    return tuple(
        BrokerMember(
            member_id=member,
            instance_id=group.instances[m],
            rack=group.racks[group.rack_of[m]] if group.rack_of[m] >= 0 else None,
            client_id="",
            client_host="",
            topics=(),
            assigned=_by_subtopology(runs[m], task_names),
            standby=_by_subtopology(copies[m], task_names),
            process_id=group.processes[group.process_of[m]],
            tags=group.tags[group.tags_of[m]],
            offsets=tuple((*task_names[task], offset) for task, offset in sums.get(m, {}).items()),
        )
        for m, member in enumerate(group.members)
    )


def _by_subtopology(tasks: list[int], task_names: list[tuple[str, int]]) -> Assigned:
    partitions = defaultdict[str, list[int]](list)
    for task in tasks:
        name, partition = task_names[task]
        partitions[name].append(partition)
    return tuple((name, tuple(numbers)) for name, numbers in partitions.items())


def _offset_sums(group: TaskGroup) -> dict[int, dict[int, int]]:
    """Returns the offset sums by member and task. Members report every minute, so a copy without an offset is younger
    than that."""
    stateful = np.repeat(np.array(group.stateful, dtype=np.bool_), group.counts)
    sums = defaultdict[int, dict[int, int]](dict)
    for member, task in group.copies.tolist():
        if stateful[task]:
            sums[member][task] = BEGUN
    for (member, task), offset in zip(group.reported.tolist(), group.offsets.tolist(), strict=True):
        if stateful[task]:
            sums[member][task] = max(0, offset)
    return sums


def _ends(group: TaskGroup, parts: tuple[BrokerSubtopology, ...]) -> Mapping[str, LongArray]:
    """Returns end offsets whose sums are those of the tasks: the first changelog has them, and the others are empty.
    An unknown end is beyond all reported offsets, and each beyond that of a copy that has just begun."""
    sums, first = np.maximum(group.ends, BEGUN + 1), offsets(group.counts)
    unknown = lookup(group.ends == UNKNOWN, group.reported[:, 1], False)
    np.maximum.at(sums, group.reported[:, 1], group.offsets + unknown)
    rows = {name: row for row, name in enumerate(group.subtopologies)}
    ends: dict[str, LongArray] = {}
    for part in parts:
        row = rows[part.subtopology_id]
        mine = sums[first[row] : first[row + 1]]
        ends |= {topic: mine if i == 0 else np.zeros_like(mine) for i, topic in enumerate(part.changelogs)}
    return ends
