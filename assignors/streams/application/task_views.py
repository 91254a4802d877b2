"""The frozen views that Streams task assignors read and the plan that they return: tasks and processes as dense arrays.

Coordinates:

* task index: position in the table of all tasks, sorted by subtopology, then partition;
* process index: position in `StreamsView.processes`, in Java's UUID order (two signed 64-bit halves);
* rack index: as in `assignors.shared.dense_views` (NO_RACK unknown, FOREIGN_RACK a rack without a broker).

Named topologies are not modelled: groups that use them are refused earlier.
"""

from dataclasses import dataclass, field

import numpy as np

from bellwether_kafka.assignors.shared import BoolArray, ClusterView, IntArray, LongArray, Ragged, StageReport
from bellwether_kafka.protocol.primitives import HostInfo, ProcessId, TaskId

LATEST_OFFSET = -2
UNKNOWN_OFFSET_SUM = -3
PINNED = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Subtopology:
    """One subtopology with full topic names. `changelogs` may include a source topic that is reused as changelog."""

    id: int
    sources: tuple[str, ...]
    repartition_sources: tuple[str, ...] = ()
    repartition_sinks: tuple[str, ...] = ()
    changelogs: tuple[str, ...] = ()
    copartition_groups: tuple[tuple[str, ...], ...] = ()

    @property
    def stateful(self) -> bool:
        return bool(self.changelogs)


@dataclass(frozen=True, slots=True, eq=False)
class TaskTable:
    """All tasks of the application.

    `stateful` has Kafka's internal meaning: the subtopology has a changelog. `end_sum` is the sum of the end offsets of
    the task's changelog partitions (0 for stateless tasks), UNKNOWN_OFFSET_SUM for all tasks after a failed fetch.
    `racks` are those of the columns of the cluster's view. `source_remote[source_signature[t], r]` counts the source
    partitions of task t that are not local to column r; one more column, for FOREIGN_RACK, counts all of them (views
    without foreign racks may omit it). `changelog_remote` is analogous. `racks_known` and `changelog_racks_known`: all
    replicas of these partitions have a known rack.
    """

    subtopologies: tuple[Subtopology, ...]
    subtopology: IntArray
    partition: IntArray
    stateful: BoolArray
    end_sum: LongArray
    racks: tuple[str, ...]
    source_signature: IntArray
    source_remote: IntArray
    changelog_signature: IntArray
    changelog_remote: IntArray
    racks_known: bool = False
    changelog_racks_known: bool = False

    @property
    def size(self) -> int:
        return len(self.subtopology)

    def task_id(self, task: int) -> TaskId:
        return TaskId(int(self.subtopology[task]), int(self.partition[task]))


@dataclass(frozen=True, slots=True)
class ProcessView:
    """One KafkaStreams instance. Its threads are the group members `members`, sorted as UTF-16 strings. `leader_only`:
    its rack comes from the configuration, and it fetches from leaders only. `client_ids` are those of members whose
    ids do not begin with them."""

    process_id: ProcessId
    members: tuple[str, ...]
    rack: str | None = None
    tags: tuple[tuple[str, str], ...] = ()
    endpoint: HostInfo | None = None
    leader_only: bool = False
    client_ids: tuple[str, ...] = ()

    @property
    def capacity(self) -> int:
        return len(self.members)


@dataclass(frozen=True, slots=True, eq=False)
class StreamsView:
    """The application in one rebalance.

    Reports are sparse: `report[p]` are the tasks that process p reported, ascending, and `report_lag` is parallel to
    `report.values` (already converted from offset sums to lags: LATEST_OFFSET, UNKNOWN_OFFSET_SUM or >= 0). A task that
    p did not report has lag `tasks.end_sum[t]` there (it restores everything), UNKNOWN_OFFSET_SUM after a failed fetch.
    `previous_active[p]` and `previous_standby[p]` are the tasks that p ran or kept.

    Threads are numbered consecutively: first all members of process 0 in their order, then those of process 1, and so
    on. `thread_tasks[n]` are the stateful tasks that thread n itself reported, ascending: the previous tasks of
    docs/internals/streams.md#tasks-to-threads. Views made by hand may omit them.

    `running_on[t]` is the thread that owns the partitions of task t, NOBODY if there is none; () if unknown.

    `now_ms` (epoch) and `cluster` serve policies that set deadlines or need single partitions. For the following, ()
    means none.

    * `home[t]`: the process that ran task t before it left and that came back in time with its state; NOBODY for none.
    * `report_hidden`: marks reports that no process sent (`hidden_state`), for remembered state that a restarted
      process has on its disk and does not report.
    * `resumed[p]`: process p just came back, and before that it had been evacuated or had died moments ago, so nearly
      all of its copies are on its disk.
    * `copies`: ascending codes of (process, task) that processes run or keep by the last plan in which they took part.
    * `expected[t]`: how many copies of task t are on processes that just left and are expected back, the first of them
      until `expected_until_ms` (epoch, None if there is none).
    * `closes_until_ms[p]`: until when process p, which has been evacuated, is expected to stop; a time before `now_ms`
      if it has stayed for longer, `now_ms` if it is not expected to stop.
    * `destination[t]`: the process where the last plan meant task t to end up, NOBODY if that no longer applies.

    Unless it `hands_over`, running tasks stay where they run in this rebalance.
    """

    group_id: str
    generation: int
    tasks: TaskTable
    processes: tuple[ProcessView, ...]
    capacity: IntArray
    rack: IntArray
    report: Ragged
    report_lag: LongArray
    previous_active: Ragged
    previous_standby: Ragged
    lags_known: bool = True
    thread_tasks: Ragged = field(default_factory=lambda: Ragged.of_rows(()))
    running_on: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    now_ms: int = 0
    cluster: ClusterView | None = None
    home: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    report_hidden: BoolArray = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    resumed: BoolArray = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    copies: LongArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    expected: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    expected_until_ms: int | None = None
    closes_until_ms: LongArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    destination: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    hands_over: bool = True

    @property
    def size(self) -> int:
        return len(self.processes)

    def lag_of(self, task: int, process: int) -> int:
        """Returns how many records of the task the process would have to restore, or one of Kafka's two sentinels."""
        reported = self.report[process]
        at = int(np.searchsorted(reported, task))
        if at < len(reported) and reported[at] == task:
            return int(self.report_lag[self.report.span(process)][at])
        return int(self.tasks.end_sum[task])

    def tasks_of_thread(self, thread: int) -> IntArray:
        """Returns the stateful tasks in the thread's own report."""
        own = self.thread_tasks
        return own[thread] if thread + 1 < len(own.first) else own.values[:0]


NO_STRATEGY, MIN_TRAFFIC, BALANCE_SUBTOPOLOGY = "none", "min_traffic", "balance_subtopology"
STRATEGIES = (NO_STRATEGY, MIN_TRAFFIC, BALANCE_SUBTOPOLOGY)
TAGS_MAX = 5
TAG_CHARS_MAX = 20
_INT_MAX = 2**31 - 1


class AssignmentConfigError(ValueError):
    """Raised for a value that Kafka would not accept either. The message is one sentence with Kafka's name of the
    setting."""


@dataclass(frozen=True, slots=True)
class AssignmentConfigs:
    """KIP-924's AssignmentConfigs, with Kafka's names, defaults and bounds. Raises AssignmentConfigError. A cost of
    None means the assignor's default: 10 and 1 under HighAvailability. Negative standby counts and costs, which Kafka
    accepts although they mean nothing, are refused."""

    acceptable_recovery_lag: int = 10_000
    max_warmup_replicas: int = 2
    num_standby_replicas: int = 0
    probing_rebalance_interval_ms: int = 600_000
    rack_aware_assignment_tags: tuple[str, ...] = ()
    rack_aware_traffic_cost: int | None = None
    rack_aware_non_overlap_cost: int | None = None
    rack_aware_assignment_strategy: str = NO_STRATEGY

    def rack_costs(self, traffic: int, non_overlap: int) -> tuple[int, int]:
        """Returns the configured (traffic cost, non-overlap cost), with these values as defaults."""
        costs = (self.rack_aware_traffic_cost, traffic), (self.rack_aware_non_overlap_cost, non_overlap)
        configured, overlap_cost = (stock if cost is None else cost for cost, stock in costs)
        return configured, overlap_cost

    def __post_init__(self) -> None:
        _check_integer("acceptable.recovery.lag", self.acceptable_recovery_lag, 0, PINNED)
        _check_integer("max.warmup.replicas", self.max_warmup_replicas, 1)
        _check_integer("num.standby.replicas", self.num_standby_replicas, 0)
        _check_integer("probing.rebalance.interval.ms", self.probing_rebalance_interval_ms, 60_000, PINNED)
        _check_tags(self.rack_aware_assignment_tags)
        if self.rack_aware_traffic_cost is not None:
            _check_integer("rack.aware.assignment.traffic_cost", self.rack_aware_traffic_cost, 0)
        if self.rack_aware_non_overlap_cost is not None:
            _check_integer("rack.aware.assignment.non_overlap_cost", self.rack_aware_non_overlap_cost, 0)
        if self.rack_aware_assignment_strategy not in STRATEGIES:
            allowed, given = ", ".join(STRATEGIES), self.rack_aware_assignment_strategy
            raise AssignmentConfigError(
                f"rack.aware.assignment.strategy must be one of {allowed}, but it is {given!r}."
            )


def _check_integer(name: str, value: object, least: int, most: int = _INT_MAX) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise AssignmentConfigError(f"{name} must be an integer, but it is {value!r}.")
    if value < least:
        raise AssignmentConfigError(f"{name} must be at least {least}, but it is {value}.")
    if value > most:
        raise AssignmentConfigError(f"{name} must be at most {most}, but it is {value}.")


def _check_tags(tags: object) -> None:
    name = "rack.aware.assignment.tags"
    if not isinstance(tags, tuple):
        raise AssignmentConfigError(f"{name} must be a list of client tag keys, but it is {tags!r}.")
    if len(tags) > TAGS_MAX:
        raise AssignmentConfigError(f"{name} may hold at most {TAGS_MAX} client tag keys, but it holds {len(tags)}.")
    for tag in tags:
        if not isinstance(tag, str) or not 0 < len(tag) <= TAG_CHARS_MAX:
            raise AssignmentConfigError(
                f"{name} must hold client tag keys of 1 to {TAG_CHARS_MAX} characters, but it holds {tag!r}."
            )


@dataclass(frozen=True, slots=True, eq=False)
class StreamsPlan:
    """The placement of all tasks. `active[t]` is a process index. `standby_task` and `standby_process` are parallel
    arrays sorted by task, then process; `warmup` marks copies that exist only until they have caught up. `probing`
    requests a probing rebalance. `deadlines` are (process index, epoch ms) of processes that should rejoin then
    (KIP-924's follow-up rebalance). `keeps_threads`: tasks stay on the threads that run them; Kafka redistributes them
    each time. `stages` are the reports of the configured stages; they made `deferred` tasks wait for a later rebalance.
    `destination[t]` is the process where task t should end up; () if that is `active`. `waiting` tasks could move there
    now, but wait so that all leave their processes together. `evacuated[p]`: an order evacuates process p; () if none.
    `suspended`: nothing is evened out, because a process is handing over everything or is expected back. `weights` is
    what the weights of tasks are made of, "" if counts were balanced."""

    active: IntArray
    standby_task: IntArray
    standby_process: IntArray
    warmup: BoolArray
    probing: bool = False
    notes: tuple[str, ...] = field(default=())
    deadlines: tuple[tuple[int, int], ...] = ()
    keeps_threads: bool = False
    stages: tuple[StageReport, ...] = ()
    deferred: int = 0
    waiting: int = 0
    destination: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    evacuated: BoolArray = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    suspended: bool = False
    weights: str = ""

    @classmethod
    def of_active(cls, active: IntArray) -> "StreamsPlan":
        return cls.of(active, np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32))

    @classmethod
    def of(cls, active: IntArray, standby_task: IntArray, standby_process: IntArray) -> "StreamsPlan":
        """Returns a plan without warm-ups."""
        return cls(active, standby_task, standby_process, np.zeros(len(standby_task), dtype=np.bool_))


@dataclass(frozen=True, slots=True, eq=False)
class ThreadPlan:
    """A StreamsPlan on threads, numbered as in StreamsView. `active[t]` is the thread that runs task t (NOBODY if the
    plan has no owner); `standby` is parallel to `StreamsPlan.standby_task`."""

    active: IntArray
    standby: IntArray
