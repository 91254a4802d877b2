"""Checks whether an assignor's result can be delivered: KIP-924's validateTaskAssignment, and checks that it lacks.

Converts between the dense arrays of a decision and the objects that task assignors use, in both directions.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import TypeVar

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, ClusterView, Ragged
from bellwether_kafka.assignors.streams.api.application_state import ApplicationState
from bellwether_kafka.assignors.streams.api.assignor import (
    AssignedTask,
    AssignmentError,
    KafkaStreamsAssignment,
    TaskAssignment,
    TaskType,
)
from bellwether_kafka.assignors.streams.application import AssignmentConfigs, StreamsPlan, StreamsView, TaskTable
from bellwether_kafka.protocol.primitives import ProcessId, TaskId


class MalformedAssignmentError(TypeError):
    """Raised if an assignor did not return a TaskAssignment of the declared types, which Java's compiler would
    ensure."""


class InvalidAssignmentError(ValueError):
    """Raised for an assignment that breaks a rule. `error` is the rule; the message names the first task or process."""

    def __init__(self, error: AssignmentError, detail: str) -> None:
        super().__init__(f"{error.value}: {detail}")
        self.error = error


@dataclass(frozen=True, slots=True)
class Entry:
    """An immutable copy of one KafkaStreamsAssignment at the time when it was returned."""

    process_id: ProcessId
    tasks: tuple[tuple[TaskId, TaskType], ...]
    deadline_ms: int | None


def snapshot(assignment: object) -> tuple[Entry, ...]:
    """Copies the assignment, reading each part once. Raises MalformedAssignmentError."""
    if not isinstance(assignment, TaskAssignment):
        raise MalformedAssignmentError(f"{type(assignment).__name__} is not a TaskAssignment")
    return tuple(_entry(entry) for entry in assignment.assignment)


def _entry(entry: object) -> Entry:
    if not isinstance(entry, KafkaStreamsAssignment):
        raise MalformedAssignmentError(f"{type(entry).__name__} is not a KafkaStreamsAssignment")
    process: object = entry.process_id
    deadline: object = entry.followup_rebalance_deadline_ms
    if not isinstance(process, ProcessId):
        raise MalformedAssignmentError(f"{type(process).__name__} is not a ProcessId")
    if deadline is not None and (not isinstance(deadline, int) or deadline < 0):
        raise MalformedAssignmentError(f"the follow-up deadline of process {process} is not a time")
    return Entry(process, tuple(_pair(task) for task in entry.tasks.values()), deadline)


def _pair(task: object) -> tuple[TaskId, TaskType]:
    if not isinstance(task, AssignedTask):
        raise MalformedAssignmentError(f"{type(task).__name__} is not an AssignedTask")
    name: object = task.id
    role: object = task.type
    if not isinstance(name, TaskId) or not isinstance(role, TaskType):
        raise MalformedAssignmentError("an AssignedTask is not of a TaskId and a TaskType")
    return name, role


def check(state: ApplicationState, entries: Sequence[Entry]) -> None:
    """Raises InvalidAssignmentError for the first error.

    Java's checks come first and in Java's order, so that what Java refuses is refused for the same reason; the
    additional checks follow. The number of standbys is the assignor's choice.
    """
    owner = _check_tasks(state, entries)
    processes = {process.process_id for process in state.view.processes}
    listed = {entry.process_id for entry in entries}
    _refuse(AssignmentError.MISSING_PROCESS_ID, sorted(processes - listed))
    _refuse(AssignmentError.UNKNOWN_PROCESS_ID, sorted(listed - processes))
    _check_twice(entries)
    _refuse(AssignmentError.ACTIVE_TASK_NOT_ASSIGNED, [task for task in state.all_tasks if task not in owner])


def _check_tasks(state: ApplicationState, entries: Sequence[Entry]) -> dict[TaskId, ProcessId]:
    """Returns the active owner of every task that has one. Raises InvalidAssignmentError."""
    numbers, stateful = state.numbers, state.view.tasks.stateful
    owner: dict[TaskId, ProcessId] = {}
    for entry in entries:
        for task, role in entry.tasks:
            number = numbers.get(task)
            if number is None:
                raise InvalidAssignmentError(AssignmentError.UNKNOWN_TASK_ID, str(task))
            if role is TaskType.STANDBY:
                if not stateful[number]:
                    raise InvalidAssignmentError(AssignmentError.INVALID_STANDBY_TASK, str(task))
            elif task in owner:
                detail = f"{task} on {owner[task]} and {entry.process_id}"
                raise InvalidAssignmentError(AssignmentError.ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES, detail)
            else:
                owner[task] = entry.process_id
    return owner


def _check_twice(entries: Sequence[Entry]) -> None:
    roles: dict[ProcessId, dict[TaskId, TaskType]] = {}
    for entry in entries:
        seen = roles.setdefault(entry.process_id, {})
        for task, role in entry.tasks:
            if seen.setdefault(task, role) is not role:
                detail = f"{task} on {entry.process_id}"
                raise InvalidAssignmentError(
                    AssignmentError.ACTIVE_AND_STANDBY_TASK_ASSIGNED_TO_SAME_KAFKASTREAMS, detail
                )
    if len(roles) < len(entries):
        ids = sorted(entry.process_id for entry in entries)
        twice = [a for a, b in pairwise(ids) if a == b]
        _refuse(AssignmentError.PROCESS_ID_ASSIGNED_MULTIPLE_TIMES, twice)


def _refuse(error: AssignmentError, culprits: Sequence[ProcessId] | Sequence[TaskId]) -> None:
    if culprits:
        more = f" and {len(culprits) - 1} more" if len(culprits) > 1 else ""
        raise InvalidAssignmentError(error, f"{culprits[0]}{more}")


_Table = TypeVar("_Table", bound=StreamsView | TaskTable | Ragged)


def from_view(
    view: StreamsView, configs: AssignmentConfigs, *, now_ms: int = 0, cluster: ClusterView | None = None
) -> ApplicationState:
    """Returns the state that an assignor sees. Its arrays are read-only, so that an assignor cannot change the view.

    `cluster` provides racks and partition counts. Without it no partition's racks are known, and every source topic of
    a subtopology is assumed to have a partition for each of its tasks.
    """
    return ApplicationState(_read_only(view), configs, now_ms=now_ms, cluster=cluster)


def _read_only(table: _Table) -> _Table:
    arrays: dict[str, object] = {}
    for field in fields(table):
        value = getattr(table, field.name)
        if isinstance(value, np.ndarray):
            arrays[field.name] = value.view()
            arrays[field.name].flags.writeable = False  # type: ignore[attr-defined]  # an array, see the line before
        elif isinstance(value, Ragged | TaskTable):
            arrays[field.name] = _read_only(value)
    return replace(table, **arrays)  # type: ignore[arg-type]  # each of these fields with its own type


def plan_of(state: ApplicationState, entries: Sequence[Entry]) -> StreamsPlan:
    """Returns the plan of checked entries."""
    return _plan(state, ((e.process_id, e.tasks) for e in entries))


def copies_of(state: ApplicationState, assignments: Iterable[KafkaStreamsAssignment]) -> StreamsPlan:
    """Converts an unfinished assignment to a plan. Raises InvalidAssignmentError (UNKNOWN_PROCESS_ID, UNKNOWN_TASK_ID)
    for processes and tasks that the application does not have."""
    return _plan(state, ((a.process_id, [(t.id, t.type) for t in a.tasks.values()]) for a in assignments))


def _plan(
    state: ApplicationState, tasks_by_process: Iterable[tuple[ProcessId, Iterable[tuple[TaskId, TaskType]]]]
) -> StreamsPlan:
    rows = {process.process_id: row for row, process in enumerate(state.view.processes)}
    numbers = state.numbers
    active = np.full(state.view.tasks.size, NOBODY, dtype=np.int32)
    standby: list[tuple[int, int]] = []
    for process, tasks in tasks_by_process:
        row = rows.get(process)
        if row is None:
            raise InvalidAssignmentError(AssignmentError.UNKNOWN_PROCESS_ID, str(process))
        for task, role in tasks:
            number = numbers.get(task)
            if number is None:
                raise InvalidAssignmentError(AssignmentError.UNKNOWN_TASK_ID, str(task))
            if role is TaskType.ACTIVE:
                active[number] = row
            else:
                standby.append((number, row))
    pairs = np.array(sorted(set(standby)), dtype=np.int32).reshape(-1, 2)
    return StreamsPlan.of(active, pairs[:, 0].copy(), pairs[:, 1].copy())
