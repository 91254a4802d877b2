"""Whether the processes in a rebalance run the application whose topology is known.

An upgraded application can have other stores or other subtopology numbers, and nothing on the wire shows it; led by the
old topology its tasks may never run (docs/reference/streams.md#the-topology-is-not-on-the-wire). So a process that
restarted is trusted only if the topology is attested: by the operator's word, or by the client tag TAG with the
beginning of the topology's digest. Otherwise a Java member has to lead, and Bellwether learns from it; what was learned
holds for the members that showed it.

A process with a persistent state directory keeps its id over restarts. Others come back under a new id: a new process
is taken for a restarted one when another has gone, a little earlier or later.

An attested topology can be wrong all the same: a Streams thread dies at once of a task that its own topology does not
know, and would die again after every restart. A process that restarts again and again is therefore left to Java, unless
others live on with tasks of every subtopology: then the topology is theirs, and what ends the process is its own, such
as a record that it cannot process. Of a process that is alone, records in the changelogs of every subtopology that has
any show the same.
Threads that lost their tasks, because they were too late for a rebalance or a transaction, come back under other member
ids in the same process. They go on counting their JoinGroups, where those of a new process begin anew.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from bellwether_kafka.assignors.streams.application import GUESSED, LEARNED, Topology
from bellwether_kafka.assignors.streams.members import DecodedStreams, ProcessMap, decode_streams, gather
from bellwether_kafka.coordinator.planning.streams_config import Arrivals, TaskRequest
from bellwether_kafka.protocol.primitives import ProcessId

TAG = "bellwether.topology"
TAG_CHARS = 16
# A member that was stopped stays in the group until its session expires; its successor may be there before that.
REPLACEMENT_MS = 300_000
RESTARTS_MAX, RESTARTS_MS = 2, 300_000


def tag_value(digest: str) -> str:
    """What `client.tag.bellwether.topology` must be for a topology with this digest."""
    return digest[:TAG_CHARS]


def distrust(asked: TaskRequest, topology: Topology) -> tuple[str | None, Arrivals]:
    """Why this rebalance may not rely on the topology (a sentence part, None for no reason), and the arrivals to
    bring along next time. With an empty memory there is nothing to compare with: the topology file counts, and what was
    learned counts for its witnesses. Members that Bellwether removed come back under other ids without a restart.
    """
    memory, expected = asked.memory, tag_value(topology.digest)
    decoded = decode_streams(asked.world.raw, memory.threads.keys() if memory.led else ())
    process_map = gather(decoded, memory)
    tags = {p.process_id: tag for p in process_map.processes if (tag := dict(p.tags).get(TAG)) is not None}
    for process, tag in tags.items():
        if tag != expected:
            return f"process {process} attests the topology {tag}, the configured one is {expected}", asked.arrivals
    excused = {memory.threads[m].process_id for m in asked.world.removed if m in memory.threads}
    arrivals, restarted = _compare(asked, topology, decoded, process_map, excused)
    present = [p.process_id for p in process_map.processes]
    if topology.source in (LEARNED, GUESSED):
        ids = asked.witnesses | {m.member_id for m in memory.plan.members}
        known = _continuing(decoded, process_map, ids) | excused | {*restarted}
        restarted += sorted({*present} - known)
    for process in present:
        if (times := len(arrivals.restarts.get(process, ()))) > RESTARTS_MAX:
            return (
                f"process {process} has restarted {times} times within {RESTARTS_MS // 60_000} minutes, as if it could"
                " not run its tasks; compare the topology file with its Topology.describe()"
            ), arrivals
    unattested = [] if asked.config.topology_attested else [p for p in restarted if p not in tags]
    if not unattested:
        return None, arrivals
    named = ", ".join(str(p) for p in unattested[:3])
    return (
        f"process {named} has restarted and may run another version of the application; attest the topology with"
        f" topology_attested, or with client.tag.{TAG}={expected} in the application"
    ), arrivals


def _compare(
    asked: TaskRequest,
    topology: Topology,
    decoded: DecodedStreams,
    process_map: ProcessMap,
    excused: Collection[ProcessId],
) -> tuple[Arrivals, list[ProcessId]]:
    """(arrivals, processes that have restarted since the last delivered plan or took the place of one that went)."""
    memory, arrivals, now_ms = asked.memory, asked.arrivals, asked.now_ms
    known = {record.process_id for record in memory.threads.values()}
    ends = arrivals.ends | _ends(asked, topology)
    if not known:
        return replace(arrivals, ends=ends), []
    present = {p.process_id for p in process_map.processes}
    fresh = present - _continuing(decoded, process_map, {m.member_id for m in memory.plan.members}) - {*excused}
    restarted = sorted(fresh & known)
    came = {p: at for p, at in arrivals.came.items() if p in present and now_ms - at < REPLACEMENT_MS}
    went = {p: at for p, at in arrivals.went.items() if p not in present}
    came |= dict.fromkeys(fresh - known, now_ms)
    went |= dict.fromkeys(known - present, now_ms)
    replaced = sorted(came) if went else []
    proven = _lived_with(asked, decoded, topology) >= {s.id for s in topology.subtopologies}
    if len(present) == len(known) == 1:
        proven = proven or _grown(arrivals.ends, ends, topology)
    begun = set() if proven else fresh - _counting_on(asked, decoded, process_map)
    restarts = _restarts(arrivals, present, begun, known, now_ms)
    return Arrivals(came, went, restarts, ends), [*restarted, *replaced]


def _lived_with(asked: TaskRequest, decoded: DecodedStreams, topology: Topology) -> set[int]:
    """Subtopologies of which a thread of the last plan has a partition as it comes again: it did not die of them."""
    planned = {m.member_id for m in asked.memory.plan.members}
    columns, owners = decoded.columns, topology.subtopology_of
    owned = zip(columns.owned_member.tolist(), columns.owned_topic.tolist(), strict=True)
    topics = {t for row, t in set(owned) if decoded.members[row].member_id in planned}
    return {owners[name] for t in topics if (name := columns.topic_names[t]) in owners}


def _ends(asked: TaskRequest, topology: Topology) -> dict[int, int]:
    """By subtopology the sum of its changelogs' ends, where all of them are known."""
    read = {topic: ends for topic, ends in asked.world.ends.ends.items() if (ends >= 0).all()}
    whole = (s for s in topology.subtopologies if s.changelogs and all(topic in read for topic in s.changelogs))
    return {s.id: sum(int(read[topic].sum()) for topic in s.changelogs) for s in whole}


def _grown(before: Mapping[int, int], now: Mapping[int, int], topology: Topology) -> bool:
    """Whether somebody has written state of every subtopology that has any. A thread that dies of its tasks writes
    none."""
    stateful = topology.stateful
    return bool(stateful) and all(s in before and now[s] > before[s] for s in stateful)


def _counting_on(asked: TaskRequest, decoded: DecodedStreams, process_map: ProcessMap) -> set[ProcessId]:
    """Processes whose threads have all joined more often than any of them had, by their own count. One that restarted
    begins anew: its first count may only be higher by requests that it had to repeat, and then once."""
    before: dict[ProcessId, int] = {}
    for record in asked.memory.threads.values():
        before[record.process_id] = min(record.joins, before.get(record.process_id, record.joins))
    now: dict[ProcessId, int] = {}
    for row, p in zip(process_map.member.tolist(), process_map.process.tolist(), strict=True):
        process, joins = process_map.processes[p].process_id, int(decoded.infos.joins[row])
        now[process] = min(joins, now.get(process, joins))
    return {process for process, joins in now.items() if process in before and joins > before[process]}


def _restarts(
    arrivals: Arrivals, present: set[ProcessId], fresh: set[ProcessId], known: set[ProcessId], now_ms: int
) -> dict[ProcessId, tuple[int, ...]]:
    """When each process has restarted lately. One that has a new id in each life goes on with the history of the one
    before only where nobody else is left: beside others anybody may come and go."""
    recent = {p: tuple(at for at in times if now_ms - at < RESTARTS_MS) for p, times in arrivals.restarts.items()}
    longest = max(recent.values(), key=len, default=()) if fresh == present else ()
    again = {p: (*recent.get(p, ()), now_ms) for p in fresh & known}
    if fresh == present:
        again |= {p: (*recent.get(p, longest), now_ms) for p in fresh - known}
    return {p: times for p, times in recent.items() if times} | again


def _continuing(decoded: DecodedStreams, process_map: ProcessMap, ids: Collection[str]) -> set[ProcessId]:
    """Processes with a thread that has one of these very member ids."""
    rows = zip(process_map.member.tolist(), process_map.process.tolist(), strict=True)
    return {process_map.processes[p].process_id for row, p in rows if decoded.members[row].member_id in ids}
