"""Processes that end as soon as they have a task, and all that ends for another reason."""

from dataclasses import replace

import numpy as np

from bellwether_kafka.assignors.shared.decision import Decision
from bellwether_kafka.assignors.streams.task_plan import TaskPlan
from bellwether_kafka.coordinator.triggers.work.short_lives import AT_ONCE_MS, PLANS_MIN, ShortLives
from bellwether_kafka.coordinator.triggers.work.verdict import Alert, HandBack
from bellwether_kafka.coordinator.triggers.work.work_watch import WorkWatch
from tests.unit.assignors.streams.world import NOW_MS, SHOP, SHOP_COUNTS, Thread, ends_of, group, led

NEW_MS = 10_000  # between two lives


class Application:
    """Threads come and go, and a watch is shown each plan. Its changelogs are empty unless `end` says otherwise."""

    def __init__(self, *, end: int = 0, has_input: bool = True) -> None:
        self.lives, self.at_ms, self.generation = ShortLives(), NOW_MS, 0
        self.end, self.has_input, self.number = end, has_input, 0
        self.last: Decision[TaskPlan] | None = None

    def planned(self, *threads: Thread, after_ms: int = NEW_MS) -> tuple[int, ...]:
        self.at_ms, self.generation = self.at_ms + after_ms, self.generation + 1
        raw = group(*threads, generation=self.generation)
        self.last = led(raw, now_ms=self.at_ms, ends=ends_of(SHOP, SHOP_COUNTS, self.end))
        self.lives.planned(self.last)
        if self.has_input:
            self.observe()
        return self.lives.take()

    def observe(self, *worked: int) -> None:
        """The flat partitions that have been committed."""
        assert self.last is not None
        flags = np.zeros(self.last.cluster.partition_total, dtype=np.bool_)
        flags[list(worked)] = True
        self.lives.observe(self.last, flags, has_input=self.has_input)

    def fresh(self, process: int = 1) -> Thread:
        """A process that starts, or starts again."""
        self.number += 1
        return Thread(f"{process}-{self.number}", process, unique=1)

    def again(self, thread: Thread) -> Thread:
        """A thread that has lived on with what it was sent."""
        assert self.last is not None
        return thread.after(self.last)


def test_an_application_of_which_nobody_lives_on_is_a_fact_the_third_time() -> None:
    app = Application()
    assert [app.planned(app.fresh()) for _ in range(PLANS_MIN)] == [()] * PLANS_MIN
    assert app.planned(app.fresh()) == (0, 1)
    assert app.planned(app.fresh()) == (), "and then begins anew"


def test_new_processes_that_follow_one_another_count_like_one_that_starts_again() -> None:
    app = Application()
    plans = [app.planned(app.fresh(process)) for process in range(1, 5)]
    assert plans == [(), (), (), (0, 1)]


def test_the_last_ones_are_seen_to_end_when_no_member_is_left() -> None:
    app = Application()
    for _ in range(PLANS_MIN):
        app.planned(app.fresh())
    assert app.lives.alone(app.at_ms + 45_000)
    assert app.lives.take() == (0, 1)
    assert not app.lives.alone(app.at_ms + 46_000)


def test_members_that_come_and_go_before_a_healthy_one_are_forgiven() -> None:
    app = Application()
    steady = app.fresh(1)
    app.planned(steady)
    for _ in range(6):
        steady = app.again(steady)
        assert app.planned(steady, app.fresh(2)) == ()


def test_a_rolling_restart_again_and_again() -> None:
    app = Application()
    threads = [app.fresh(1), app.fresh(2), app.fresh(3)]
    app.planned(*threads)
    for turn in range(9):
        threads = [app.again(thread) for thread in threads]
        threads[turn % 3] = app.fresh(turn % 3 + 1)
        assert app.planned(*threads, after_ms=2_000) == ()


def test_all_processes_crash_at_once_and_come_back() -> None:
    app = Application()
    app.planned(app.fresh(1), app.fresh(2), app.fresh(3))
    app.lives.alone(app.at_ms + 10_000)
    assert app.lives.take() == ()
    assert app.planned(app.fresh(1), app.fresh(2), app.fresh(3)) == ()


def test_a_lone_process_that_has_committed_once_may_crash_as_often_as_it_likes() -> None:
    app = Application()
    app.planned(app.fresh())
    assert app.last is not None
    first = app.last.cluster.first
    app.observe(int(first[app.last.cluster.index["orders"]]))
    app.observe(int(first[app.last.cluster.index["shop-by-user-repartition"]]))
    assert [app.planned(app.fresh()) for _ in range(8)] == [()] * 8


def test_a_subtopology_that_works_does_not_excuse_another() -> None:
    app = Application()
    for _ in range(PLANS_MIN):
        app.planned(app.fresh())
        assert app.last is not None
        app.observe(int(app.last.cluster.first[app.last.cluster.index["orders"]]))
    assert app.planned(app.fresh()) == (1,)


def test_threads_that_were_fenced_and_join_under_other_ids_have_not_ended() -> None:
    app = Application()
    thread = app.fresh()
    app.planned(thread)
    for turn in range(6):
        thread = replace(app.again(thread), member_id=f"other-{turn}", owned=())
        assert app.planned(thread) == ()


def test_what_may_restore_state_says_nothing_of_its_subtopology() -> None:
    app = Application(end=1000)
    plans = [app.planned(app.fresh()) for _ in range(PLANS_MIN + 1)]
    assert plans[-1] == (0,), "subtopology 0 keeps no state"


def test_without_input_or_after_a_while_the_end_of_a_process_says_nothing() -> None:
    idle = Application(has_input=False)
    assert [idle.planned(idle.fresh()) for _ in range(6)] == [()] * 6
    slow = Application()
    assert [slow.planned(slow.fresh(), after_ms=AT_ONCE_MS + 1) for _ in range(6)] == [()] * 6


def test_what_is_forgotten_counts_no_more() -> None:
    app = Application()
    for _ in range(PLANS_MIN):
        app.planned(app.fresh())
    app.lives.forget()
    assert app.planned(app.fresh()) == ()


# ---- in the watch ----------------------------------------------------------------------------------------------------


def seen(watch: WorkWatch, app: Application, done: int, end: int) -> None:
    """A sample of offsets that are alike on all partitions."""
    assert app.last is not None
    total = app.last.cluster.partition_total
    watch.refresh(app.last, np.full(total, done), np.full(total, end), app.at_ms + 5_000)


def test_a_watch_hands_back_where_all_instances_have_ended_three_times_and_alerts_before() -> None:
    app, watch = Application(has_input=False), WorkWatch(60_000)
    verdicts = []
    for turn in range(PLANS_MIN):
        app.planned(app.fresh())
        assert app.last is not None
        assert watch.planned(app.last) is None
        for end in (100 * turn, 100 * turn + 50):
            seen(watch, app, -1, end)
        verdicts.append(watch.alone(app.at_ms + 9_000))
    assert [type(verdict) for verdict in verdicts] == [Alert, Alert, HandBack]
    assert verdicts[-1] is not None
    assert "no instance has kept running with a task of subtopology 0, 1" in verdicts[-1].reason
    assert watch.alone(app.at_ms + 9_500) is None


def test_a_watch_takes_the_commit_of_a_clean_stop_for_work() -> None:
    app, watch = Application(has_input=False), WorkWatch(60_000)
    for turn in range(6):
        app.planned(app.fresh())
        assert app.last is not None
        assert watch.planned(app.last) is None
        seen(watch, app, 10 * turn, 1000)
        verdict = watch.alone(app.at_ms + 9_000)
        assert not isinstance(verdict, HandBack)
