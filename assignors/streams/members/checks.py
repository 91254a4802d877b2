"""Checks that must pass before Bellwether leads a Streams group; each names the wrong subtopology, topic or member.
Also the warnings about a rebalance.

In cases where Kafka's own leader would fail the application (missing topics, resized changelogs, copartitioning),
Bellwether leaves the lead to another member, because sending an error code would fail it too
(docs/internals/streams.md#leader-steps).
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from bellwether_kafka.assignors.shared import ClusterView, RefusalCause, RefusalError, extended
from bellwether_kafka.assignors.streams import application
from bellwether_kafka.assignors.streams.members.claims import ThreadClaims
from bellwether_kafka.assignors.streams.members.memory import StreamsMemory
from bellwether_kafka.assignors.streams.members.process_map import DecodedStreams, ProcessMap
from bellwether_kafka.protocol.messages import STREAMS_VERSION_MAX

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


def state_warnings(claims: ThreadClaims, decoded: DecodedStreams, trouble: str | None) -> list[str]:
    """Returns warnings about unknown lags, refused claims, and members that did not rejoin."""
    ids = [m.member_id for m in decoded.members]
    lines = [f"lags are not known, so tasks stay where they are: {trouble}"] if trouble else []
    lines += [f"member {ids[m]} {what}" for m, what in list(claims.refused.reasons.items())[:_LISTED]]
    silent = [ids[m] for m in np.flatnonzero(claims.silent)[:_LISTED].tolist()]
    if silent and not decoded.raw.resting:
        lines.append(f"members did not join again and count as owners of their last tasks: {', '.join(silent)}")
    return lines
