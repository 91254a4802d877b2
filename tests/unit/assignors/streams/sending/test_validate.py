"""The oracle of every plan for tasks: what is wrong with a plan is found, and said of the right task."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from bellwether_kafka.assignors.shared import NOBODY, Decision
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.assignors.streams.application import AssignmentConfigs, StreamsPlan, StreamsView
from bellwether_kafka.assignors.streams.members import decode_streams
from bellwether_kafka.assignors.streams.policies import assign_streams
from bellwether_kafka.assignors.streams.sending import (
    Outgoing,
    validate_bytes,
    validate_own,
    validate_plan,
    validate_threads,
)
from bellwether_kafka.protocol.messages import AssignmentInfo, ConsumerProtocolAssignment, ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.streams import OWN, Thread, group, led
from tests.kit.streams_views import Application, Instance, process_id

MAX_FINDINGS = 10


@pytest.fixture
def view() -> StreamsView:
    """Four stateless tasks (0_*), four stateful ones (1_*), two processes."""
    return Application([(4, None), (4, 1_000)], [Instance(process_id(n)) for n in (1, 2)]).view()


@pytest.fixture
def plan(view: StreamsView) -> StreamsPlan:
    made = assign_streams(view, AssignmentConfigs(num_standby_replicas=1), "kafka")
    assert validate_plan(view, made) == ()
    assert len(made.standby_task) == 4
    return made


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int32)


def changed(array: np.ndarray, at: int, value: int) -> np.ndarray:
    copy = array.copy()
    copy[at] = value
    return copy


def standbys(plan: StreamsPlan, task: np.ndarray, process: np.ndarray) -> StreamsPlan:
    return replace(plan, standby_task=task, standby_process=process, warmup=np.zeros(len(task), dtype=np.bool_))


def test_a_plan_of_another_application_is_refused(view: StreamsView, plan: StreamsPlan) -> None:
    assert validate_plan(view, replace(plan, active=plan.active[:-1])) == (
        "the plan has 7 tasks, the application has 8",
    )


def test_arrays_of_standbys_belong_together(view: StreamsView, plan: StreamsPlan) -> None:
    findings = validate_plan(view, replace(plan, warmup=plan.warmup[:-1]))
    assert findings == ("the arrays of standbys have different lengths",)


@pytest.mark.parametrize("process", [-2, 2])
def test_a_process_that_is_not_there_runs_nothing(view: StreamsView, plan: StreamsPlan, process: int) -> None:
    findings = validate_plan(view, replace(plan, active=changed(plan.active, 3, process)))
    assert findings == ("an active task is given to a process that is not there",)


@pytest.mark.parametrize(("task", "process"), [(8, 0), (-1, 0), (4, 2), (4, -1)])
def test_a_standby_is_of_something_and_somewhere(view: StreamsView, plan: StreamsPlan, task: int, process: int) -> None:
    findings = validate_plan(view, standbys(plan, ints(task), ints(process)))
    assert findings == ("a standby is of a task or on a process that is not there",)


def test_standbys_are_in_order(view: StreamsView, plan: StreamsPlan) -> None:
    findings = validate_plan(view, standbys(plan, plan.standby_task[::-1], plan.standby_process[::-1]))
    assert findings == ("standbys are not sorted by task and process",)


def test_a_task_that_runs_nowhere_is_named(view: StreamsView, plan: StreamsPlan) -> None:
    assert validate_plan(view, replace(plan, active=changed(plan.active, 2, NOBODY))) == ("task 0_2 runs nowhere",)


def test_many_findings_of_a_kind_are_counted(view: StreamsView) -> None:
    many = Application([(30, None)], [Instance(process_id(1))]).view()
    findings = validate_plan(many, StreamsPlan.of_active(np.full(30, NOBODY, dtype=np.int32)))
    assert len(findings) == MAX_FINDINGS + 1
    assert findings[-1] == "and 20 more like the last one"


def test_a_copy_beside_the_active_one_protects_nothing(view: StreamsView, plan: StreamsPlan) -> None:
    here = plan.active[plan.standby_task[0]]
    findings = validate_plan(view, replace(plan, standby_process=changed(plan.standby_process, 0, here)))
    assert findings == ("task 1_0 has a standby beside its active copy",)


def test_two_copies_on_one_process_are_one_too_many(view: StreamsView, plan: StreamsPlan) -> None:
    task, process = plan.standby_task[:1].repeat(2), plan.standby_process[:1].repeat(2)
    assert validate_plan(view, standbys(plan, task, process)) == ("task 1_0 has two standbys on one process",)


def test_a_task_without_state_has_nothing_to_copy(view: StreamsView, plan: StreamsPlan) -> None:
    other = 1 - plan.active[0]
    assert validate_plan(view, standbys(plan, ints(0), ints(other))) == ("task 0_0 has a standby but no state",)


# ---- Bellwether's own member -----------------------------------------------------------------------------------------


def own(*partitions: TopicPartition, info: AssignmentInfo | None = None) -> bytes:
    return ConsumerProtocolAssignment(partitions=partitions, user_data=(info or AssignmentInfo()).encode()).encode()


def test_bellwethers_own_member_gets_bytes_and_no_work() -> None:
    assert validate_own(own()) == ()
    assert validate_own(own(TopicPartition("t", 0))) == ("Bellwether's own member would get tasks",)
    assert validate_own(own(info=AssignmentInfo(next_rebalance_ms=5))) == ("Bellwether's own member would get tasks",)


@pytest.mark.parametrize("blob", [b"", own()[:-1], ConsumerProtocolSubscription(version=3, topics=("t",)).encode()[:5]])
def test_own_bytes_that_nobody_can_read_are_found(blob: bytes) -> None:
    (finding,) = validate_own(blob)
    assert "does not read back" in finding


# ---- threads and bytes -----------------------------------------------------------------------------------------------


@pytest.fixture
def decision() -> Decision[TaskPlan]:
    """Two processes, every stateful task with a standby on the other one."""
    made = led(group(Thread("a", 1), Thread("b", 2)), configs=AssignmentConfigs(num_standby_replicas=1))
    assert read_back(made, made.plan.out) == ()
    return made


def read_back(decision: Decision[TaskPlan], out: Outgoing, blobs: Sequence[bytes] | None = None) -> tuple[str, ...]:
    """What is found in the bytes that were sent, or in others, where `out` was meant."""
    sent = [blob for member, blob in decision.assignments if member != OWN]
    return validate_bytes(decode_streams(decision.raw), decision.plan.tasks, out, blobs or sent)


def edited(decision: Decision[TaskPlan], change: Callable[[AssignmentInfo], AssignmentInfo]) -> list[bytes]:
    """The bytes that were sent, with the userData of the first member changed."""
    blobs = [blob for member, blob in decision.assignments if member != OWN]
    first = ConsumerProtocolAssignment.decode(blobs[0])
    info = change(AssignmentInfo.decode(first.user_data or b""))
    return [replace(first, user_data=info.encode()).encode(), *blobs[1:]]


def test_threads_belong_to_the_process_of_the_plan(decision: Decision[TaskPlan]) -> None:
    view, plan, threads, process_map = (
        decision.plan.view,
        decision.plan.target,
        decision.plan.threads,
        decision.plan.process_map,
    )
    assert validate_threads(view, plan, threads, process_map) == ()
    short = replace(threads, standby=threads.standby[:-1])
    assert validate_threads(view, plan, short, process_map) == ("the plan on threads has another size than the plan",)
    for absent in (2, 7, -2):  # there are two threads
        for nobody in (
            replace(threads, active=changed(threads.active, 0, absent)),
            replace(threads, standby=changed(threads.standby, 0, absent)),
        ):
            assert validate_threads(view, plan, nobody, process_map) == (
                "a task is given to a thread that is not there",
            )
    swapped = replace(threads, standby=(1 - threads.standby).astype(np.int32))
    assert validate_threads(view, plan, swapped, process_map)[0] == "a standby of task 1_0 is on a wrong thread"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda info: replace(info, active_tasks=info.active_tasks[1:]),
            "a member has not one active task for each of its partitions",
        ),
        (
            lambda info: replace(info, active_tasks=info.active_tasks[::-1]),
            "the active tasks of a member are not in the order of its partitions",
        ),
        (
            lambda info: replace(info, standby_tasks=info.standby_tasks[1:]),
            "the standby tasks are not those of the plan",
        ),
        (
            lambda info: replace(
                info,
                standby_tasks=tuple((t, (TopicPartition(p.topic, p.partition ^ 1),)) for t, (p,) in info.standby_tasks),
            ),
            "a standby task is sent with a partition that it does not read",
        ),
        (
            lambda info: replace(
                info, standby_tasks=tuple((t, (TopicPartition(p.topic, 1_000),)) for t, (p,) in info.standby_tasks)
            ),
            "a standby task is sent with a partition that it does not read",
        ),
        (
            lambda info: replace(
                info, standby_tasks=tuple((t, (TopicPartition("nowhere", 0),)) for t, (p,) in info.standby_tasks)
            ),
            "a standby task is sent with a partition that it does not read",
        ),
        (
            lambda info: replace(info, standby_tasks=tuple((t, (p, p)) for t, (p,) in info.standby_tasks)),
            "a standby task is not sent with all its partitions",
        ),
        (lambda info: replace(info, version=10), "userData has version 10 where 11 was meant, or an error code"),
        (lambda info: replace(info, error_code=3), "userData has version 11 where 11 was meant, or an error code"),
        (
            lambda info: replace(info, next_rebalance_ms=5),
            "the times of the next rebalance are not those that were meant",
        ),
    ],
)
def test_bytes_that_say_something_else_are_found(
    decision: Decision[TaskPlan], change: Callable[[AssignmentInfo], AssignmentInfo], sentence: str
) -> None:
    assert sentence in read_back(decision, decision.plan.out, edited(decision, change))


def test_a_partition_for_another_member_is_named(decision: Decision[TaskPlan]) -> None:
    other = replace(decision.plan.out, holder=changed(decision.plan.out.holder, 0, 1 - decision.plan.out.holder[0]))
    assert read_back(decision, other) == ("orders-0 is sent to another member than planned",)
