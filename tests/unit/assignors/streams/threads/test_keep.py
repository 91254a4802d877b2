"""Tasks stay on the threads that run them."""

from dataclasses import replace

import numpy as np
import pytest

from bellwether_kafka.assignors.shared import NOBODY, Ragged
from bellwether_kafka.assignors.streams.application import StreamsPlan, StreamsView
from bellwether_kafka.assignors.streams.threads import spread
from tests.kit.streams_views import Application, Instance, process_id
from tests.seeds import seeds


def view_of(capacities: list[int], running_on: list[int], stateful: int = 0) -> StreamsView:
    """`stateful` tasks, then stateless ones; `running_on` has the thread of every task."""
    application = Application([(stateful, 100), (len(running_on) - stateful, None)])
    application.instances = [Instance(process_id(n), capacity) for n, capacity in enumerate(capacities, start=1)]
    return replace(application.view(), running_on=np.array(running_on, dtype=np.int32))


def threads(view: StreamsView, active: list[int], deadlines: tuple[tuple[int, int], ...] = ()) -> list[int]:
    plan = replace(StreamsPlan.of_active(np.array(active, dtype=np.int32)), keeps_threads=True, deadlines=deadlines)
    return spread(view, plan).active.tolist()


def test_tasks_stay_on_their_threads() -> None:
    assert threads(view_of([2], [1, 1, 0, 0]), [0] * 4) == [1, 1, 0, 0]


def test_kafka_would_deal_them_anew() -> None:
    view = view_of([2], [1, 1, 0, 0])
    assert spread(view, StreamsPlan.of_active(np.zeros(4, dtype=np.int32))).active.tolist() != [1, 1, 0, 0]


def test_a_task_that_comes_goes_to_the_thread_with_the_least_active_tasks() -> None:
    assert threads(view_of([2, 1], [0, 0, 1, 2]), [0, 0, 0, 0]) == [0, 0, 1, 1]


def test_as_few_go_to_another_thread_as_make_it_even() -> None:
    assert threads(view_of([2], [0, 0, 0, 0, 1]), [0] * 5) == [0, 0, 0, 1, 1]
    assert threads(view_of([3], [0] * 6), [0] * 6) == [0, 0, 2, 1, 2, 1]


def test_stateful_tasks_weigh_too_and_do_not_move() -> None:
    assert threads(view_of([2], [0, 1, 0, 0, 0, NOBODY], stateful=2), [0] * 6) == [0, 1, 0, 0, 1, 1]


def test_stateful_tasks_stay_too_though_their_lags_change() -> None:
    """Seen in a restart: two that were being restored exchanged threads, and neither ran for a second."""
    view = view_of([2], [1, 0, 1, 0], stateful=4)
    assert threads(view, [0] * 4) == [1, 0, 1, 0]


def test_stateful_tasks_are_even_among_themselves() -> None:
    by_thread = threads(view_of([2], [0, 0, 0, 0, 1, 1, 1, 1], stateful=4), [0] * 8)
    assert sorted(by_thread[:4]) == [0, 0, 1, 1]
    assert sorted(by_thread) == [0] * 4 + [1] * 4
    assert sum(a == b for a, b in zip(by_thread, [0, 0, 0, 0, 1, 1, 1, 1], strict=True)) == 4


def view_with_copies(copies: list[list[int]]) -> StreamsView:
    """Two processes of two threads. `copies` are the stateful tasks that each thread has, running or not; those of the
    second process run there."""
    application = Application([(8, 100)])
    application.instances = [Instance(process_id(n), 2) for n in (1, 2)]
    running = [next((thread for thread in (2, 3) if task in copies[thread]), NOBODY) for task in range(8)]
    return replace(
        application.view(),
        running_on=np.array(running, dtype=np.int32),
        thread_tasks=Ragged.of_rows(copies),
    )


def test_a_task_that_is_taken_over_runs_on_the_thread_of_its_copy() -> None:
    view = view_with_copies([[3, 1], [0, 2], [0, 1, 2, 3], []])
    assert threads(view, [0, 0, 0, 0, 1, 1, 1, 1])[:4] == [1, 0, 1, 0]


def test_threads_are_even_even_so() -> None:
    view = view_with_copies([[0, 1, 2, 3], [], [0, 1, 2, 3], []])
    assert sorted(threads(view, [0, 0, 0, 0, 1, 1, 1, 1])[:4]) == [0, 0, 1, 1]


def test_nothing_changes_its_thread_while_a_process_is_expected_back() -> None:
    """Nor does a task leave the thread of its copy, or that which runs it: others are even again soon."""
    view = view_with_copies([[0, 1, 2, 3], [], [4, 5, 6, 7], []])
    assert threads(view, [0, 0, 0, 0, 1, 1, 1, 1], ((0, 1),)) == [0, 0, 0, 0, 2, 2, 2, 2]
    assert threads(view_of([2], [0, 0, 0, NOBODY]), [0] * 4, ((0, 1),)) == [0, 0, 0, 1]


def standby_threads(view: StreamsView, standbys: list[int], active: list[int] | None = None) -> list[int]:
    """Of these standbys on the first process; everything runs on the second one by default."""
    task = np.array(standbys, dtype=np.int32)
    plan = StreamsPlan.of(np.array(active or [1] * 8, dtype=np.int32), task, np.zeros(len(task), dtype=np.int32))
    return spread(view, replace(plan, keeps_threads=True)).standby.tolist()


def test_a_copy_stays_on_its_thread() -> None:
    view = view_with_copies([[1, 3], [0, 2], [0, 1, 2, 3], [4, 5, 6, 7]])
    assert standby_threads(view, [0, 1, 2, 3]) == [1, 0, 1, 0]


def test_no_thread_keeps_more_than_one_copy_above_its_share() -> None:
    view = view_with_copies([[0, 1, 2, 3], [], [0, 1, 2, 3], [4, 5, 6, 7]])
    assert sorted(standby_threads(view, [0, 1, 2, 3])) == [0, 0, 0, 1]


def test_new_copies_of_the_tasks_of_one_process_go_to_all_threads() -> None:
    """So each thread takes over its part of them, without an exchange of copies."""
    view = view_with_copies([[], [], [0, 1, 2, 3], [4, 5, 6, 7]])
    assert sorted(standby_threads(view, [0, 1, 2, 3])) == [0, 0, 1, 1]


def test_they_go_to_threads_first_that_run_less() -> None:
    view = view_with_copies([[0, 1], [2], [3, 4], [5, 6, 7]])
    assert standby_threads(view, [3], [0, 0, 0, 1, 1, 1, 1, 1]) == [1]


def test_copies_change_threads_where_one_thread_would_take_over_everything() -> None:
    """Now, while nobody waits for them: when tasks are taken over, each would stand still until its copy is closed."""
    view = view_with_copies([[0, 1], [], [0, 1, 2, 3], [4, 5, 6, 7]])
    task = np.array([0, 1], dtype=np.int32)
    plan = StreamsPlan.of(np.ones(8, dtype=np.int32), task, np.zeros(2, dtype=np.int32))
    settled = replace(plan, keeps_threads=True, destination=plan.active)
    assert spread(view, settled).standby.tolist() == [0, 1]
    assert spread(view, replace(settled, probing=True)).standby.tolist() == [0, 0]
    assert spread(view, replace(settled, evacuated=np.array([False, True]))).standby.tolist() == [0, 0]


def test_where_nothing_stays_it_is_dealt_as_in_kafka() -> None:
    view = view_of([2], [NOBODY] * 4)
    assert threads(view, [0] * 4) == spread(view, StreamsPlan.of_active(np.zeros(4, dtype=np.int32))).active.tolist()


@pytest.mark.parametrize("seed", seeds(200))
def test_nothing_is_lost_and_threads_are_even(seed: int) -> None:
    random = np.random.default_rng(seed)
    capacities = random.integers(1, 5, size=random.integers(1, 5)).tolist()
    count = int(random.integers(1, 40))
    stateful = int(random.integers(0, count + 1))
    view = view_of(capacities, random.integers(NOBODY, sum(capacities), size=count).tolist(), stateful)
    active = random.integers(0, len(capacities), size=count)
    owner = np.array(threads(view, active.tolist()))
    process = np.repeat(np.arange(len(capacities)), capacities)
    assert (process[owner] == active).all()
    tasks = np.bincount(owner, minlength=sum(capacities))
    for p in range(len(capacities)):
        assert np.ptp(tasks[process == p]) <= 1
        assert np.ptp(np.bincount(owner[:stateful], minlength=sum(capacities))[process == p]) <= 1
