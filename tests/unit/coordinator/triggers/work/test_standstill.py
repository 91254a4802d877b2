"""When a group makes no progress because of a plan, and when nothing says that it is the plan's fault."""

import numpy as np
import pytest

from bellwether_kafka.assignors.shared import LongArray
from bellwether_kafka.coordinator.triggers.work.standstill import NOTHING_COMMITTED, STANDSTILL_MS, Standstill
from bellwether_kafka.coordinator.triggers.work.verdict import Alert, HandBack, Verdict

REFRESH_MS = 10_000
NEVER = 10**9


def offsets(*values: int) -> LongArray:
    return np.array(values, dtype=np.int64)


class Group:
    """Two partitions with records to read, and a group that commits every `rhythm_ms`."""

    def __init__(self, rhythm_ms: int = REFRESH_MS, *, end: int | None = 10**6) -> None:
        self.watch, self.now_ms, self.done, self.end = Standstill(), 0, 0, end
        self.watch.planned(0, changed=True, same_topics=True)
        self.work(6 * rhythm_ms, rhythm_ms)

    def work(
        self, for_ms: int, rhythm_ms: int = NEVER, *, restoring: bool = False, unknown_at_ms: int = -1
    ) -> list[tuple[int, Verdict]]:
        """What was said when, in milliseconds from here."""
        began, message, last = self.now_ms, [], self.now_ms
        while self.now_ms < began + for_ms:
            self.now_ms += REFRESH_MS
            if self.now_ms - last >= rhythm_ms:
                last, self.done = self.now_ms, self.done + 10
            if self.now_ms - began == unknown_at_ms:
                self.watch.unknown(self.now_ms)
                continue
            done = offsets(self.done, 5)
            ends = offsets(self.end, self.end) if self.end is not None else done
            verdict = self.watch.observe(done, ends, self.now_ms, restoring=restoring)
            if verdict is not None:
                message.append((self.now_ms - began, verdict))
        return message

    def changed(self) -> "Group":
        self.watch.planned(self.now_ms, changed=True, same_topics=True)
        return self


def test_a_group_that_worked_before_and_not_since_its_members_changed_is_handed_back_after_five_minutes() -> None:
    (at_ms, verdict) = Group().changed().work(STANDSTILL_MS + REFRESH_MS)[0]
    assert isinstance(verdict, HandBack)
    assert at_ms == STANDSTILL_MS


@pytest.mark.parametrize("rhythm_ms", [REFRESH_MS, 60_000, 600_000, 3_600_000])
def test_rarely_committing_groups_get_three_times_their_own_rhythm(rhythm_ms: int) -> None:
    message = Group(rhythm_ms).changed().work(max(STANDSTILL_MS, 3 * rhythm_ms) + REFRESH_MS)
    assert message
    assert message[0][0] == max(STANDSTILL_MS, 3 * rhythm_ms)


def test_a_day_of_members_that_come_and_go_and_commit_is_no_standstill() -> None:
    for rhythm_ms in (REFRESH_MS, 290_000, 1_800_000):
        group = Group(rhythm_ms)
        for _ in range(24):
            assert group.changed().work(3_600_000, rhythm_ms) == []


def test_a_group_that_has_worked_by_the_plan_and_stops_later_raises_an_alert() -> None:
    group = Group().changed()
    assert group.work(60_000, REFRESH_MS) == []
    verdicts = [verdict for _, verdict in group.work(4 * STANDSTILL_MS)]
    assert verdicts
    assert all(isinstance(verdict, Alert) for verdict in verdicts)


def test_what_was_committed_before_the_plan_and_is_seen_after_it_is_no_work_by_it() -> None:
    """The last instance of a rolling restart commits as it closes, and the next sample is a little later."""
    group = Group()
    group.done += 10
    message = group.changed().work(2 * STANDSTILL_MS)
    assert isinstance(message[0][1], HandBack)


def test_a_group_that_has_been_seen_to_commit_once_is_not_handed_back() -> None:
    """It may commit every hour: it was handed back for a member that came after the first commit."""
    group = Group(10 * STANDSTILL_MS)
    group.watch = Standstill()
    group.watch.planned(group.now_ms, changed=True, same_topics=True)
    group.work(10 * STANDSTILL_MS, 9 * STANDSTILL_MS)
    message = group.changed().work(10 * STANDSTILL_MS)
    assert not [verdict for _, verdict in message if isinstance(verdict, HandBack)]


def test_many_short_intervals_are_not_the_rhythm_where_a_long_one_follows() -> None:
    """Twelve members that commit one after the other, and then half an hour later again."""
    group = Group()
    for _ in range(3):
        group.work(12 * REFRESH_MS, REFRESH_MS)
        group.work(1_800_000)
    group.work(12 * REFRESH_MS, REFRESH_MS)
    assert group.changed().work(1_800_000) == []


def test_state_that_may_be_restored_raises_an_alert() -> None:
    (_, verdict) = Group().changed().work(STANDSTILL_MS + REFRESH_MS, restoring=True)[0]
    assert isinstance(verdict, Alert)
    assert "restored" in verdict.reason


def test_without_input_nobody_has_to_commit() -> None:
    group = Group()
    group.end = None
    assert group.changed().work(86_400_000) == []


def test_an_answer_that_is_unknown_begins_the_time_anew() -> None:
    message = Group().changed().work(2 * STANDSTILL_MS, unknown_at_ms=STANDSTILL_MS - REFRESH_MS)
    assert message[0][0] >= 2 * STANDSTILL_MS - REFRESH_MS


def test_of_a_group_that_never_worked_nothing_is_known() -> None:
    watch = Standstill()
    watch.planned(0, changed=True, same_topics=True)
    message = [
        watch.observe(offsets(NOTHING_COMMITTED), offsets(10 + at_ms), at_ms, restoring=False)
        for at_ms in range(REFRESH_MS, 2 * STANDSTILL_MS, REFRESH_MS)
    ]
    assert any(isinstance(verdict, Alert) for verdict in message)
    assert not any(isinstance(verdict, HandBack) for verdict in message)


def test_an_end_that_is_unknown_says_nothing() -> None:
    group = Group().changed()
    group.end = -1
    assert group.work(3 * STANDSTILL_MS) == []
