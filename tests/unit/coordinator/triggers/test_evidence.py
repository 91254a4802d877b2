"""What members report of tasks that they have had for a while, and what of it proves another topology."""

from dataclasses import replace

from bellwether_kafka.assignors.shared import Decision
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.assignors.streams.application import EndOffsets
from bellwether_kafka.coordinator.triggers import Doing, Evidence, Fact
from bellwether_kafka.protocol.primitives import TaskId
from tests.kit.streams import NOW_MS, SHOP, SHOP_COUNTS, Thread, ends_of, group, led

AGAIN_MS = 12_000
HAD_MS = 5000
RETRIES_MS = 120_000

A = Thread("a", 1)
STATELESS, STATEFUL = TaskId(0, 1), TaskId(1, 1)


class Reported:
    """One thread with all tasks, that joins again and reports on them. `works` are the tasks that it has committed."""

    def __init__(self, *works: TaskId, newcomer: bool = True) -> None:
        self.evidence, self.at_ms = Evidence(), NOW_MS
        self.works, self.paused_ms = works, float("inf")
        self.unproven = {"a"} if newcomer else set[str]()
        self.lags_known = True
        self.last = self._led(A, 1)
        assert self.evidence.planned(self.last, self.unproven, {}) == ()

    def again(self, after_ms: int, **sums: int | None) -> tuple[Fact, ...]:
        """`t0_1=5`: of task 0_1 the sum 5, None for no report."""
        self.at_ms += after_ms
        thread = A.after(self.last)
        changed = {tuple(int(n) for n in name[1:].split("_")): value for name, value in sums.items()}
        present = {task: value for task, value in {**thread.sums, **changed}.items() if value is not None}
        thread = replace(thread, sums=present, unique=self.last.raw.generation)
        self.last = self._led(thread, self.last.raw.generation + 1)
        committed = {("a", task): int(min(self.at_ms, self.paused_ms)) for task in self.works}
        return self.evidence.planned(self.last, self.unproven, committed)

    def _led(self, thread: Thread, generation: int) -> Decision[TaskPlan]:
        ends = ends_of(SHOP, SHOP_COUNTS) if self.lags_known else EndOffsets({}, NOW_MS, "no answer")
        return led(group(thread, generation=generation), now_ms=self.at_ms, ends=ends)


def test_a_thread_that_runs_its_tasks_proves_nothing() -> None:
    reported = Reported(STATELESS)
    assert [reported.again(20_000) for _ in range(5)] == [()] * 5
    assert reported.evidence.doing("a", TaskId(1, 0)) is Doing.RUNS
    assert not reported.evidence.asks_again("a")


def test_state_of_a_stateless_task_is_certain_at_once_but_only_of_a_task_that_was_had_for_a_while() -> None:
    early = Reported()
    assert early.again(HAD_MS - 1, t0_2=7) == ()
    (fact,) = Reported(newcomer=False).again(HAD_MS, t0_2=7)
    assert (fact.member_id, fact.task) == ("a", TaskId(0, 2))


def test_a_newcomer_that_works_and_neither_runs_nor_restores_a_task_waits_for_a_changelog_that_is_not_there() -> None:
    """Whatever the sum is: another instance has written its changelog in between, so it is not the end's."""
    for value in (0, 500, 1000):
        reported = Reported(STATELESS)
        assert reported.again(HAD_MS, t1_1=value) == ()
        assert reported.evidence.asks_again("a")
        assert reported.again(AGAIN_MS - 1, t1_1=value) == ()
        (fact,) = reported.again(1, t1_1=value)
        assert "neither runs nor restores it, while it works on others" in fact.sentence


def test_a_thread_that_works_on_nothing_may_be_paused() -> None:
    reported = Reported()
    assert [reported.again(20_000, t1_1=1000) for _ in range(5)] == [()] * 5
    assert reported.evidence.doing("a", STATEFUL) is Doing.WAITS


def test_a_thread_that_is_paused_while_it_restores_has_worked_only_before() -> None:
    reported = Reported(STATELESS)
    assert reported.again(20_000, t1_1=500) == ()
    reported.paused_ms = reported.at_ms + 1
    assert reported.again(20_000, t1_1=700) == ()
    assert [reported.again(20_000, t1_1=700) for _ in range(5)] == [()] * 5


def test_a_member_that_has_worked_on_all_of_its_tasks_before_has_another_reason() -> None:
    reported = Reported(STATELESS, newcomer=False)
    assert [reported.again(20_000, t1_1=1000) for _ in range(5)] == [()] * 5


def test_a_task_that_ran_meanwhile_was_about_to() -> None:
    reported = Reported(STATELESS)
    assert reported.again(HAD_MS, t1_1=1000) == ()
    assert reported.again(60_000) == ()
    assert reported.again(60_000, t1_1=1000) == ()


def test_restoring_proves_nothing_however_long_it_takes() -> None:
    reported = Reported(STATELESS)
    assert [reported.again(60_000, t1_1=900 + n) for n in range(5)] == [()] * 5
    assert reported.evidence.doing("a", STATEFUL) is Doing.RESTORES


def test_what_keeps_bellwether_from_reading_changelogs_keeps_members_from_restoring_them() -> None:
    reported = Reported(STATELESS)
    reported.lags_known = False
    assert [reported.again(20_000, t1_1=500) for _ in range(3)] == [()] * 3


def test_after_a_broker_did_not_answer_members_may_stand_still_for_two_minutes() -> None:
    reported = Reported(STATELESS)
    reported.again(20_000, t1_1=500)
    reported.evidence.unknown(reported.at_ms)
    assert [reported.again(20_000, t1_1=500) for _ in range(6)] == [()] * 6
    assert reported.again(RETRIES_MS, t1_1=500) == ()
    assert reported.again(AGAIN_MS, t1_1=500) != ()


def test_a_stateful_task_without_a_sum_may_wait_for_the_lock_on_its_directory_unless_it_is_committed() -> None:
    waiting = Reported(STATELESS)
    assert [waiting.again(20_000, t1_1=None) for _ in range(3)] == [()] * 3
    works = Reported(STATEFUL)
    assert works.again(20_000, t1_1=None) == ()
    (fact,) = works.again(20_000, t1_1=None)
    assert "keeps no state" in fact.sentence
