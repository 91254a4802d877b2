"""What threads say of tasks that they have had for a while, and what of it the topology cannot explain."""

from dataclasses import replace

import pytest

from bellwether_kafka.assignors.shared.decision import Decision
from bellwether_kafka.assignors.streams.task_plan import TaskPlan
from bellwether_kafka.coordinator.triggers.work.evidence import AGAIN_MS, HAD_MS, Evidence, Fact, contradiction
from bellwether_kafka.protocol.messages.streams_subscription import LATEST_OFFSET
from bellwether_kafka.protocol.primitives.types import TaskId
from tests.unit.assignors.streams.world import NOW_MS, Thread, group, led

A = Thread("a", 1)


@pytest.mark.parametrize(
    ("stateful", "end", "value", "certain"),
    [
        (False, None, None, None),
        (False, None, 0, True),
        (False, None, LATEST_OFFSET, True),
        (True, 100, LATEST_OFFSET, None),
        (True, 100, 99, None),
        (True, None, 100, None),
        (True, 100, 100, False),
        (True, 0, 0, False),
        (True, 100, None, False),
    ],
)
def test_what_contradicts_the_topology(
    stateful: bool, end: int | None, value: int | None, certain: bool | None
) -> None:
    reason = contradiction(stateful=stateful, end=end, value=value)
    assert (reason[1] if reason is not None else None) is certain


class Reported:
    """One thread with all tasks, that comes again and says something of them."""

    def __init__(self) -> None:
        self.evidence, self.at_ms = Evidence(), NOW_MS
        self.last = self._led(A, 1)
        assert self.evidence.planned(self.last) == ()

    def again(self, after_ms: int, **sums: int | None) -> tuple[Fact, ...]:
        """`t0_1=5`: of task 0_1 the sum 5, None for nothing."""
        self.at_ms += after_ms
        thread = A.after(self.last)
        message = {tuple(int(n) for n in name[1:].split("_")): value for name, value in sums.items()}
        present = {task: value for task, value in {**thread.sums, **message}.items() if value is not None}
        thread = replace(thread, sums=present, unique=self.last.raw.generation)
        self.last = self._led(thread, self.last.raw.generation + 1)
        return self.evidence.planned(self.last)

    def _led(self, thread: Thread, generation: int) -> Decision[TaskPlan]:
        return led(group(thread, generation=generation), now_ms=self.at_ms)


def test_threads_that_run_what_they_have_say_nothing_odd() -> None:
    reported = Reported()
    assert [reported.again(20_000) for _ in range(5)] == [()] * 5
    assert reported.evidence.runs("a", TaskId(1, 0))


def test_state_of_a_stateless_task_is_certain_at_once_but_only_of_a_task_that_was_had_for_a_while() -> None:
    early = Reported()
    assert early.again(HAD_MS - 1, t0_2=7) == ()
    (fact,) = Reported().again(HAD_MS, t0_2=7)
    assert (fact.member_id, fact.task) == ("a", TaskId(0, 2))


def test_a_task_that_is_restored_and_does_not_run_is_a_fact_the_second_time() -> None:
    reported = Reported()
    assert reported.again(HAD_MS, t1_1=1000) == ()
    assert reported.evidence.asks_again
    assert reported.again(AGAIN_MS - 1, t1_1=1000) == ()
    (fact,) = reported.again(AGAIN_MS, t1_1=1000)
    assert "there must be another one" in fact.sentence


def test_a_task_that_ran_meanwhile_was_about_to() -> None:
    reported = Reported()
    assert reported.again(HAD_MS, t1_1=1000) == ()
    assert reported.again(60_000) == ()
    assert reported.again(60_000, t1_1=1000) == ()


def test_restoring_is_nothing_odd_however_long_it_takes() -> None:
    reported = Reported()
    assert [reported.again(60_000, t1_1=999) for _ in range(5)] == [()] * 5
    assert not reported.evidence.runs("a", TaskId(1, 1))


def test_a_stateful_task_of_which_nothing_is_reported_is_a_fact_the_second_time() -> None:
    reported = Reported()
    assert reported.again(20_000, t1_3=None) == ()
    (fact,) = reported.again(20_000, t1_3=None)
    assert "keeps no state" in fact.sentence


def test_what_is_forgotten_counts_no_more() -> None:
    reported = Reported()
    reported.again(20_000, t1_1=1000)
    reported.evidence.forget()
    assert reported.again(20_000, t1_1=1000) == ()
