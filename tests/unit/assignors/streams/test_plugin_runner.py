"""The guard around plug-ins: whatever one does there is a valid plan, and a bad plug-in is not asked for ever."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from bellwether_kafka.assignors.shared import NOBODY
from bellwether_kafka.assignors.streams import PluginHealth, run_plugin
from bellwether_kafka.assignors.streams.api import (
    ApplicationState,
    AssignedTask,
    AssignmentError,
    GroupAssignment,
    GroupSubscription,
    KafkaStreamsAssignment,
    TaskAssignment,
    TaskAssignmentError,
    TaskAssignor,
)
from bellwether_kafka.assignors.streams.application import AssignmentConfigs, StreamsPlan, StreamsView
from bellwether_kafka.assignors.streams.sending import validate_plan
from bellwether_kafka.plugins import identity_assignment
from bellwether_kafka.protocol.primitives import TaskId, TopicPartition
from tests.unit.assignors.streams.api.api_scenes import (
    Application,
    Process,
    assigned,
    changelog,
    process_id,
    source,
    tasks,
)

APP = Application(stateful=(3,), stateless=(1,))
OWNERS = (Process(1, active=("0_0", "0_1")), Process(2, active=("0_2", "1_0"), standby=("0_0",), lags={"0_0": 3}))
STANDBYS = AssignmentConfigs(num_standby_replicas=1)


@dataclass
class Scripted(TaskAssignor):
    """Answers with what the function makes of the state, and remembers what it was given."""

    answer: Callable[[ApplicationState], TaskAssignment]
    reported: list[tuple[GroupAssignment, GroupSubscription, AssignmentError]] = field(default_factory=list)

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        return self.answer(application_state)

    def on_assignment_computed(
        self, assignment: GroupAssignment, subscription: GroupSubscription, error: AssignmentError
    ) -> None:
        self.reported.append((assignment, subscription, error))


def identity(state: ApplicationState) -> TaskAssignment:
    return TaskAssignment(identity_assignment(state).values())


def raising(error: BaseException) -> Callable[[ApplicationState], TaskAssignment]:
    def answer(_state: ApplicationState) -> TaskAssignment:
        raise error

    return answer


def plan(view: StreamsView, active: tuple[int, ...], standbys: tuple[tuple[int, int], ...] = ()) -> StreamsPlan:
    pairs = np.array(sorted(standbys), dtype=np.int32).reshape(-1, 2)
    assert len(active) == view.tasks.size
    return StreamsPlan(
        np.array(active, dtype=np.int32), pairs[:, 0].copy(), pairs[:, 1].copy(), np.zeros(len(pairs), dtype=np.bool_)
    )


def standbys_of(plan: StreamsPlan) -> list[tuple[int, int]]:
    return list(zip(plan.standby_task.tolist(), plan.standby_process.tolist(), strict=True))


def test_a_good_answer_becomes_the_plan() -> None:
    view = APP.view(*OWNERS)
    ill = PluginHealth(failures=2, rebalances=2, retry_at_ms=7, last_failure="x")
    run = run_plugin(Scripted(identity), view, STANDBYS, ill, now_ms=50)
    assert run.plan.active.tolist() == [0, 0, 1, 1]
    assert standbys_of(run.plan) == [(0, 1)]
    assert (run.plan.probing, run.plan.deadlines, run.notes) == (False, (), ())
    assert run.health == PluginHealth()


def test_follow_ups_come_from_any_process() -> None:
    def later(state: ApplicationState) -> TaskAssignment:
        placed = identity_assignment(state)
        second = placed[process_id(2)].with_followup_rebalance(state.now_ms + 5)
        return TaskAssignment([second, placed[process_id(1)].with_followup_rebalance(0)])

    run = run_plugin(Scripted(later), APP.view(*OWNERS), STANDBYS, PluginHealth(), now_ms=100)
    assert run.plan.deadlines == ((0, 0), (1, 105))


def test_the_plug_in_sees_the_application() -> None:
    seen: list[ApplicationState] = []

    def refresh(state: ApplicationState) -> TaskAssignment:
        seen.append(state)
        return identity(state)

    run_plugin(Scripted(refresh), APP.view(*OWNERS), STANDBYS, PluginHealth(), now_ms=9, cluster=APP.cluster())
    (state,) = seen
    assert (state.now_ms, state.assignment_configs) == (9, STANDBYS)
    assert tuple(state.all_tasks) == tasks("0_0", "0_1", "0_2", "1_0")
    assert not state.view.report_lag.flags.writeable


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (KeyError("zone"), "KeyError: 'zone'"),
        (RecursionError("deep"), "RecursionError: deep"),
        (SystemExit(1), "SystemExit: 1"),
        (UnprintableError(), "UnprintableError"),
        (ValueError("x" * 5000 + "\n"), "ValueError: xxx"),
    ],
)
def test_an_exception_keeps_what_everybody_has(error: BaseException, text: str) -> None:
    run = run_plugin(Scripted(raising(error)), APP.view(*OWNERS), STANDBYS, PluginHealth(), now_ms=1000)
    assert run.plan.active.tolist() == [0, 0, 1, 1]
    assert run.health.failures == 1
    assert run.health.retry_at_ms == 11_000
    assert run.plan.deadlines == ((0, 11_000),)
    (note,) = run.notes
    assert text in note
    assert "failure 1 of 3" in note
    assert len(note) < 500
    assert "\n" not in note


def test_an_interrupt_is_not_the_plug_ins_to_swallow() -> None:
    with pytest.raises(KeyboardInterrupt):
        run_plugin(Scripted(raising(KeyboardInterrupt())), APP.view(*OWNERS), STANDBYS, PluginHealth(), now_ms=0)


def test_a_retriable_error_keeps_the_assignment_and_retries_at_once() -> None:
    """KIP-924 promises this; shipped Java fails every thread of the application."""
    assignor = Scripted(raising(TaskAssignmentError("no weights yet")))
    run = run_plugin(assignor, APP.view(*OWNERS), STANDBYS, PluginHealth(), now_ms=1000)
    assert run.plan.active.tolist() == [0, 0, 1, 1]
    assert run.plan.deadlines == ((0, 1000),)
    assert "asked for a retry" in run.notes[0]
    assert assignor.reported == []


def test_retries_come_later_each_time_and_three_failures_disable() -> None:
    health, delays = PluginHealth(), []
    for _ in range(3):
        run = run_plugin(Scripted(raising(OSError())), APP.view(*OWNERS), STANDBYS, health, now_ms=5)
        health = run.health
        delays.append((health.retry_at_ms or 0) - 5)
    assert delays == [10_000, 60_000, 60_000]
    assert health.disabled
    assert "it is disabled now" in run.notes[0]


def test_a_disabled_plug_in_is_not_asked_and_high_availability_plans() -> None:
    view = Application(stateful=(4,)).view(Process(1), Process(2))
    asked: list[ApplicationState] = []
    assignor = Scripted(lambda state: asked.append(state) or identity(state))
    disabled = PluginHealth(failures=3, rebalances=3, retry_at_ms=8, last_failure="OSError: gone")
    run = run_plugin(assignor, view, STANDBYS, disabled, now_ms=0)
    assert asked == []
    assert validate_plan(view, run.plan) == ()
    assert np.bincount(run.plan.active).tolist() == [2, 2]
    assert run.health == replace(disabled, retry_at_ms=None)
    assert "disabled after 3 failures in a row, the last one: OSError: gone" in run.notes[0]


def test_a_disabled_plug_in_leaves_unknown_lags_to_the_fallback() -> None:
    view = replace(APP, lags_known=False).view(*OWNERS)
    run = run_plugin(Scripted(identity), view, STANDBYS, PluginHealth(failures=3), now_ms=0)
    assert run.plan.active.tolist() == [0, 0, 1, 1]
    assert run.plan.probing
    assert run.notes[0].endswith("FallbackPrior places tasks instead")


def test_a_success_in_between_forgives() -> None:
    view, health = APP.view(*OWNERS), PluginHealth()
    for answer in (raising(OSError()), raising(OSError()), identity, raising(OSError()), raising(OSError())):
        health = run_plugin(Scripted(answer), view, STANDBYS, health, now_ms=0).health
    assert (health.failures, health.disabled) == (2, False)


def test_lags_that_cannot_be_read_are_not_the_plug_ins_failure() -> None:
    def needs_lags(state: ApplicationState) -> TaskAssignment:
        state.kafka_streams_states(compute_task_lags=True)
        return identity(state)

    view, health, retries = replace(APP, lags_known=False).view(*OWNERS), PluginHealth(), []
    for _ in range(5):
        run = run_plugin(Scripted(needs_lags), view, STANDBYS, health, now_ms=0)
        health = run.health
        retries.append(health.retry_at_ms)
        assert run.plan.active.tolist() == [0, 0, 1, 1]
    assert (health.failures, health.disabled) == (0, False)
    assert retries == [0, 10_000, 60_000, 60_000, 60_000]
    assert run_plugin(Scripted(identity), view, STANDBYS, health, now_ms=0).health == PluginHealth()


def test_a_retry_that_is_asked_for_with_known_lags_counts() -> None:
    view, health = APP.view(*OWNERS), PluginHealth()
    for _ in range(3):
        health = run_plugin(Scripted(raising(TaskAssignmentError())), view, STANDBYS, health, now_ms=0).health
    assert health.disabled


INVALID = {
    AssignmentError.ACTIVE_TASK_NOT_ASSIGNED: (assigned(1, ("0_0",)), assigned(2)),
    AssignmentError.INVALID_STANDBY_TASK: (assigned(1, ("0_0", "0_1", "0_2", "1_0")), assigned(2, (), ("1_0",))),
    AssignmentError.MISSING_PROCESS_ID: (assigned(1, ("0_0", "0_1", "0_2", "1_0")),),
    AssignmentError.UNKNOWN_PROCESS_ID: (
        assigned(1, ("0_0", "0_1", "0_2", "1_0")),
        assigned(2),
        assigned(3),
    ),
    AssignmentError.UNKNOWN_TASK_ID: (assigned(1, ("0_0", "0_1", "0_2", "1_0", "5_0")), assigned(2)),
}


@pytest.mark.parametrize("error", INVALID)
def test_an_invalid_answer_is_reported_and_kept_away(error: AssignmentError) -> None:
    assignor = Scripted(lambda _: TaskAssignment(INVALID[error]))
    run = run_plugin(assignor, APP.view(*OWNERS), STANDBYS, PluginHealth(), now_ms=0)
    assert run.plan.active.tolist() == [0, 0, 1, 1]
    assert run.health.failures == 1
    assert error.value in run.notes[0]
    ((reported, subscription, reason),) = assignor.reported
    assert reason is error
    assert set(subscription.group_subscription) == {"1-0", "2-0"}
    if error.unreadable:
        assert reported.group_assignment == {}
    else:
        assert reported.group_assignment["2-0"].active_tasks == tasks("0_2", "1_0")


@pytest.mark.parametrize("junk", [None, 7, [], TaskAssignment([None]), object()])  # type: ignore[list-item]  # junk
def test_junk_is_a_failure_that_no_callback_can_name(junk: TaskAssignment) -> None:
    assignor = Scripted(lambda _: junk)
    run = run_plugin(assignor, APP.view(*OWNERS), STANDBYS, PluginHealth(), now_ms=0)
    assert validate_plan(APP.view(*OWNERS), run.plan) == ()
    assert "MalformedAssignmentError" in run.notes[0]
    assert assignor.reported == []


def test_the_callback_shows_the_delivered_assignment_by_thread() -> None:
    assignor = Scripted(identity)
    view = APP.view(replace(OWNERS[0], threads=2, rack="az1", tags={"z": "a"}), OWNERS[1])
    run_plugin(assignor, view, STANDBYS, PluginHealth(), cluster=APP.cluster(), now_ms=0)
    ((reported, subscription, error),) = assignor.reported
    assert error is AssignmentError.NONE
    assignment = reported.group_assignment
    assert set(assignment) == {"1-0", "1-1", "2-0"}
    assert sorted(assignment["1-0"].active_tasks + assignment["1-1"].active_tasks) == list(tasks("0_0", "0_1"))
    assert assignment["2-0"].active_tasks == tasks("0_2", "1_0")
    assert assignment["2-0"].standby_tasks == tasks("0_0")
    assert assignment["2-0"].partitions == (TopicPartition(source(0), 2), TopicPartition(source(1), 0))
    message = subscription.group_subscription["1-0"]
    assert (message.process_id, message.rack, message.client_tags) == (process_id(1), "az1", {"z": "a"})
    assert message.previous_tasks == tasks("0_0")
    assert changelog(0) not in {p.topic for p in assignment["2-0"].partitions}


def test_a_callback_that_raises_changes_nothing() -> None:
    class Nosy(Scripted):
        def on_assignment_computed(self, *_: object) -> None:
            raise ValueError("no dashboard")

    run = run_plugin(Nosy(identity), APP.view(*OWNERS), STANDBYS, PluginHealth(), now_ms=0)
    assert run.plan.active.tolist() == [0, 0, 1, 1]
    assert run.health == PluginHealth()
    assert run.notes == ("on_assignment_computed of assignor Nosy failed: ValueError: no dashboard",)


def test_an_assignor_needs_nothing_but_assign() -> None:
    class Plain:
        def assign(self, application_state: ApplicationState) -> TaskAssignment:
            return identity(application_state)

    run = run_plugin(Plain(), APP.view(*OWNERS), STANDBYS, PluginHealth(), now_ms=0)  # type: ignore[arg-type]  # the point
    assert (run.notes, run.health) == ((), PluginHealth())


def test_what_the_plug_in_keeps_cannot_change_the_plan() -> None:
    kept: list[KafkaStreamsAssignment] = []

    def answer(state: ApplicationState) -> TaskAssignment:
        kept.extend(identity_assignment(state).values())
        return TaskAssignment(kept)

    run = run_plugin(Scripted(answer), APP.view(*OWNERS), STANDBYS, PluginHealth(), now_ms=0)
    kept[0].remove_task(AssignedTask.active(TaskId(0, 0)))
    assert run.plan.active.tolist() == [0, 0, 1, 1]


def test_equal_inputs_give_equal_runs() -> None:
    runs = [
        run_plugin(Scripted(raising(OSError())), APP.view(*OWNERS), STANDBYS, PluginHealth(), now_ms=1)
        for _ in range(2)
    ]
    assert runs[0].health == runs[1].health
    assert runs[0].notes == runs[1].notes
    assert runs[0].plan.active.tolist() == runs[1].plan.active.tolist()
    assert standbys_of(runs[0].plan) == standbys_of(runs[1].plan)


def test_without_processes_there_is_no_plan_and_no_question() -> None:
    view = Application(stateful=(2,)).view()
    run = run_plugin(Scripted(raising(OSError())), view, STANDBYS, PluginHealth(), now_ms=0)
    assert run.plan.active.tolist() == [NOBODY, NOBODY]
    assert run.health == PluginHealth()
    assert run.notes == ("there is no process to place tasks on",)


def test_without_a_plan_orphans_go_where_their_state_is_and_standbys_are_made_anew() -> None:
    view = Application(stateful=(4,)).view(
        Process(1, active=("0_0", "0_2")), Process(2, active=("0_1",)), Process(3, standby=("0_3",), lags={"0_3": 1})
    )
    run = run_plugin(Scripted(raising(OSError())), view, STANDBYS, PluginHealth(), now_ms=0)
    assert run.plan.active.tolist() == [0, 1, 0, 2]
    assert np.bincount(run.plan.standby_task, minlength=4).tolist() == [1, 1, 1, 1]
    assert not run.plan.probing
    assert run.plan.notes == ()
