"""The result of a task assignor: which process runs each task, and which keep copies of it (KIP-924).

The interface of task assignors that plug-ins implement, and the errors that their assignments can have (KIP-924).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Protocol

from bellwether_kafka.assignors.streams.api.application_state import ApplicationState
from bellwether_kafka.protocol.primitives import HostInfo, ProcessId, TaskId, TopicPartition


class TaskType(Enum):
    """KIP-924's AssignedTask.Type."""

    ACTIVE = "ACTIVE"
    STANDBY = "STANDBY"


@dataclass(frozen=True, slots=True)
class AssignedTask:
    """One task in one role."""

    id: TaskId
    type: TaskType

    @classmethod
    def active(cls, task: TaskId) -> "AssignedTask":
        return cls(task, TaskType.ACTIVE)

    @classmethod
    def standby(cls, task: TaskId) -> "AssignedTask":
        return cls(task, TaskType.STANDBY)

    def __str__(self) -> str:
        return f"{self.type.value} {self.id}"


class KafkaStreamsAssignment:
    """The tasks of one process, and optionally when it should request another rebalance. Tasks are keyed by id, so a
    process never has a task in two roles."""

    __slots__ = ("_deadline_ms", "_process_id", "_tasks")

    def __init__(self, process_id: ProcessId, tasks: Mapping[TaskId, AssignedTask], deadline_ms: int | None) -> None:
        """Copies `tasks`. Assignors should use `of`."""
        self._process_id = process_id
        self._tasks = dict(tasks)
        self._deadline_ms = deadline_ms

    @classmethod
    def of(cls, process_id: ProcessId, assignment: Iterable[AssignedTask] = ()) -> "KafkaStreamsAssignment":
        """Returns an assignment of these tasks. Raises ValueError if a task occurs in both roles."""
        tasks: dict[TaskId, AssignedTask] = {}
        for task in assignment:
            if tasks.setdefault(task.id, task) != task:
                raise ValueError(f"task {task.id} is both active and standby on process {process_id}")
        return cls(process_id, tasks, None)

    def with_followup_rebalance(self, deadline_ms: int) -> "KafkaStreamsAssignment":
        """Returns a new assignment of the same tasks whose process requests a rebalance once `deadline_ms` (epoch) has
        passed.

        A deadline in the past means immediately after the present rebalance. The next rebalance, whatever its cause,
        cancels the request. Shipped Java gives the new object a read-only map, so that assign_task and remove_task fail
        on it; here it is an ordinary object, as KIP-924 promises. Raises ValueError for a negative deadline, TypeError
        if it is not an integer.
        """
        if isinstance(deadline_ms, bool) or not isinstance(deadline_ms, int):
            raise TypeError(f"a follow-up deadline is an integer of milliseconds since the epoch, not {deadline_ms!r}")
        if deadline_ms < 0:
            raise ValueError(f"a follow-up deadline must not be negative, but it is {deadline_ms}")
        return KafkaStreamsAssignment(self._process_id, self._tasks, deadline_ms)

    @property
    def process_id(self) -> ProcessId:
        return self._process_id

    @property
    def tasks(self) -> Mapping[TaskId, AssignedTask]:
        """A read-only view that reflects later calls of assign_task and remove_task."""
        return MappingProxyType(self._tasks)

    @property
    def followup_rebalance_deadline_ms(self) -> int | None:
        """Milliseconds since the epoch, None if no follow-up is requested (the KIP's text does not provide for
        None)."""
        return self._deadline_ms

    def assign_task(self, task: AssignedTask) -> None:
        """Adds a task, or changes its role if it is already here."""
        self._tasks[task.id] = task

    def remove_task(self, task: AssignedTask) -> None:
        """Removes a task by its id, whatever its role. Does nothing if it is not here."""
        self._tasks.pop(task.id, None)

    def __repr__(self) -> str:
        tasks = ", ".join(str(self._tasks[task]) for task in sorted(self._tasks, key=lambda task: task[:2]))
        return f"KafkaStreamsAssignment({self._process_id}, [{tasks}], followup_ms={self._deadline_ms})"


class TaskAssignment:
    """The result of an assignor: one KafkaStreamsAssignment for each process of the application, including idle
    ones."""

    __slots__ = ("_assignment",)

    def __init__(self, assignment: Iterable[KafkaStreamsAssignment]) -> None:
        self._assignment = tuple(assignment)

    @property
    def assignment(self) -> tuple[KafkaStreamsAssignment, ...]:
        return self._assignment

    def __repr__(self) -> str:
        return f"TaskAssignment({list(self._assignment)!r})"


class AssignmentError(Enum):
    """What is wrong with a TaskAssignment; the value describes it.

    Shipped Java lacks the last three. It accepts an active task without a process, and a process that is listed twice
    (the later entry wins, and the tasks of the earlier one are lost). KIP-924 has an error for a task that is active
    and standby on one process. Java dropped it because one entry cannot contain this; two entries can.
    """

    NONE = "the assignment is valid"
    ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES = "an active task is assigned to more than one process"
    INVALID_STANDBY_TASK = "a stateless task is assigned as standby"
    MISSING_PROCESS_ID = "a process of the application is not in the assignment"
    UNKNOWN_PROCESS_ID = "a process in the assignment is not of this application"
    UNKNOWN_TASK_ID = "a task in the assignment is not of this application"
    ACTIVE_AND_STANDBY_TASK_ASSIGNED_TO_SAME_KAFKASTREAMS = "a task is active and standby on one process"
    PROCESS_ID_ASSIGNED_MULTIPLE_TIMES = "a process is in the assignment more than once"
    ACTIVE_TASK_NOT_ASSIGNED = "an active task is assigned to no process"

    @property
    def unreadable(self) -> bool:
        """Whether the intended assignment cannot be determined. Then on_assignment_computed gets an empty
        GroupAssignment."""
        return self in (AssignmentError.UNKNOWN_PROCESS_ID, AssignmentError.UNKNOWN_TASK_ID)


@dataclass(frozen=True, slots=True)
class ConsumerAssignment:
    """The assignment of one consumer (one stream thread): its partitions, and its tasks in each role, all ascending."""

    partitions: tuple[TopicPartition, ...] = ()
    active_tasks: tuple[TaskId, ...] = ()
    standby_tasks: tuple[TaskId, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupAssignment:
    """The final assignment by member id. This is the target, so it includes tasks that are pending until their present
    owner gives them up."""

    group_assignment: Mapping[str, ConsumerAssignment] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConsumerSubscription:
    """What one consumer sent about tasks when it joined. `previous_tasks` are the stateful ones, ascending."""

    process_id: ProcessId
    rack: str | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)
    host_info: HostInfo | None = None
    previous_tasks: tuple[TaskId, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupSubscription:
    """All consumers of the application by member id."""

    group_subscription: Mapping[str, ConsumerSubscription] = field(default_factory=dict)


class TaskAssignor(Protocol):
    """A task assignor. Only `assign` is required; subclass this to inherit the other two methods as no-ops.

    Shipped Java creates an assignor per rebalance. Here one lives as long as Bellwether leads the group, so its answers
    must not depend on anything kept between calls: equal states must give equal answers, or a recorded decision cannot
    be replayed. Use `ApplicationState.now_ms`, never a clock.
    """

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        """Places every active task on one process, and standbys as the assignor chooses.

        Raise TaskAssignmentError to keep the present assignment and retry the rebalance, as the KIP promises; in
        shipped Java it fails every thread of the application. Other exceptions and invalid assignments have the same
        outcome, but count as failures: after three in a row the assignor is not called again.
        """
        ...

    def on_assignment_computed(
        self, assignment: GroupAssignment, subscription: GroupSubscription, error: AssignmentError
    ) -> None:
        """Receives what the group gets, and what was wrong with the result of `assign` (NONE if nothing).

        After an error `assignment` is what is delivered instead, but it is empty for UNKNOWN_PROCESS_ID and
        UNKNOWN_TASK_ID. This method is not called if `assign` itself raised. Exceptions that it raises are recorded and
        otherwise ignored.
        """

    def configure(self, configs: Mapping[str, object]) -> None:
        """Receives the settings of the group, once, before any other call."""
