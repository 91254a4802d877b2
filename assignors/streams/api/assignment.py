"""The result of a task assignor: which process runs each task, and which keep copies of it (KIP-924)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from bellwether_kafka.protocol.primitives import ProcessId, TaskId


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
