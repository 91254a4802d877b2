"""Which tasks stand still: only what moves counts, and only unread records are missed."""

from collections.abc import Mapping

import numpy as np

from bellwether_kafka.assignors.shared import Decision
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.coordinator.triggers import NOTHING_COMMITTED, Progress
from bellwether_kafka.protocol.primitives import TaskId
from tests.kit.streams import NOW_MS, Thread, group, led

STALL_MS = 60_000
A, B = Thread("a", 1), Thread("b", 2)


def offsets(decision: Decision[TaskPlan], default: int, given: Mapping[tuple[str, int], int]) -> "np.ndarray":
    by_partition = np.full(decision.cluster.partition_total, default, dtype=np.int64)
    for (topic, partition), offset in given.items():
        flat = decision.cluster.flat(topic, partition)
        assert flat is not None
        by_partition[flat] = offset
    return by_partition


class Watched:
    """Progress of an application whose tasks are all done but those of "orders" that a test names."""

    def __init__(self) -> None:
        self.decision = led(group(A, B))
        self.progress = Progress()
        self.progress.planned(self.decision)

    def see(self, after_ms: int, committed: Mapping[int, int], ends: Mapping[int, int]) -> tuple[TaskId, ...]:
        self.progress.observe(
            offsets(self.decision, 50, {("orders", p): o for p, o in committed.items()}),
            offsets(self.decision, 50, {("orders", p): o for p, o in ends.items()}),
            NOW_MS + after_ms,
        )
        return self.progress.stalled(STALL_MS, NOW_MS + after_ms)


def test_a_task_with_unread_records_that_commits_nothing_stalls_after_its_time() -> None:
    watched = Watched()
    assert watched.see(0, {1: 10}, {1: 90}) == ()
    assert watched.see(STALL_MS - 1, {1: 10}, {1: 95}) == ()
    assert watched.see(STALL_MS, {1: 10}, {1: 95}) == (TaskId(0, 1),)


def test_a_commit_or_nothing_to_read_begins_the_time_anew() -> None:
    watched = Watched()
    watched.see(0, {1: 10, 2: 10}, {1: 90, 2: 90})
    assert watched.see(STALL_MS, {1: 11, 2: 90}, {1: 90, 2: 90}) == ()
    assert watched.see(2 * STALL_MS - 1, {1: 11, 2: 90}, {1: 90, 2: 90}) == ()
    assert watched.see(2 * STALL_MS, {1: 11, 2: 90}, {1: 90, 2: 99}) == (TaskId(0, 1),)


def test_one_unread_position_may_be_a_marker_and_an_unknown_end_says_nothing() -> None:
    watched = Watched()
    watched.see(0, {1: 10}, {1: 11, 2: -1})
    assert watched.see(5 * STALL_MS, {1: 10}, {1: 11, 2: -1}) == ()


def test_where_nothing_was_committed_only_new_records_count() -> None:
    watched = Watched()
    nothing = {1: NOTHING_COMMITTED}
    watched.see(0, nothing, {1: 90})
    assert watched.see(2 * STALL_MS, nothing, {1: 90}) == ()
    watched.see(2 * STALL_MS + 1, nothing, {1: 95})
    assert watched.see(3 * STALL_MS + 1, nothing, {1: 95}) == (TaskId(0, 1),)


def test_a_task_that_moves_gets_its_time_anew_and_one_that_stays_does_not() -> None:
    watched = Watched()  # a holds the even tasks, b the odd ones
    watched.see(0, {0: 10, 1: 10}, {0: 90, 1: 90})
    again = led(group(A, generation=2), now_ms=NOW_MS + STALL_MS // 2)
    watched.progress.planned(again)
    assert watched.see(STALL_MS, {0: 10, 1: 10}, {0: 90, 1: 90}) == (TaskId(0, 0),)
    assert TaskId(0, 1) in watched.see(2 * STALL_MS, {0: 10, 1: 10}, {0: 90, 1: 90})


def test_a_commit_counts_for_the_member_that_owns_the_task_and_not_for_others() -> None:
    watched = Watched()  # a owns the even tasks, b the odd ones
    for after_ms, offset in ((0, 10), (5_000, 20)):
        watched.see(after_ms, {0: offset, 1: 10}, {0: 90, 1: 90})
    assert watched.progress.committed() == {("a", TaskId(0, 0)): NOW_MS}, "it was made after the poll before"
    assert watched.progress.ids(watched.progress.silent) == (TaskId(0, 1),)


def test_a_commit_of_the_former_owner_that_is_seen_after_the_plan_is_not_the_new_ones() -> None:
    """The last instance of a rolling restart commits as it closes, and the next poll is a little later."""
    watched = Watched()
    watched.see(0, {1: 10}, {1: 90})
    watched.decision = led(group(A, Thread("c", 3), generation=2), now_ms=NOW_MS + 1_000)
    watched.progress.planned(watched.decision)
    watched.see(5_000, {1: 20}, {1: 90})
    assert watched.progress.committed() == {}
    watched.see(10_000, {1: 30}, {1: 90})
    assert watched.progress.committed() == {("c", TaskId(0, 1)): NOW_MS + 5_000}


def test_the_rhythm_is_that_of_a_task_and_not_of_all_members_together() -> None:
    """Four tasks that commit in turn, each every 40 s: a new member was asked before its first commit was due."""
    watched, done = Watched(), dict.fromkeys(range(4), 10)
    for step in range(20):
        done[step % 4] += 10
        watched.see(10_000 * step, done, dict.fromkeys(range(4), 1_000))
    assert watched.progress.usual_ms == 40_000


def test_a_rarely_committing_task_gets_three_times_its_own_rhythm() -> None:
    watched = Watched()
    for turn in range(3):
        watched.see(10 * STALL_MS * turn, {1: 10 * turn}, {1: 900})
    assert watched.see(49 * STALL_MS, {1: 20}, {1: 900}) == ()
    assert watched.see(50 * STALL_MS, {1: 20}, {1: 900}) == (TaskId(0, 1),)


def test_a_time_without_input_is_no_interval() -> None:
    watched = Watched()
    for after_ms, offset, end in (
        (0, 10, 90),
        (5_000, 90, 90),
        (10_000, 90, 90),
        (900_000, 90, 200),
        (905_000, 200, 200),
    ):
        watched.see(after_ms, {1: offset}, {1: end})
    assert watched.progress.usual_ms is None


def test_an_outage_of_the_brokers_begins_the_time_anew() -> None:
    watched = Watched()
    watched.see(0, {1: 10}, {1: 90})
    watched.progress.unknown(NOW_MS + 10 * STALL_MS)
    assert watched.see(10 * STALL_MS + 1, {1: 10}, {1: 90}) == ()
    assert watched.see(11 * STALL_MS, {1: 10}, {1: 90}) == (TaskId(0, 1),)


def test_a_single_task_that_commits_more_often_does_not_set_the_rhythm() -> None:
    watched = Watched()
    for step in range(13):
        slow = 10 + step // 4
        watched.see(10_000 * step, {0: 10 + step, 1: slow, 2: slow, 3: slow}, dict.fromkeys(range(4), 1_000))
    assert watched.progress.usual_ms == 40_000
