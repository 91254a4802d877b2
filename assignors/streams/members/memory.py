"""What the leader of a Streams group remembers: what it delivered to which thread, and the identity of these threads.

The partitions sent are in the same `Memory` as for consumer groups. Only Streams needs the rest: the process of every
thread, when it last joined, and how many standbys the last plan had.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from bellwether_kafka.assignors.consumer import recall
from bellwether_kafka.assignors.shared import (
    NOBODY,
    AssignedMember,
    BoolArray,
    ClusterView,
    IntArray,
    LongArray,
    Memory,
    Rule,
    digest,
)
from bellwether_kafka.assignors.streams.application import ProcessView, StreamsPlan, ThreadPlan
from bellwether_kafka.protocol.bulk import SubscriptionColumns, read_infos, read_subscriptions
from bellwether_kafka.protocol.messages import AssignmentInfo, ConsumerProtocolAssignment
from bellwether_kafka.protocol.primitives import ProcessId, RemoteProtocolError, TaskId

HAND_OVER_MS = 3_000  # between two hand-overs of running tasks


@dataclass(frozen=True, slots=True)
class ThreadRecord:
    """A thread as last seen. `joined_at_ms` is when its current bytes first arrived, and so when its offset sums were
    read. `joins` is its own count of its JoinGroups, modulo 256, 0 if it does not send one."""

    process_id: ProcessId
    version: int
    latest_version: int
    digest: bytes
    joined_at_ms: int
    joins: int = 0


@dataclass(frozen=True, slots=True)
class Home:
    """The process that ran a task until it left, and when it was first missed (epoch milliseconds)."""

    process_id: ProcessId
    left_at_ms: int


@dataclass(frozen=True, slots=True, eq=False)
class ProcessRecord:
    """The tasks that one process runs, has state of or was given: parallel arrays of subtopology ids and partitions.

    `ran`: tasks that it runs. `kept`: tasks of which it was given a standby or a warm-up. `home`: tasks that it ran
    until it restarted, or until an order evacuated it. `hidden`: state that it has not reported since its restart,
    which was seen at `restarted_ms` (epoch). It was first missed at `went_ms`. Others took over all that it ran at
    `evacuated_ms`, by an order or because it `died`. Times are None if there was no such event.
    """

    subtopology: IntArray
    partition: IntArray
    ran: BoolArray
    kept: BoolArray
    home: BoolArray
    hidden: BoolArray
    restarted_ms: int | None = None
    went_ms: int | None = None
    evacuated_ms: int | None = None
    died: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Destinations:
    """Where tasks should end up: parallel arrays of subtopology ids, partitions and positions in `processes`, the
    processes for which they were chosen. `handed_over_ms` (epoch) is when tasks last left processes that ran them, None
    if never."""

    processes: tuple[ProcessView, ...]
    subtopology: IntArray
    partition: IntArray
    process: IntArray
    handed_over_ms: int | None = None

    def next_hand_over_ms(self, now_ms: int) -> int:
        """Returns when tasks may leave processes that run them again. After a clock was set back, that is now."""
        at_ms = self.handed_over_ms
        return now_ms if at_ms is None or at_ms > now_ms else max(now_ms, at_ms + HAND_OVER_MS)


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """The placement of a plan that left tasks pending, in its own coordinates: those of `processes` and of tasks by
    parallel arrays of subtopology ids and partitions. `with_state` are ascending codes of (process, task) of pending
    tasks whose new process reported state of them. `rules` are the orders under which it was made. `by_policy` is False
    if it was made by what serves when the policy cannot."""

    plan: StreamsPlan
    threads: ThreadPlan
    pending: BoolArray
    with_state: LongArray
    processes: tuple[ProcessView, ...]
    subtopology: IntArray
    partition: IntArray
    lags_known: bool
    rules: tuple[Rule, ...]
    by_policy: bool


@dataclass(frozen=True, slots=True, eq=False)
class StreamsMemory:
    """The plan of `plan.generation` as it was SENT. `threads` are by member key (instance id, else member id).

    `led`: the plan was Bellwether's; otherwise it was read from the group, and `standbys` counts the processes that had
    a standby of each task. `processes` is how many took part in it.
    `homes` are the tasks of processes that left recently (host affinity). `records` are the tasks of each process (see
    `hidden_state`). `destinations` are those of the last plan, None if the policy has none. `target` is its placement,
    None if nothing is pending.
    """

    plan: Memory
    threads: Mapping[str, ThreadRecord] = field(default_factory=dict)
    led: bool = False
    standbys: Mapping[TaskId, int] = field(default_factory=dict)
    processes: int = 0
    homes: Mapping[TaskId, Home] = field(default_factory=dict)
    records: Mapping[ProcessId, ProcessRecord] = field(default_factory=dict)
    owned: Memory = field(default_factory=Memory.empty)
    destinations: Destinations | None = None
    target: Target | None = None

    @classmethod
    def empty(cls) -> "StreamsMemory":
        return cls(Memory.empty())

    @property
    def generation(self) -> int:
        return self.plan.generation

    def joined_at_ms(self, key: str, metadata: bytes, now_ms: int) -> int:
        """Returns when this metadata first arrived: a member that did not rejoin reports what it knew then."""
        record = self.threads.get(key)
        return record.joined_at_ms if record and record.digest == digest(metadata) else now_ms

    def usual_standbys(self, stateful: Collection[int]) -> int:
        """Returns how many standbys most tasks of these subtopologies have in the plan; 0 if unknown."""
        counts = self._standbys_of(stateful)
        return counts[len(counts) // 2] if counts else 0

    def _standbys_of(self, stateful: Collection[int]) -> list[int]:
        """Returns the standby counts of these subtopologies' tasks, ascending."""
        return sorted(n for task, n in self.standbys.items() if task.subtopology in stateful)

    def odd_standbys(self, stateful: Collection[int], configured: int, max_warmups: int) -> str | None:
        """Returns why the standbys of another leader's plan do not fit this configuration, None if they do. `stateful`
        are subtopology ids. Each warm-up adds one copy, so that many extra copies are allowed; nothing explains that
        all tasks have fewer than configured."""
        counts = self._standbys_of(stateful)
        if self.led or not counts or self.processes < 2:
            return None
        wanted = min(configured, self.processes - 1)
        excess = sum(max(0, n - wanted) for n in counts)
        if counts[-1] >= wanted and excess <= max_warmups:
            return None
        return (
            f"num.standby.replicas is {configured} here, but the present plan of {self.processes} processes keeps"
            f" {self.usual_standbys(stateful)} standbys of most tasks: set it to what the application has"
        )


def recall_streams(
    generation: int, protocol: str, cluster: ClusterView, described: Sequence[AssignedMember]
) -> StreamsMemory:
    """Returns the memory that a new leader can get from DescribeGroups of a Stable group. No bytes make it raise. The
    time when these members joined is unknown, so their reports count as being from the epoch."""
    columns = read_subscriptions([d.metadata for d in described])
    infos = read_infos(columns.user_data)
    threads: dict[str, ThreadRecord] = {}
    copies: dict[TaskId, set[ProcessId]] = {}
    sent: dict[ProcessId, dict[TaskId, bool]] = {}  # whether the task runs there
    for m, (member, process) in enumerate(zip(described, infos.process, strict=True)):
        if process is None:
            continue
        version, latest = int(infos.version[m]), int(infos.latest[m])
        key = member.instance_id or member.member_id
        threads[key] = ThreadRecord(process, version, latest, digest(member.metadata), 0, int(infos.joins[m]))
        given = assignment_info(member.assignment) or AssignmentInfo()
        mine = sent.setdefault(process, {})
        for task in given.active_tasks:
            copies.setdefault(task, set())
            mine[task] = True
        for task, _ in given.standby_tasks:
            copies.setdefault(task, set()).add(process)
            mine.setdefault(task, False)
    plan = recall(generation, protocol, cluster, described)
    return StreamsMemory(
        plan=plan,
        threads=MappingProxyType(threads),
        standbys=MappingProxyType({task: len(holders) for task, holders in copies.items()}),
        processes=len({record.process_id for record in threads.values()}),
        records=MappingProxyType({process: _record_of(tasks) for process, tasks in sent.items()}),
        owned=replace(plan, owner=_owned(columns, plan.cluster)),
    )


def _record_of(tasks: Mapping[TaskId, bool]) -> ProcessRecord:
    """Returns what one process was sent, and whether it should run it."""
    ordered = sorted(tasks, key=lambda task: task[:2])
    subtopology = np.array([task.subtopology for task in ordered], dtype=np.int32)
    partition = np.array([task.partition for task in ordered], dtype=np.int32)
    nothing = np.zeros(len(ordered), dtype=np.bool_)
    ran = np.array([tasks[task] for task in ordered], dtype=np.bool_)
    return ProcessRecord(subtopology, partition, ran, ~ran, nothing, nothing)


def owned_partitions(columns: SubscriptionColumns, cluster: ClusterView) -> tuple[LongArray, LongArray]:
    """Returns (member row, flat partition) of all partitions that members claim to own and that exist."""
    if not len(columns.owned_member) or not cluster.topics:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    index = np.array([cluster.index.get(name, NOBODY) for name in columns.topic_names], dtype=np.int64)
    topic, number = index[columns.owned_topic], columns.owned_partition
    real = (topic != NOBODY) & (number >= 0) & (number < cluster.counts[topic])
    return columns.owned_member[real].astype(np.int64), cluster.first[topic[real]] + number[real]


def _owned(columns: SubscriptionColumns, cluster: ClusterView) -> IntArray:
    """Returns, per flat partition, the row of a member that claimed it when it joined, NOBODY if none did."""
    owner: IntArray = np.full(cluster.partition_total, NOBODY, dtype=np.int32)
    member, flat = owned_partitions(columns, cluster)
    owner[flat] = member
    owner.flags.writeable = False
    return owner


def assignment_info(assignment: bytes) -> AssignmentInfo | None:
    """Returns the Streams part of an encoded assignment, None if there is none or it cannot be read."""
    try:
        data = ConsumerProtocolAssignment.decode(assignment).user_data
        return AssignmentInfo.decode(data) if data else None
    except RemoteProtocolError:
        return None
