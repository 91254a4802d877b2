"""Tasks to threads (docs/internals/streams.md#tasks-to-threads)."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from bellwether_kafka.assignors.shared import NOBODY, Ragged
from bellwether_kafka.assignors.streams.application import LATEST_OFFSET, StreamsPlan
from bellwether_kafka.assignors.streams.threads import assign_threads
from bellwether_kafka.assignors.streams.threads.deal import _heap_order, deal_process
from bellwether_kafka.protocol.primitives import task_set_order
from tests.differential.thread_problems import by_member
from tests.kit.streams_views import Application, Instance, process_id

NINE = [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1)]


def deal(
    stateful: Sequence[int] = (),
    standbys: Sequence[int] = (),
    stateless: Sequence[int] = (),
    *,
    previous: Sequence[Sequence[int]],
    names: Sequence[tuple[int, int]] = tuple((0, p) for p in range(100)),
) -> tuple[list[list[int]], list[list[int]]]:
    def hashed(tasks: Sequence[int]) -> list[int]:
        order = task_set_order([names[t][0] for t in tasks], [names[t][1] for t in tasks])
        return [tasks[position] for position in order]

    return deal_process(list(stateful), list(standbys), list(stateless), previous, hashed)


def test_nine_fresh_tasks_on_three_threads_as_in_kafkas_own_test() -> None:
    dealt, _ = deal(range(9), previous=[[], [], []], names=NINE)
    assert [[NINE[t] for t in row] for row in dealt] == [
        [(0, 0), (0, 3), (1, 2)],
        [(0, 1), (1, 0), (2, 0)],
        [(0, 2), (1, 1), (2, 1)],
    ]


def test_threads_keep_what_they_had() -> None:
    dealt, _ = deal(range(6), previous=[[4, 5], [2, 3], [0, 1]])
    assert dealt == [[4, 5], [2, 3], [0, 1]]


def test_a_thread_that_has_its_share_keeps_no_standby_of_before() -> None:
    dealt, copies = deal(range(3), [3], previous=[[3], []])
    assert [len(row) for row in dealt] == [2, 1]
    assert copies == [[], [3]]


def test_the_least_lag_is_kept_first_and_the_rest_goes_where_room_is() -> None:
    dealt, _ = deal(range(4), previous=[[3, 1, 0, 2], []])
    assert dealt == [[3, 1], [0, 2]]


def test_a_leftover_returns_to_the_thread_that_had_it() -> None:
    dealt, _ = deal(range(5), previous=[[0, 1], [2, 3, 4]])
    assert dealt == [[0, 1], [2, 3, 4]]


def test_of_two_threads_that_had_a_leftover_the_last_one_gets_it() -> None:
    dealt, _ = deal(range(3), previous=[[0, 2], [1, 2]])
    assert dealt == [[0], [1, 2]]


def test_leftovers_come_in_the_order_of_the_heap_and_not_of_the_tasks() -> None:
    # Hash order 6 5 4 3 2 1 0 makes the heap 0 2 1 3 5 6 4 on which nothing else happens.
    dealt, _ = deal(range(7), previous=[[]] * 8)
    assert dealt == [[0], [2], [1], [3], [5], [6], [4], []]


def test_a_leftover_that_returned_is_not_dealt_again_from_the_heap() -> None:
    """Of nine tasks on five threads 5 to 8 are left, and 8 goes back to the thread that had it. The heap of all tasks
    has lost 0, then 1 to 4 by polls, and is [5, 6, 8, 7]."""
    dealt, _ = deal_process(list(range(9)), [], [], [[0, 8], [], [], [], []], list)
    assert dealt == [[0, 8], [1, 5], [2, 6], [3, 7], [4]]


def test_standbys_and_stateless_tasks_level_the_loads() -> None:
    active, standby = deal([0, 1, 2], [3, 4], [5], previous=[[], []])
    assert [len(a) + len(s) for a, s in zip(active, standby, strict=True)] == [3, 3]
    assert sorted(t for row in active for t in row) == [0, 1, 2, 5]
    assert sorted(t for row in standby for t in row) == [3, 4]


def test_standbys_are_sticky_and_stateless_tasks_are_not() -> None:
    active, standby = deal([], [2, 3], [0, 1], previous=[[3, 1], [2, 0]])
    assert standby == [[3], [2]]
    assert active == [[0], [1]]


def test_a_view_is_dealt_process_by_process() -> None:
    application = Application(
        [(4, 100), (2, None)], [Instance(process_id(1), capacity=2), Instance(process_id(2), capacity=1)]
    )
    view = application.view()
    plan = StreamsPlan(
        np.array([0, 0, 1, NOBODY, 0, 1], dtype=np.int32),
        np.array([2, 3], dtype=np.int32),
        np.array([0, 0], dtype=np.int32),
        np.zeros(2, dtype=np.bool_),
    )
    dealt = by_member(assign_threads(view, plan), view)
    first, second = view.processes[0].members
    assert dealt == {first: ([0, 4], [2]), second: ([1], [3]), view.processes[1].members[0]: ([2, 5], [])}


def test_reports_decide_by_lag_then_task() -> None:
    lags = {0: 50, 1: LATEST_OFFSET, 2: 5, 3: 5}
    view = replace(
        Application([(4, 100)], [Instance(process_id(1), capacity=2, lags=lags)]).view(),
        thread_tasks=Ragged.of_rows([[0, 1, 2, 3], []]),
    )
    dealt = assign_threads(view, StreamsPlan.of_active(np.zeros(4, dtype=np.int32)))
    assert dealt.active[0].tolist() == [1, 2]
    assert dealt.active[1].tolist() == [0, 3]
    assert dealt.standby[0].tolist() == []


@pytest.mark.slow
def test_many_processes_deal_everything_evenly() -> None:
    tasks, processes = 20_000, 400
    application = Application([(tasks, 100)], [Instance(process_id(n + 1), capacity=11) for n in range(processes)])
    view = application.view()
    plan = StreamsPlan.of_active((np.arange(tasks) % processes).astype(np.int32))
    dealt = assign_threads(view, plan)
    sizes = np.diff(dealt.active.first)
    assert sizes.sum() == tasks
    assert set(sizes.tolist()) == {4, 5}
    assert (np.sort(dealt.active.values) == np.arange(tasks)).all()


def test_what_is_removed_from_a_heap_leaves_a_heap() -> None:
    random = Random(8)
    for _ in range(300):
        tasks = random.sample(range(100), random.randint(1, 40))
        kept = random.sample(tasks, random.randint(0, len(tasks)))
        heap = _heap_order(tasks, kept, 0, [])
        assert sorted(heap) == sorted(set(tasks) - set(kept))
        assert all(heap[(at - 1) >> 1] < heap[at] for at in range(1, len(heap)))
