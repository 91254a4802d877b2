"""What a task assignor returns: which process runs and which keeps a copy of each task (KIP-924)."""

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
    """The tasks of one process, and optionally when it is to ask for another rebalance. Tasks are keyed by id, so one
    process never holds a task in two roles."""

    __slots__ = ("_deadline_ms", "_process_id", "_tasks")

    def __init__(self, process_id: ProcessId, tasks: Mapping[TaskId, AssignedTask], deadline_ms: int | None) -> None:
        """Takes a copy of `tasks`. Assignors use `of`."""
        self._process_id = process_id
        self._tasks = dict(tasks)
        self._deadline_ms = deadline_ms

    @classmethod
    def of(cls, process_id: ProcessId, assignment: Iterable[AssignedTask] = ()) -> "KafkaStreamsAssignment":
        """An assignment of these tasks. Raises ValueError if one task is there in both roles."""
        tasks: dict[TaskId, AssignedTask] = {}
        for task in assignment:
            if tasks.setdefault(task.id, task) != task:
                raise ValueError(f"task {task.id} is both active and standby on process {process_id}")
        return cls(process_id, tasks, None)

    def with_followup_rebalance(self, deadline_ms: int) -> "KafkaStreamsAssignment":
        """A new assignment of the same tasks whose process asks for a rebalance once `deadline_ms` (epoch) has passed.

        A deadline that has already passed means at once, after the present rebalance. The request dies with the next
        rebalance, whatever caused it. Shipped Java gives the new object a read-only map, so that assign_task and
        remove_task fail on it; KIP-924 promises an object like any other, and that is what this is.
        Raises ValueError for a negative deadline, TypeError for one that is no integer.
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
        """A live, read-only view: assign_task and remove_task show in it, and nothing can be written through it."""
        return MappingProxyType(self._tasks)

    @property
    def followup_rebalance_deadline_ms(self) -> int | None:
        """Milliseconds since the epoch, None where no follow-up is asked for (the KIP's text has no None for that)."""
        return self._deadline_ms

    def assign_task(self, task: AssignedTask) -> None:
        """Adds a task; one that is already here changes its role."""
        self._tasks[task.id] = task

    def remove_task(self, task: AssignedTask) -> None:
        """Removes a task by its id, in whichever role it is here; nothing happens if it is not."""
        self._tasks.pop(task.id, None)

    def __repr__(self) -> str:
        tasks = ", ".join(str(self._tasks[task]) for task in sorted(self._tasks, key=lambda task: task[:2]))
        return f"KafkaStreamsAssignment({self._process_id}, [{tasks}], followup_ms={self._deadline_ms})"


class TaskAssignment:
    """The answer of an assignor: one KafkaStreamsAssignment for each process of the application, idle ones included."""

    __slots__ = ("_assignment",)

    def __init__(self, assignment: Iterable[KafkaStreamsAssignment]) -> None:
        self._assignment = tuple(assignment)

    @property
    def assignment(self) -> tuple[KafkaStreamsAssignment, ...]:
        return self._assignment

    def __repr__(self) -> str:
        return f"TaskAssignment({list(self._assignment)!r})"
