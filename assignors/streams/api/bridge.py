"""Converts between the dense arrays of a decision and the objects that task assignors use, in both directions."""

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import TypeVar

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, ClusterView, Ragged
from bellwether_kafka.assignors.streams.api.application_state import ApplicationState
from bellwether_kafka.assignors.streams.api.assignment import KafkaStreamsAssignment, TaskType
from bellwether_kafka.assignors.streams.api.assignor import AssignmentError
from bellwether_kafka.assignors.streams.api.validation import Entry, InvalidAssignmentError
from bellwether_kafka.assignors.streams.application import AssignmentConfigs, StreamsPlan, StreamsView, TaskTable
from bellwether_kafka.protocol.primitives import ProcessId, TaskId

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
