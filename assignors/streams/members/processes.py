"""Groups the members of a Streams group into processes.

An unreadable member degrades only itself. If memory knows it, it remains the same thread. Otherwise it is an outsider:
it gets no tasks but a valid empty assignment, because without one it would die and take its instance along
(docs/internals/client-quirks.md#java-streams-threads). No bytes of a member make this module raise.

Checks that must pass before Bellwether leads a Streams group; each names the wrong subtopology, topic or member.
Also the warnings about a rebalance.

In cases where Kafka's own leader would fail the application (missing topics, resized changelogs, copartitioning),
Bellwether leaves the lead to another member, because sending an error code would fail it too
(docs/internals/streams.md#leader-steps).
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np

from bellwether_kafka.assignors.shared import (
    ClusterView,
    IntArray,
    RawGroup,
    RawMember,
    RefusalCause,
    RefusalError,
    extended,
    racks_of,
)
from bellwether_kafka.assignors.streams import application
from bellwether_kafka.assignors.streams.application import ProcessView
from bellwether_kafka.assignors.streams.members.memory import StreamsMemory
from bellwether_kafka.protocol.bulk import InfoColumns, SubscriptionColumns, read_infos, read_subscriptions
from bellwether_kafka.protocol.messages import STREAMS_VERSION_MAX
from bellwether_kafka.protocol.primitives import HostInfo, ProcessId, java_sorted

SHUTDOWN_REQUESTED = 4
_END_POINT = re.compile(r"(?:[^/\[\]]*://)?\[?([0-9A-Za-z\-%._:]*)\]?:([0-9]{1,10})")
_PORT_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True, eq=False)
class DecodedStreams:
    """A group's decoded bytes in columns. Rows are `members`, the group without Bellwether's own member."""

    raw: RawGroup
    members: tuple[RawMember, ...]
    columns: SubscriptionColumns
    infos: InfoColumns

    @property
    def bad(self) -> dict[int, str]:
        """Unreadable members (rows), with the reasons."""
        return {**self.infos.errors, **self.columns.errors}

    @property
    def shutdown(self) -> bool:
        """Whether a member requests a shutdown of the whole application."""
        return bool((self.infos.error_code == SHUTDOWN_REQUESTED).any())


@dataclass(frozen=True, slots=True, eq=False)
class ProcessMap:
    """The threads and processes of a group. Threads are numbered as in StreamsView: `member[thread]` is the row of its
    member, `process[thread]` its process. `thread[row]` is the thread of a member, -1 for an outsider. `left_out` has
    rows and reasons. `version` is the lowest version used in the group, `common` the lowest of its latest versions.
    `future`: a member is newer than Bellwether."""

    processes: tuple[ProcessView, ...]
    member: IntArray
    process: IntArray
    thread: IntArray
    left_out: Mapping[int, str]
    version: int
    common: int
    future: bool
    warnings: tuple[str, ...] = ()

    @property
    def leader_only(self) -> bool:
        """Whether a process fetches from leaders only, so that the cluster's view must be `with_leaders`."""
        return any(process.leader_only for process in self.processes)


def decode_streams(raw: RawGroup, led: Collection[str] = ()) -> DecodedStreams:
    """Decodes each member except Bellwether's own, once. `led` are the keys of threads that Bellwether already leads,
    which proves that the application has no named topologies. A new member that uses them is then treated as
    unreadable, because if Bellwether left the lead, that member would break the next leader too."""
    members = raw.others
    columns = read_subscriptions([m.metadata for m in members])
    infos = read_infos(columns.user_data)
    if infos.named and any(m.key in led for i, m in enumerate(members) if i not in infos.named):
        odd = [i for i in infos.named if members[i].key not in led]
        infos = infos.without(dict.fromkeys(odd, "uses named topologies, which this application does not have"))
    return DecodedStreams(raw, members, columns, infos)


def future_process(group_id: str) -> ProcessId:
    """Returns the one process id for all members whose version Bellwether cannot read; it is the same in every
    rebalance."""
    return ProcessId.of_bytes(blake2b(b"future " + group_id.encode(), digest_size=16).digest())


def gather(decoded: DecodedStreams, memory: StreamsMemory) -> ProcessMap:
    """Groups the members into processes, in Java's order of UUIDs and of member ids."""
    infos, bad = decoded.infos, decoded.bad
    substitute = future_process(decoded.raw.group_id)
    rows: dict[ProcessId, list[int]] = {}
    left_out: dict[int, str] = {}
    used: set[int] = set()
    latest: set[int] = set()
    for m, raw in enumerate(decoded.members):
        if m not in bad:
            rows.setdefault(infos.process[m] or substitute, []).append(m)
            used.add(int(infos.version[m]))
            latest.add(int(infos.latest[m]))
            continue
        record = memory.threads.get(raw.key)
        if record is None:
            left_out[m] = bad[m]
            continue
        rows.setdefault(record.process_id, []).append(m)
        used.add(record.version)
        latest.add(record.latest_version)
    ordered = [(process, _by_id(decoded.members, rows[process])) for process in sorted(rows)]
    member = np.array([m for _, mine in ordered for m in mine], dtype=np.int32)
    thread = np.full(len(decoded.members), -1, dtype=np.int32)
    thread[member] = np.arange(len(member))
    readable = bad.keys()
    views = [_view(process, mine, [m for m in mine if m not in readable], decoded) for process, mine in ordered]
    return ProcessMap(
        processes=tuple([view for view, _ in views]),
        member=member,
        process=np.repeat(np.arange(len(ordered), dtype=np.int32), [len(mine) for _, mine in ordered]),
        thread=thread,
        left_out=left_out,
        version=min({STREAMS_VERSION_MAX, *used}),
        common=min({STREAMS_VERSION_MAX, *latest}),  # versions 1 and 2 do not send theirs, which Java records as -1
        future=bool(infos.future.any()),
        warnings=tuple([warning for _, warnings in views for warning in warnings]),
    )


def end_point(text: str | None) -> HostInfo | None:
    """Parses "host:port", optionally with a scheme or with brackets around the host; returns None if it is something
    else."""
    match = _END_POINT.fullmatch(text) if text else None
    if match is None or int(match[2]) > _PORT_MAX:
        return None
    return HostInfo(match[1], int(match[2]))


def _by_id(members: Sequence[RawMember], rows: Sequence[int]) -> list[int]:
    if len(rows) == 1:
        return list(rows)
    by_id = {members[m].member_id: m for m in rows}
    return [by_id[member_id] for member_id in java_sorted(by_id)]


def _view(
    process: ProcessId, rows: Sequence[int], readable: Sequence[int], decoded: DecodedStreams
) -> tuple[ProcessView, tuple[str, ...]]:
    """Returns the process as its first readable thread describes it, and warnings about threads that disagree."""
    members = tuple([decoded.members[m].member_id for m in rows])
    client_ids = tuple(client_id for m in rows if (client_id := decoded.members[m].client_id))
    if not readable:
        return ProcessView(process, members, client_ids=client_ids), ()
    infos = decoded.infos
    racks, leader_only = racks_of([decoded.members[m] for m in readable], [decoded.columns.rack[m] for m in readable])
    identities = [(rack, infos.tags[m], infos.end_point[m]) for m, rack in zip(readable, racks, strict=True)]
    first = identities[0]
    host = end_point(first[2])
    warnings = []
    if infos.process[readable[0]] is not None and any(other != first for other in identities):
        warnings.append(f"threads of process {process} disagree on rack, tags or endpoint, {members[0]} counts")
    if first[2] and host is None:
        warnings.append(f"process {process} has the endpoint {first[2]!r}, which is no host:port and left out")
    # Java ignores the racks of a process whose threads disagree on it; having no rack has the same effect.
    in_rack = first[0] if len({other[0] for other in identities}) == 1 else None
    view = ProcessView(process, members, in_rack, first[1], host, any(leader_only), client_ids)
    return view, tuple(warnings)


_PROBING_SINCE = 3
_DEADLINE_FROM = 7
_LISTED = 5


def check_members(decoded: DecodedStreams, process_map: ProcessMap) -> None:
    """Raises RefusalError if no member can be read, if one uses named topologies, or if members newer than Bellwether
    meet ones too old for version probing."""
    if not process_map.processes:
        row, reason = next(iter(process_map.left_out.items()))
        raise RefusalError(RefusalCause.MEMBERS, f"no member can be read; {decoded.members[row].member_id}: {reason}")
    if decoded.infos.named:
        member = decoded.members[min(decoded.infos.named)].member_id
        raise RefusalError(
            RefusalCause.MEMBERS, f"member {member} uses named topologies, which Bellwether does not lead"
        )
    if process_map.future and process_map.version < _PROBING_SINCE:
        reason = f"one member is newer than version 11 and another uses version {process_map.version}"
        raise RefusalError(RefusalCause.MEMBERS, reason)


def check_topology(
    decoded: DecodedStreams, process_map: ProcessMap, topology: application.Topology, cluster: ClusterView
) -> application.Topology:
    """Returns the topology with its pattern topics. Raises RefusalError unless it matches what every thread subscribes
    to."""
    if topology.undecided:
        reason = "the topology does not say which subtopology these belong to: "
        raise RefusalError(RefusalCause.TOPOLOGY, reason + ", ".join(topology.undecided[:_LISTED]))
    lists = decoded.columns.topic_lists
    subscribed = {decoded.columns.topic_list[m]: m for m in reversed(process_map.member.tolist())}
    subscribed.pop(-1, None)
    there = {t for row in subscribed for t in lists[row] if t in cluster.index or t in cluster.unreadable}
    try:
        topology = topology.resolved(there)
    except application.TopologyError as error:
        raise RefusalError(RefusalCause.TOPOLOGY, str(error)) from error
    for row, m in subscribed.items():
        if differences := topology.differences(lists[row]):
            reason = f"the topology is not that of member {decoded.members[m].member_id}: "
            raise RefusalError(RefusalCause.TOPOLOGY, reason + "; ".join(differences[:_LISTED]))
    return topology


def known_cluster(topology: application.Topology, cluster: ClusterView, memory: StreamsMemory) -> ClusterView:
    """Returns the cluster with unreadable topics at their remembered size, because they still exist. Raises
    RefusalError if the size of such a source topic is unknown."""
    seen = memory.plan.cluster
    sizes = {t: int(seen.counts[seen.index[t]]) for t in cluster.unreadable if t in seen.index}
    cluster = extended(cluster, sizes)
    for topic in topology.source_topics:
        if topic in cluster.unreadable and topic not in cluster.index:
            raise RefusalError(RefusalCause.TOPICS, f"source topic {topic} cannot be read and its size is not known")
    return cluster


def check_topics(topology: application.Topology, cluster: ClusterView) -> tuple[str, ...]:
    """Checks that every topic exists with the size that the application needs. Raises RefusalError. Returns warnings
    about defects that Streams does not check."""
    existing = {t: n for t, n in zip(cluster.topics, cluster.counts.tolist(), strict=True) if n}
    counts = application.required_counts(topology, existing)
    if counts.missing:
        topic = counts.missing[0]
        owner = topology.subtopology_of[topic]
        raise RefusalError(RefusalCause.TOPICS, f"source topic {topic} of subtopology {owner} does not exist")
    if counts.conflicts:
        raise RefusalError(RefusalCause.TOPICS, "; ".join(counts.conflicts[:_LISTED]))
    internal = (*topology.repartition_topics, *_own_changelogs(topology))
    missing = [t for t in internal if t not in existing and t not in cluster.unreadable]
    if missing:
        reason = f"internal topics do not exist: {', '.join(missing[:_LISTED])}{_way_out(topology, missing)}"
        raise RefusalError(RefusalCause.INTERNAL_TOPICS, reason)
    if wrong := application.resized(counts, existing, internal):
        raise RefusalError(RefusalCause.INTERNAL_TOPICS, "; ".join(wrong[:_LISTED]))
    unchecked = "Kafka Streams does not check this here, and records with the same key are not joined"
    return tuple(f"{line}; {unchecked}" for line in counts.unchecked)


def _way_out(topology: application.Topology, missing: Sequence[str]) -> str:
    bare = [t for t in missing if t in topology.changelogs and topology.internal(t) is None]
    if not bare:
        return ""
    return f"; a Java member that leads creates them. To lead from the first start, {application.to_describe(bare[0])}"


def fatal_to_java(topology: application.Topology, cluster: ClusterView) -> str:
    """Returns why a Java leader would fail the whole application if it rebalanced with these topics, "" if it would
    not: a missing source topic, sources that are no longer copartitioned, or internal topics whose size does not match
    the sources (docs/internals/streams.md#repartition-topics). Until a rebalance the application continues."""
    if cluster.unreadable:
        return ""
    existing = {t: n for t, n in zip(cluster.topics, cluster.counts.tolist(), strict=True) if n}
    remains = [
        replace(s, sources=tuple(t for t in s.sources if t in existing or not topology.fits_pattern(t)))
        for s in topology.subtopologies
    ]
    topology = replace(topology, subtopologies=tuple(remains))
    counts = application.required_counts(topology, existing)
    gone = [f"source topic {t} does not exist" for t in counts.missing]
    internal = (*topology.repartition_topics, *_own_changelogs(topology))
    return "; ".join([*gone, *counts.conflicts, *application.resized(counts, existing, internal)][:_LISTED])


def check_standbys(
    topology: application.Topology, memory: StreamsMemory, configs: application.AssignmentConfigs
) -> None:
    """Raises RefusalError if the last plan, made by another leader, shows a different number of standbys than
    configured here."""
    odd = memory.odd_standbys(topology.stateful, configs.num_standby_replicas, configs.max_warmup_replicas)
    if odd:
        raise RefusalError(RefusalCause.CONFIG, odd)


def _own_changelogs(topology: application.Topology) -> Iterable[str]:
    sources = set(topology.source_topics)
    return [t for t in topology.changelogs if t not in sources]


def member_warnings(decoded: DecodedStreams, process_map: ProcessMap) -> list[str]:
    """Returns warnings about unreadable members, contradictions within a process, and old and new versions."""
    ids = [m.member_id for m in decoded.members]
    degraded = {m: reason for m, reason in decoded.bad.items() if m not in process_map.left_out}
    lines = list(process_map.warnings)
    for rows, consequence in ((process_map.left_out, "gets no tasks"), (degraded, "keeps its place and its tasks")):
        lines += [f"member {ids[m]} cannot be read ({rows[m]}) and {consequence}" for m in list(rows)[:_LISTED]]
    if process_map.version < _DEADLINE_FROM and process_map.processes:
        lines.append(f"the group uses version {process_map.version}, which cannot carry the time of the next rebalance")
    if process_map.future:
        lines.append(f"members newer than version {STREAMS_VERSION_MAX} take part as one process without state")
    return lines
