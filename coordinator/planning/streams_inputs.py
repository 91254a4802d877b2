"""The configuration and the complete input of plans for a Streams application, and the plan that is made of it.

A plan is only made if the processes in the rebalance run the application whose topology is known.

An upgraded application can have other stores or other subtopology numbers, which no message shows. Under the old
topology its tasks may never run (docs/internals/streams.md#the-topology-is-not-on-the-wire). So a restarted process is
trusted only if the topology is attested: by the operator's setting, or by the client tag TAG with the first characters
of the topology's digest. Otherwise a Java member has to lead, and Bellwether learns the topology from it; a learned
topology is valid for the members that showed it.

A process with a persistent state directory keeps its id across restarts. Others come back under a new id: a new process
counts as a restarted one if another has gone shortly before or after.

An attested topology can still be wrong. A Streams thread dies at once of a task that its own topology does not have,
and again after every restart. So a process that restarts repeatedly is left to a Java leader, unless other processes
continue to run tasks of every subtopology. Then the topology is right, and something else ends the process, such as a
record that it cannot process. For a process that is alone, new records in the changelogs of every stateful subtopology
prove the same. Restarts alone prove no harm: before the restart that would exceed the limit, Bellwether asks for one
more rebalance (`probe_at_ms`). A thread that still runs joins it with its partitions, and the restarts until then no
longer count. Threads that lost their tasks, because they were too late for a rebalance or a transaction, come back
under other member ids in the same process. They continue to count their JoinGroups, while threads of a new process
start at zero.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from bellwether_kafka.assignors.shared import ClusterView, Decision, RawGroup, Refusal, RefusalCause, RefusalError, Rule
from bellwether_kafka.assignors.streams import Assignors, TaskPlan, decide_streams, stock, without_host_maps
from bellwether_kafka.assignors.streams.application import GUESSED, LEARNED, AssignmentConfigs, EndOffsets, Topology
from bellwether_kafka.assignors.streams.members import (
    DecodedStreams,
    ProcessMap,
    StreamsMemory,
    decode_streams,
    gather,
)
from bellwether_kafka.assignors.streams.policies import STREAMS_HA
from bellwether_kafka.assignors.streams.stages import NO_STAGES, StageConfigs
from bellwether_kafka.coordinator.membership import NotLeading, Obstacle
from bellwether_kafka.coordinator.planning.inspection import inspect, oversized
from bellwether_kafka.coordinator.planning.planned import Planned
from bellwether_kafka.coordinator.topology import settle
from bellwether_kafka.protocol.primitives import ProcessId

TAG = "bellwether.topology"
TAG_CHARS = 16
# A stopped member stays in the group until its session expires; its successor may join before that.
REPLACEMENT_MS = 300_000
RESTARTS_MAX, RESTARTS_MS = 2, 300_000
# A thread dies of a wrong task while it takes the assignment, so one that joins again after this time runs its tasks.
SURVIVED_MS = 5_000
_LISTED = 5
TASK_STALL_MS = 600_000
STORES_UNDECLARED = Obstacle(
    NotLeading.UNDECLARED,
    'stores = "persistent" is not declared, and in-memory stores would have to be restored; write it if the application'
    ' has no others, or adopt = "succeed"',
)


@dataclass(frozen=True, slots=True)
class StreamsConfig:
    """The configuration of the planner.

    `topology`: a file; None: it is learned. `task_stall_ms`: how long a task with records to read may commit nothing
    before an alert; if shorter than 5 min, also how long a whole group may, before it is handed back.
    `standby_lag_max`: in records; None: no limit. `durable`: stores are declared persistent, and a crash does not
    delete them (as it does under exactly_once_v2). `replication_factor` (-1: the brokers' default) and `topic_configs`
    apply to all internal topics. `standbys_unknown`: take num.standby.replicas from the present plan, for applications
    that are only observed.
    """

    application_id: str
    topology: Path | None = None
    topology_attested: bool = False
    exactly_once: bool = False
    policy: str = "kafka"
    configs: AssignmentConfigs = field(default_factory=AssignmentConfigs)
    task_stall_ms: int = TASK_STALL_MS
    standby_lag_max: int | None = None
    stages: StageConfigs = NO_STAGES
    stateful: bool = False
    durable: bool = False
    replication_factor: int = -1
    topic_configs: tuple[tuple[str, str], ...] = ()
    standbys_unknown: bool = False

    @property
    def stock_assignors(self) -> Assignors:
        """The stock policies with the configured stages."""
        return stock(self.stages, durable=self.durable)

    def with_rules(self, rules: tuple[Rule, ...]) -> "StreamsConfig":
        """Returns the configuration under an operator's orders on placement, which only `streams-ha` applies."""
        return replace(self, stages=replace(self.stages, rules=rules))


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Processes that came and went while Bellwether led, and when (epoch milliseconds). `restarts`: when processes that
    are present have restarted lately. `ends`: by subtopology, the sum of its changelogs' end offsets at the last
    read."""

    came: dict[ProcessId, int] = field(default_factory=dict)
    went: dict[ProcessId, int] = field(default_factory=dict)
    restarts: dict[ProcessId, tuple[int, ...]] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class World:
    """What was read for one decision. `removed`: see `commands.Decide`."""

    raw: RawGroup
    topology: Topology
    cluster: ClusterView
    ends: EndOffsets
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """The complete input of a plan, except the assignors: what was read, and what the planner knew. A `dry` plan is not
    sent; a `cheap` one is by the assignors' fallback."""

    world: World
    config: StreamsConfig
    memory: StreamsMemory
    arrivals: Arrivals
    learned_from_members: frozenset[str]
    now_ms: int
    seed: int
    message_bytes_max: int
    dry: bool = False
    cheap: bool = False

    @property
    def raw(self) -> RawGroup:
        return self.world.raw

    @property
    def cluster(self) -> ClusterView:
        return self.world.cluster

    @property
    def record(self) -> "TaskRequest | None":
        return None if self.cheap else self

    def under(
        self, rules: tuple[Rule, ...], message_bytes_max: int, *, cheap: bool = False, dry: bool = False
    ) -> "TaskRequest":
        config = self.config.with_rules(rules) if rules and not cheap else self.config
        return replace(self, config=config, message_bytes_max=message_bytes_max, cheap=cheap, dry=dry)

    def planned(self, assignors: Assignors) -> Planned[TaskPlan]:
        """Returns the plan, the guard's findings, and the arrivals to remember if it is sent. Raises RefusalError, a
        final one if no other plan would be valid."""
        world, *others = _settled(self)
        objection, arrived = distrust(self, world.topology)
        if objection is not None:
            raise RefusalError(RefusalCause.TOPOLOGY, objection)
        by = self._by(assignors)
        decision = _decided(by, self, world)
        if any(_decided(by, self, other).assignments != decision.assignments for other in others):
            raise RefusalError(RefusalCause.TOPOLOGY, _undecided(self.world.topology.undecided))
        for finding in oversized(world.raw, decision.assignments, self.message_bytes_max):
            decision = without_host_maps(decision, finding) or decision
        probes = [at_ms for at_ms in (decision.probing_at_ms, probe_at_ms(arrived, self.now_ms)) if at_ms is not None]
        decision = replace(decision, probing_at_ms=min(probes, default=None))
        findings = inspect(world.raw, decision, message_bytes_max=self.message_bytes_max)
        return Planned(decision, findings=findings, arrivals=arrived)

    def _by(self, assignors: Assignors) -> Assignors:
        """Returns what plans: of operators' orders only the configuration knows, wherever the plan is made."""
        if self.cheap:
            return replace(assignors, assign=lambda view, configs, _: assignors.fallback(view, configs), cheap=True)
        ordered = self.config.policy == STREAMS_HA and self.config.stages.rules
        return self.config.stock_assignors if ordered else assignors


def _decided(assignors: Assignors, asked: TaskRequest, world: World) -> Decision[TaskPlan]:
    config, configs, memory = asked.config, asked.config.configs, asked.memory
    if config.standbys_unknown:
        configs = replace(configs, num_standby_replicas=memory.usual_standbys(world.topology.stateful))
        memory = replace(memory, standbys={})  # no configured number that they could contradict
    decision = decide_streams(
        world.raw,
        world.cluster,
        world.ends,
        world.topology,
        memory,
        configs,
        config.policy,
        asked.now_ms,
        asked.seed,
        assignors=assignors,
    )
    if isinstance(decision, Refusal):
        raise decision.error()
    return decision


def _settled(asked: TaskRequest) -> list[World]:
    """Returns one World per topology consistent with what members reported; the plan is valid only if it is the same
    for all of them. Raises RefusalError if there are too many."""
    world, topology = asked.world, asked.world.topology
    if topology.source != LEARNED or not topology.undecided:
        return [world]
    settled = settle(topology, world.raw, asked.memory, world.cluster, world.ends.ends)
    if not settled.open:
        return [replace(world, topology=settled.topology)]
    # A single process gets all tasks, whatever their lags; and removed members report offsets when they come back.
    if asked.dry or len(gather(decode_streams(world.raw), asked.memory).processes) < 2:
        return [replace(world, topology=settled.topology, ends=EndOffsets.failed(_undecided(settled.open)))]
    if not settled.ways:
        raise RefusalError(RefusalCause.TOPOLOGY, _undecided(settled.open))
    return [replace(world, topology=way) for way in settled.ways]


def _undecided(changelogs: tuple[str, ...]) -> str:
    named = ", ".join(changelogs[:_LISTED])
    return f"what threads have reported does not show yet which subtopology these belong to: {named}"


# ---- attestation ---------------------------------------------------------------------------------------------------


def tag_value(digest: str) -> str:
    """Returns the value that `client.tag.bellwether.topology` must have for a topology with this digest."""
    return digest[:TAG_CHARS]


def probe_at_ms(arrivals: Arrivals, now_ms: int) -> int | None:
    """Returns when threads should join again, because a process has restarted in this rebalance as often as it may;
    None if there is no need."""
    at_limit = any(len(times) >= RESTARTS_MAX and times[-1] == now_ms for times in arrivals.restarts.values())
    return now_ms + SURVIVED_MS if at_limit else None


def distrust(asked: TaskRequest, topology: Topology) -> tuple[str | None, Arrivals]:
    """Returns why this rebalance may not rely on the topology (part of a sentence, None if it may), and the arrivals
    for the next call.

    An empty memory allows no comparison: the topology file is trusted, and a learned topology for its witnesses.
    Members that Bellwether removed come back under other ids without a restart.
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
        ids = asked.learned_from_members | {m.member_id for m in memory.plan.members}
        accounted_for = _continuing(decoded, process_map, ids) | excused | {*restarted}
        restarted += sorted({*present} - accounted_for)
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
    """Returns the arrivals, and the processes that have restarted since the last delivered plan or replace one that has
    gone."""
    memory, arrivals, now_ms = asked.memory, asked.arrivals, asked.now_ms
    remembered = {record.process_id for record in memory.threads.values()}
    ends = arrivals.ends | _ends(asked, topology)
    if not remembered:
        return replace(arrivals, ends=ends), []
    present = {p.process_id for p in process_map.processes}
    fresh = present - _continuing(decoded, process_map, {m.member_id for m in memory.plan.members}) - {*excused}
    restarted = sorted(fresh & remembered)
    came = {p: at for p, at in arrivals.came.items() if p in present and now_ms - at < REPLACEMENT_MS}
    went = {p: at for p, at in arrivals.went.items() if p not in present}
    came |= dict.fromkeys(fresh - remembered, now_ms)
    went |= dict.fromkeys(remembered - present, now_ms)
    replaced = sorted(came) if went else []
    proven = _lived_with(asked, decoded, topology) >= {s.id for s in topology.subtopologies}
    if len(present) == len(remembered) == 1:
        proven = proven or _grown(arrivals.ends, ends, topology)
    begun = fresh - _counting_on(asked, decoded, process_map)
    restarts = {} if proven else _restarts(arrivals, present, begun, remembered, now_ms)
    return Arrivals(came, went, restarts, ends), [*restarted, *replaced]


def _lived_with(asked: TaskRequest, decoded: DecodedStreams, topology: Topology) -> set[int]:
    """Returns the subtopologies whose tasks did not kill their thread: a thread of the last plan still owns a
    partition."""
    planned = {m.member_id for m in asked.memory.plan.members}
    columns, owners = decoded.columns, topology.subtopology_of
    owned = zip(columns.owned_member.tolist(), columns.owned_topic.tolist(), strict=True)
    topics = {t for row, t in set(owned) if decoded.members[row].member_id in planned}
    return {owners[name] for t in topics if (name := columns.topic_names[t]) in owners}


def _ends(asked: TaskRequest, topology: Topology) -> dict[int, int]:
    """Returns, by subtopology, the sum of its changelogs' end offsets; only where all of them are known."""
    read = {topic: ends for topic, ends in asked.world.ends.ends.items() if (ends >= 0).all()}
    whole = (s for s in topology.subtopologies if s.changelogs and all(topic in read for topic in s.changelogs))
    return {s.id: sum(int(read[topic].sum()) for topic in s.changelogs) for s in whole}


def _grown(before: Mapping[int, int], now: Mapping[int, int], topology: Topology) -> bool:
    """Returns whether state of every stateful subtopology has been written. A thread that dies of its tasks writes
    none."""
    stateful = topology.stateful
    return bool(stateful) and all(s in before and now[s] > before[s] for s in stateful)


def _counting_on(asked: TaskRequest, decoded: DecodedStreams, process_map: ProcessMap) -> set[ProcessId]:
    """Returns the processes that have not restarted, by their own counts: every thread has joined more often than any
    thread of the process had before. A restarted process starts at zero; its first count can be higher at most once, by
    requests that it had to repeat."""
    before: dict[ProcessId, int] = {}
    for record in asked.memory.threads.values():
        before[record.process_id] = min(record.joins, before.get(record.process_id, record.joins))
    now: dict[ProcessId, int] = {}
    for row, p in zip(process_map.member.tolist(), process_map.process.tolist(), strict=True):
        process, joins = process_map.processes[p].process_id, int(decoded.infos.joins[row])
        now[process] = min(joins, now.get(process, joins))
    return {process for process, joins in now.items() if process in before and joins > before[process]}


def _restarts(
    arrivals: Arrivals, present: set[ProcessId], fresh: set[ProcessId], remembered: set[ProcessId], now_ms: int
) -> dict[ProcessId, tuple[int, ...]]:
    """Returns when each process has restarted lately. A process that gets a new id at each restart continues the
    history of the previous one only if no other process is left: beside others, processes may come and go for any
    reason."""
    recent = {p: tuple(at for at in times if now_ms - at < RESTARTS_MS) for p, times in arrivals.restarts.items()}
    longest = max(recent.values(), key=len, default=()) if fresh == present else ()
    again = {p: (*recent.get(p, ()), now_ms) for p in fresh & remembered}
    if fresh == present:
        again |= {p: (*recent.get(p, longest), now_ms) for p in fresh - remembered}
    return {p: times for p, times in recent.items() if times} | again


def _continuing(decoded: DecodedStreams, process_map: ProcessMap, ids: Collection[str]) -> set[ProcessId]:
    """Returns the processes that have a thread with one of these member ids."""
    rows = zip(process_map.member.tolist(), process_map.process.tolist(), strict=True)
    return {process_map.processes[p].process_id for row, p in rows if decoded.members[row].member_id in ids}
