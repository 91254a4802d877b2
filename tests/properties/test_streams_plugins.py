"""Whatever a plug-in returns or raises, the runner's plan is valid, and what it did not accept it does not use."""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bellwether_kafka.assignors.streams import PluginHealth, run_plugin
from bellwether_kafka.assignors.streams.api import (
    ApplicationState,
    AssignedTask,
    AssignmentError,
    KafkaStreamsAssignment,
    TaskAssignment,
    TaskAssignmentError,
    TaskType,
    from_view,
)
from bellwether_kafka.assignors.streams.application import AssignmentConfigs, StreamsView
from bellwether_kafka.assignors.streams.sending import validate_plan
from bellwether_kafka.protocol.primitives import TaskId
from tests.unit.assignors.streams.api.api_scenes import Application, Process, process_id, validate_task_assignment

ANYTHING: st.SearchStrategy[Any] = st.none() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2)


@st.composite
def applications(draw: st.DrawFn) -> StreamsView:
    app = Application(
        stateful=tuple(draw(st.lists(st.integers(1, 3), max_size=2))),
        stateless=tuple(draw(st.lists(st.integers(1, 3), max_size=2))),
        lags_known=draw(st.booleans()),
    )
    names = [f"{s}_{p}" for s, size in enumerate(app.sizes) for p in range(size)]
    some = st.lists(st.sampled_from(names), unique=True, max_size=4) if names else st.just([])
    processes = [
        Process(
            number,
            threads=draw(st.integers(1, 3)),
            active=tuple(draw(some)),
            standby=tuple(draw(some)),
            lags={name: draw(st.integers(0, 2000)) for name in draw(some)},
        )
        for number in range(1, draw(st.integers(1, 4)) + 1)
    ]
    return app.view(*processes)


TASKS = st.builds(TaskId, st.integers(0, 3), st.integers(0, 3)) | st.just(TaskId(0, 0, "named"))
ASSIGNED = st.builds(AssignedTask, TASKS | ANYTHING, st.sampled_from(TaskType) | ANYTHING) | ANYTHING


@st.composite
def answers(draw: st.DrawFn) -> Any:
    """Anything from a nearly right assignment to junk."""
    if draw(st.integers(0, 9)) == 0:
        return draw(ANYTHING)
    entries: list[Any] = []
    for _ in range(draw(st.integers(0, 5))):
        drawn = draw(
            st.dictionaries(TASKS, ASSIGNED | st.builds(AssignedTask, TASKS, st.sampled_from(TaskType)), max_size=5)
        )
        process = draw(st.integers(1, 5).map(process_id) | ANYTHING)
        entries.append(KafkaStreamsAssignment(process, drawn, draw(st.none() | st.integers(-5, 5) | ANYTHING)))
    return TaskAssignment(entries + ([draw(ANYTHING)] if draw(st.integers(0, 9)) == 0 else []))


@st.composite
def placements(draw: st.DrawFn, view: StreamsView) -> TaskAssignment:
    """A dealt assignment: mostly valid, sometimes with one thing wrong."""
    by_process: list[dict[TaskId, AssignedTask]] = [{} for _ in view.processes]
    row = st.integers(0, view.size - 1)
    for number in range(view.tasks.size):
        task = view.tasks.task_id(number)
        by_process[draw(row)][task] = AssignedTask.active(task)
        extra = draw(row)
        if (
            task not in by_process[extra]
            and draw(st.booleans())
            and (view.tasks.stateful[number] or draw(st.integers(0, 9)) == 0)
        ):
            by_process[extra][task] = AssignedTask.standby(task)
    entries = [
        KafkaStreamsAssignment(p.process_id, mine, draw(st.none() | st.integers(0, 9)))
        for p, mine in zip(view.processes, by_process, strict=True)
    ]
    fault = draw(st.integers(0, 8))
    if fault == 0:
        entries.pop()
    elif fault == 1:
        entries.append(entries[0])
    elif fault == 2 and by_process[0]:
        entries[0].remove_task(next(iter(by_process[0].values())))
    return TaskAssignment(entries)


class Answering:
    """A plug-in that does what it is given to do."""

    def __init__(self, behaviour: Callable[[ApplicationState], Any]) -> None:
        self.behaviour = behaviour
        self.errors: list[AssignmentError] = []

    def assign(self, application_state: ApplicationState) -> Any:
        return self.behaviour(application_state)

    def on_assignment_computed(self, _assignment: object, _subscription: object, error: AssignmentError) -> None:
        self.errors.append(error)
        raise OSError

    def configure(self, configs: object) -> None:
        raise AssertionError(configs)


ERRORS = st.sampled_from([ValueError("x"), TaskAssignmentError("y"), SystemExit(2), RecursionError()])


@given(data=st.data(), view=applications(), standbys=st.integers(0, 3), failures=st.integers(0, 4))
@settings(max_examples=150)
def test_the_plan_is_valid_whatever_a_plug_in_does(
    data: st.DataObject, view: StreamsView, standbys: int, failures: int
) -> None:
    answer = data.draw(answers() | placements(view) | ERRORS)

    def behaviour(_state: ApplicationState) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    configs = AssignmentConfigs(num_standby_replicas=standbys)
    health = PluginHealth(failures=failures, rebalances=failures)
    before = view.previous_active.values.copy()
    plugin = Answering(behaviour)
    run = run_plugin(plugin, view, configs, health, now_ms=1000)
    assert validate_plan(view, run.plan) == ()
    assert all(0 <= process < view.size and at_ms >= 0 for process, at_ms in run.plan.deadlines)
    assert np.array_equal(view.previous_active.values, before)
    if health.disabled:
        assert run.health.disabled
        return
    accepted = run.health == PluginHealth()
    assert accepted == (not isinstance(answer, BaseException) and _is_valid(view, configs, answer))
    if not accepted:
        assert run.plan.deadlines == ((0, run.health.retry_at_ms),)
        owned: list[set[int]] = [set() for _ in range(view.tasks.size)]
        for process in range(view.size):
            for task in view.previous_active[process]:
                owned[task].add(process)
        assert all(
            int(p) in owners_of_task for p, owners_of_task in zip(run.plan.active, owned, strict=True) if owners_of_task
        )


def _is_valid(view: StreamsView, configs: AssignmentConfigs, answer: Any) -> bool:
    try:
        return validate_task_assignment(from_view(view, configs), answer) is AssignmentError.NONE
    except Exception:  # noqa: BLE001 - junk may fail in any way; the point is that it is not valid
        return False
