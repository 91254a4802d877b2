"""What an assignor returns, and every way in which it can be wrong. KIP-924's KafkaStreamsAssignmentTest and the
validation half of TaskAssignmentUtilsTest, with the errors that shipped Java overlooks."""

import pytest

from bellwether_kafka.assignors.shared import NOBODY
from bellwether_kafka.assignors.streams.api import (
    AssignedTask,
    AssignmentError,
    InvalidAssignmentError,
    KafkaStreamsAssignment,
    TaskAssignment,
    TaskType,
    from_view,
)
from bellwether_kafka.assignors.streams.api.checked import MalformedAssignmentError
from bellwether_kafka.assignors.streams.application import AssignmentConfigs
from bellwether_kafka.protocol.primitives import TaskId
from tests.kit import streams_views
from tests.kit.streams import placed
from tests.unit.assignors.streams.api.api_scenes import (
    Application,
    Process,
    assigned,
    from_plan,
    process_id,
    task,
    to_plan,
    validate_task_assignment,
)

APP = Application(stateful=(2,), stateless=(1,))
PAIR = (Process(1), Process(2))
VALID = (assigned(1, active=("0_0", "1_0")), assigned(2, active=("0_1",), standby=("0_0",)))


def test_an_assignment_has_a_readable_text() -> None:
    text = repr(assigned(1, active=("0_2", "0_0"), standby=("0_1",)))
    assert text == (
        "KafkaStreamsAssignment(00000000-0000-0000-0000-000000000001,"
        " [ACTIVE 0_0, STANDBY 0_1, ACTIVE 0_2], followup_ms=None)"
    )
    assert repr(TaskAssignment([assigned(2)])).startswith("TaskAssignment([KafkaStreamsAssignment(00000000")


def test_tasks_are_assigned_changed_and_removed() -> None:
    mine = assigned(1, active=("0_0",))
    tasks = mine.tasks
    mine.assign_task(AssignedTask.standby(task("0_1")))
    assert dict(tasks) == {
        task("0_0"): AssignedTask(task("0_0"), TaskType.ACTIVE),
        task("0_1"): AssignedTask(task("0_1"), TaskType.STANDBY),
    }
    mine.assign_task(AssignedTask.active(task("0_1")))
    assert tasks[task("0_1")].type is TaskType.ACTIVE
    mine.remove_task(AssignedTask.standby(task("0_1")))
    mine.remove_task(AssignedTask.active(task("5_5")))
    assert list(tasks) == [task("0_0")]


def test_the_tasks_are_a_read_only_view() -> None:
    mine = assigned(1, active=("0_0",))
    with pytest.raises(TypeError):
        mine.tasks[task("0_1")] = AssignedTask.active(task("0_1"))  # type: ignore[index]  # that is the point
    given = [AssignedTask.active(task("0_0"))]
    copied = KafkaStreamsAssignment.of(process_id(1), given)
    given.clear()
    assert list(copied.tasks) == [task("0_0")]


def test_one_task_in_both_roles_is_refused() -> None:
    with pytest.raises(ValueError, match="task 0_0 is both active and standby"):
        assigned(1, active=("0_0",), standby=("0_0",))


def test_a_follow_up_makes_a_new_assignment_that_can_still_be_changed() -> None:
    """In shipped Java assign_task and remove_task fail on it; KIP-924 promises an object like any other."""
    plain = assigned(1, active=("0_0",))
    later = plain.with_followup_rebalance(12_345)
    assert (plain.followup_rebalance_deadline_ms, later.followup_rebalance_deadline_ms) == (None, 12_345)
    later.assign_task(AssignedTask.standby(task("0_1")))
    later.remove_task(AssignedTask.active(task("0_0")))
    assert list(later.tasks) == [task("0_1")]
    assert list(plain.tasks) == [task("0_0")]
    assert later.process_id == plain.process_id
    assert assigned(1).with_followup_rebalance(0).followup_rebalance_deadline_ms == 0


def test_a_follow_up_deadline_is_a_time() -> None:
    with pytest.raises(ValueError, match="must not be negative, but it is -1"):
        assigned(1).with_followup_rebalance(-1)
    for wrong in ("soon", 1.5, True, None):
        with pytest.raises(TypeError, match="an integer of milliseconds"):
            assigned(1).with_followup_rebalance(wrong)  # type: ignore[arg-type]  # that is the point


CASES: dict[AssignmentError, tuple[KafkaStreamsAssignment, ...]] = {
    AssignmentError.NONE: VALID,
    AssignmentError.ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES: (
        assigned(1, active=("0_0", "1_0")),
        assigned(2, active=("0_1", "0_0")),
    ),
    AssignmentError.INVALID_STANDBY_TASK: (*VALID[:1], assigned(2, active=("0_1",), standby=("1_0",))),
    AssignmentError.MISSING_PROCESS_ID: (assigned(1, active=("0_0", "0_1", "1_0")),),
    AssignmentError.UNKNOWN_PROCESS_ID: (*VALID, assigned(3)),
    AssignmentError.UNKNOWN_TASK_ID: (*VALID[:1], assigned(2, active=("0_1", "0_9"))),
    AssignmentError.ACTIVE_AND_STANDBY_TASK_ASSIGNED_TO_SAME_KAFKASTREAMS: (*VALID, assigned(1, standby=("0_0",))),
    AssignmentError.PROCESS_ID_ASSIGNED_MULTIPLE_TIMES: (*VALID, assigned(1)),
    AssignmentError.ACTIVE_TASK_NOT_ASSIGNED: (assigned(1, active=("0_0", "1_0")), assigned(2, standby=("0_0",))),
}


@pytest.mark.parametrize("error", AssignmentError)
def test_every_error_is_found(error: AssignmentError) -> None:
    state = APP.state(*PAIR)
    assert validate_task_assignment(state, TaskAssignment(CASES[error])) is error
    if error is not AssignmentError.NONE:
        with pytest.raises(InvalidAssignmentError, match=error.value) as caught:
            to_plan(state.view, TaskAssignment(CASES[error]))
        assert caught.value.error is error


def test_no_assignment_at_all_for_an_application_with_processes_misses_them() -> None:
    assert validate_task_assignment(APP.state(*PAIR), TaskAssignment([])) is AssignmentError.MISSING_PROCESS_ID


def test_java_reports_task_errors_before_process_errors() -> None:
    state = APP.state(*PAIR)
    strangers = TaskAssignment([assigned(3, active=("0_9",))])
    assert validate_task_assignment(state, strangers) is AssignmentError.UNKNOWN_TASK_ID
    nobody_there = TaskAssignment([assigned(3, active=("0_0",))])
    assert validate_task_assignment(state, nobody_there) is AssignmentError.MISSING_PROCESS_ID
    named = KafkaStreamsAssignment.of(process_id(1), [AssignedTask.active(TaskId(0, 0, "named"))])
    assert validate_task_assignment(state, TaskAssignment([named])) is AssignmentError.UNKNOWN_TASK_ID


def test_only_unknown_names_make_an_assignment_unreadable() -> None:
    unreadable = {error for error in AssignmentError if error.unreadable}
    assert unreadable == {AssignmentError.UNKNOWN_PROCESS_ID, AssignmentError.UNKNOWN_TASK_ID}


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (None, "NoneType is not a TaskAssignment"),
        ([*VALID], "list is not a TaskAssignment"),
        (TaskAssignment(["x"]), "str is not a KafkaStreamsAssignment"),  # type: ignore[list-item]
        (TaskAssignment([KafkaStreamsAssignment("x", {}, None)]), "str is not a ProcessId"),  # type: ignore[arg-type]
        (TaskAssignment([KafkaStreamsAssignment(process_id(1), {}, -1)]), "follow-up deadline of process"),
        (
            TaskAssignment([KafkaStreamsAssignment(process_id(1), {task("0_0"): "0_0"}, None)]),  # type: ignore[dict-item]
            "str is not an AssignedTask",
        ),
        (
            TaskAssignment([KafkaStreamsAssignment.of(process_id(1), [AssignedTask((0, 0), TaskType.ACTIVE)])]),  # type: ignore[arg-type]
            "not of a TaskId and a TaskType",
        ),
    ],
)
def test_what_is_no_assignment_is_refused_in_words(wrong: TaskAssignment, text: str) -> None:
    # the wrong types above are what an unchecked plug-in may return
    with pytest.raises(MalformedAssignmentError, match=text):
        validate_task_assignment(APP.state(*PAIR), wrong)


def test_a_valid_assignment_becomes_a_plan_and_back() -> None:
    state = APP.state(*PAIR)
    plan = to_plan(state.view, TaskAssignment(VALID))
    assert plan.active.tolist() == [0, 1, 0]
    assert (plan.standby_task.tolist(), plan.standby_process.tolist()) == ([0], [1])
    assert not plan.warmup.any()
    assert not plan.probing
    again = from_plan(state, plan)
    assert {p: dict(a.tasks) for p, a in again.items()} == {a.process_id: dict(a.tasks) for a in VALID}


def test_a_task_without_owner_is_in_no_assignment() -> None:
    view = streams_views.Application([(2, None)], [streams_views.Instance(streams_views.process_id(1))]).view()
    state = from_view(view, AssignmentConfigs())
    (assigned,) = from_plan(state, placed([NOBODY, 0])).values()
    assert [str(task) for task in assigned.tasks] == ["0_1"]
