"""What a task assignor sees of the application, its processes and its tasks (KIP-924), read from a StreamsView.

Everything here is read-only, and objects are created on demand: a large application has 100,000 tasks, and most
assignors read a few properties of each. Collections that Java sorts are ascending tuples.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from bellwether_kafka.assignors.shared import ClusterView, IntArray, LongArray
from bellwether_kafka.assignors.streams.application import (
    CHANGELOG,
    AssignmentConfigs,
    ProcessView,
    StreamsView,
    Subtopology,
)
from bellwether_kafka.protocol.primitives import HostInfo, ProcessId, TaskId, TopicPartition


@dataclass(frozen=True, slots=True)
class TaskTopicPartition:
    """A partition that a task reads or restores from, or both (a source topic reused as changelog)."""

    topic_partition: TopicPartition
    is_source: bool
    is_changelog: bool
    _cluster: ClusterView | None = field(default=None, repr=False, compare=False)

    @property
    def rack_ids(self) -> frozenset[str] | None:
        """The racks of all replicas, looked up on access; None if no rack is known."""
        flat = self._cluster.flat(*self.topic_partition) if self._cluster else None
        if self._cluster is None or flat is None:
            return None
        racks = self._cluster.replica_racks[self._cluster.signature[flat]]
        return frozenset(self._cluster.racks[r] for r in np.flatnonzero(racks).tolist()) or None


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """One task. `is_stateful` means that it has a changelog. In shipped Java a store without changelog makes it true as
    well, but such a store is invisible outside the application, and a standby could hold nothing of it."""

    id: TaskId
    is_stateful: bool
    _subtopology: Subtopology = field(repr=False, compare=False)
    _application_id: str = field(default="", repr=False, compare=False)
    _cluster: ClusterView | None = field(default=None, repr=False, compare=False)

    @property
    def state_store_names(self) -> tuple[str, ...]:
        """The stores that have a changelog topic of their own, named after it. Other stores are invisible from
        outside."""
        own = sorted(set(self._subtopology.changelogs) - set(self._subtopology.sources))
        return tuple(t.removeprefix(f"{self._application_id}-").removesuffix(CHANGELOG) for t in own)

    @property
    def topic_partitions(self) -> tuple[TaskTopicPartition, ...]:
        """The partitions, ascending. A source topic with too few partitions has none for this task."""
        sources, changelogs = set(self._subtopology.sources), set(self._subtopology.changelogs)
        number = self.id.partition
        return tuple(
            TaskTopicPartition(TopicPartition(t, number), t in sources, t in changelogs, self._cluster)
            for t in sorted(sources | changelogs)
            if t not in sources or self._cluster is None or self._cluster.flat(t, number) is not None
        )


@dataclass(frozen=True, slots=True)
class KafkaStreamsState:
    """One process. Its lags are available only if they were requested; otherwise reading one raises
    LagsNotComputedError."""

    process_id: ProcessId
    _process: ProcessView = field(repr=False)
    _row: int = field(repr=False)
    _first_thread: int = field(repr=False)
    _tasks: "TaskInfos" = field(repr=False)
    _with_lags: bool = False

    @property
    def num_processing_threads(self) -> int:
        """Its capacity relative to other processes."""
        return self._process.capacity

    @property
    def consumer_client_ids(self) -> tuple[str, ...]:
        """The member ids of its threads, as in shipped Java. The client ids that the KIP names never reach a leader."""
        return self._process.members

    @property
    def previous_active_tasks(self) -> tuple[TaskId, ...]:
        return self._named(self._tasks.view.previous_active[self._row])

    @property
    def previous_standby_tasks(self) -> tuple[TaskId, ...]:
        return self._named(self._tasks.view.previous_standby[self._row])

    @property
    def host_info(self) -> HostInfo | None:
        return self._process.endpoint

    @property
    def client_tags(self) -> Mapping[str, str]:
        return MappingProxyType(dict(self._process.tags))

    @property
    def rack_id(self) -> str | None:
        return self._process.rack

    def lag_for(self, task: TaskId) -> int:
        """Returns the lag in records over all changelogs of the task: LATEST_OFFSET (-2) if the task ran here, the sum
        of its end offsets if this process has no state. Raises LagsNotComputedError, UnknownTaskError."""
        self._check_lags()
        index = self._tasks.number.get(task)
        view = self._tasks.view
        if index is None or not view.tasks.stateful[index]:
            raise UnknownTaskError(f"task {task} is not a stateful task of {view.group_id}")
        return view.lag_of(index, self._row)

    def prev_tasks_by_lag(self, consumer_client_id: str) -> tuple[TaskId, ...]:
        """Returns the stateful tasks that this thread reported, ordered by lag, then task; () for a thread of another
        process. Raises LagsNotComputedError."""
        self._check_lags()
        if consumer_client_id not in self._process.members:
            return ()
        thread = self._first_thread + self._process.members.index(consumer_client_id)
        ascending = self._named(self._tasks.view.tasks_of_thread(thread))
        return tuple(sorted(ascending, key=self.lag_for))

    def stateful_tasks_to_lag_sums(self) -> dict[TaskId, int]:
        """Returns the lag of every stateful task of the application, whether this process reported it or not. Raises
        LagsNotComputedError."""
        self._check_lags()
        view = self._tasks.view
        lag = view.tasks.end_sum.copy()
        lag[view.report[self._row]] = view.report_lag[view.report.span(self._row)]
        stateful = np.flatnonzero(view.tasks.stateful)
        return dict(zip(self._named(stateful), lag[stateful].tolist(), strict=True))

    def _named(self, tasks: IntArray | LongArray) -> tuple[TaskId, ...]:
        return tuple(self._tasks.ids[t] for t in tasks.tolist())

    def _check_lags(self) -> None:
        if not self._with_lags:
            raise LagsNotComputedError("lags are there with kafka_streams_states(compute_task_lags=True) only")


class TaskInfos(Mapping[TaskId, TaskInfo]):
    """All tasks in order, with infos created on access. `ids` are by task index; `number` is the inverse."""

    __slots__ = ("_cluster", "_subtopologies", "ids", "number", "view")

    def __init__(self, view: StreamsView, cluster: ClusterView | None) -> None:
        table = view.tasks
        pairs = zip(table.subtopology.tolist(), table.partition.tolist(), strict=True)
        self.view = view
        self.ids = tuple(TaskId(s, p) for s, p in pairs)
        self.number = {task: i for i, task in enumerate(self.ids)}
        self._cluster = cluster
        self._subtopologies = {s.id: s for s in table.subtopologies}

    def __getitem__(self, task: TaskId) -> TaskInfo:
        index = self.number[task]
        stateful = bool(self.view.tasks.stateful[index])
        own = self._subtopologies[task.subtopology]
        return TaskInfo(self.ids[index], stateful, own, self.view.group_id, self._cluster)

    def __iter__(self) -> Iterator[TaskId]:
        return iter(self.ids)

    def __len__(self) -> int:
        return len(self.ids)


class ApplicationState:
    """The application in one rebalance, created by `bridge.from_view`. `now_ms` (epoch) is the time of the decision.
    `view` has the same facts as dense arrays, for assignors that compute on them."""

    __slots__ = ("_configs", "_states", "_tasks", "now_ms", "view")

    def __init__(
        self, view: StreamsView, configs: AssignmentConfigs, *, now_ms: int = 0, cluster: ClusterView | None = None
    ) -> None:
        self.view = view
        self.now_ms = now_ms
        self._configs = configs
        self._tasks = TaskInfos(view, cluster)
        self._states: dict[bool, Mapping[ProcessId, KafkaStreamsState]] = {}

    def kafka_streams_states(self, compute_task_lags: bool) -> Mapping[ProcessId, KafkaStreamsState]:
        """Returns the processes ordered by id (in hash order in shipped Java).

        With `compute_task_lags` it raises TaskAssignmentError if the end offsets of changelogs could not be read, as
        the KIP promises; shipped Java returns lags of -3. The offsets are read before the assignor runs, so this call
        costs nothing.
        """
        if compute_task_lags and not self.view.lags_known:
            raise TaskAssignmentError(f"the end offsets of the changelogs of {self.view.group_id} could not be read")
        states = self._states.get(compute_task_lags)
        if states is None:
            states = MappingProxyType(self._make_states(compute_task_lags))
            self._states[compute_task_lags] = states
        return states

    @property
    def assignment_configs(self) -> AssignmentConfigs:
        return self._configs

    @property
    def all_tasks(self) -> Mapping[TaskId, TaskInfo]:
        """All tasks that must be assigned, ascending."""
        return self._tasks

    @property
    def numbers(self) -> Mapping[TaskId, int]:
        """The index of each task in `view`."""
        return MappingProxyType(self._tasks.number)

    def _make_states(self, with_lags: bool) -> dict[ProcessId, KafkaStreamsState]:
        states: dict[ProcessId, KafkaStreamsState] = {}
        thread = 0
        for row, process in enumerate(self.view.processes):
            state = KafkaStreamsState(process.process_id, process, row, thread, self._tasks, with_lags)
            states[process.process_id] = state
            thread += process.capacity
        return states


class TaskAssignmentError(Exception):
    """A possibly temporary failure (KIP-924's TaskAssignmentException). An assignor propagates or raises it to keep the
    present assignment and have the rebalance retried."""


class LagsNotComputedError(RuntimeError):
    """Raised on access to a lag if the state was requested without lags (Java's UnsupportedOperationException)."""


class UnknownTaskError(LookupError):
    """Raised if a task does not exist, or has no lag because it is stateless (Java's IllegalStateException)."""
