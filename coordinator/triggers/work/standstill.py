"""Detects that a group has stopped working with a plan, by how often it commits and since when it has not.

Pure; times are milliseconds by a clock that is never set, offsets are arrays over the flat partitions of one cluster
view. If a group committed before its members changed, and has not committed once since the plan for the new members,
that plan may be the cause. If it has committed since, it works by the plan: what stops it later would stop it under any
leader.
"""

from dataclasses import dataclass, field

import numpy as np

from bellwether_kafka.assignors.shared import BoolArray, LongArray
from bellwether_kafka.coordinator.triggers.work.verdict import Alert, HandBack, Verdict

STANDSTILL_MS = 300_000
RHYTHMS = 3  # how many usual intervals may pass without a commit
KEPT_MS = 7_200_000  # long, as members that commit in turn may have many short intervals before a long one
UNREAD_MIN = 2  # one position may be a transaction marker, which is never read
NOTHING_COMMITTED = -1


@dataclass(slots=True)
class Rhythm:
    """How often a group commits, as far as polls have shown."""

    last_ms: int | None = None
    # Each is (length_ms, end_ms) and longer than those after it.
    _intervals: list[tuple[int, int]] = field(default_factory=list)

    @property
    def usual_ms(self) -> int | None:
        """The longest recent interval between commits; None before two commits."""
        return self._intervals[0][0] if self._intervals else None

    def committed(self, now_ms: int) -> None:
        """Records a commit since the last poll. A pause without input is not an interval (`rested`)."""
        if self.last_ms is not None:
            new_ms = now_ms - self.last_ms
            recent = [(length_ms, end_ms) for length_ms, end_ms in self._intervals if now_ms - end_ms <= KEPT_MS]
            longer = [(length_ms, end_ms) for length_ms, end_ms in recent if length_ms > new_ms]
            self._intervals = [*longer, (new_ms, now_ms)]
        self.last_ms = now_ms

    def rested(self) -> None:
        """Records that there was nothing to commit: the next commit begins an interval and ends none."""
        self.last_ms = None


class Standstill:
    """The commits of one group. `least_ms`: the shortest time without a commit that counts."""

    def __init__(self, least_ms: int = STANDSTILL_MS) -> None:
        self._least_ms = min(least_ms, STANDSTILL_MS)
        self.rhythm = Rhythm()
        self._committed: LongArray | None = None
        self._first_end: LongArray | None = None
        self._begun_ms = 0  # since when, as far as is known, nothing has been committed
        self._worked_before = False  # it committed shortly before the last plan for changed members
        self._changed_ms: int | None = None  # when that plan was made; None once the group has committed by it
        self._refreshed = True  # polled since that plan

    @property
    def patience_ms(self) -> int:
        """How long a group may go without commits."""
        return max(self._least_ms, RHYTHMS * (self.rhythm.usual_ms or 0))

    def planned(self, now_ms: int, *, changed: bool, same_topics: bool) -> None:
        """Takes a plan that the broker has accepted. `changed`: its members are not those of the plan before."""
        if not same_topics:
            self._committed = self._first_end = None
        if not changed:
            return
        last, usual = self.rhythm.last_ms, self.rhythm.usual_ms
        if self._changed_ms is None:
            # After a single commit it is not known when the next one is due.
            self._worked_before = last is not None and usual is not None and now_ms - last <= self.patience_ms
        self._changed_ms = self._begun_ms = now_ms
        self._refreshed = False

    def unknown(self, now_ms: int) -> None:
        """Starts anew after a broker did not answer, because commits may have been missed."""
        self._committed = self._first_end = None
        self._begun_ms = now_ms

    def forget(self) -> None:
        """Forgets the plan, because Bellwether no longer leads. The rhythm is the group's own and is kept."""
        self._committed = self._first_end = self._changed_ms = None

    def observe(self, committed: LongArray, ends: LongArray, now_ms: int, *, restoring: bool) -> Verdict | None:
        """Takes the group's offsets, NOTHING_COMMITTED where it has none. An end below 0 is unknown."""
        before, self._committed = self._committed, committed
        if before is None or len(before) != len(committed) or self._first_end is None:
            self._first_end = ends
            self._begun_ms = max(self._begun_ms, now_ms) if self._changed_ms is None else self._begun_ms
            return None
        first, self._refreshed = not self._refreshed, True
        if (committed != before).any():
            self.rhythm.committed(now_ms)
            if not first:  # the first poll after a plan also shows commits from before it
                self._begun_ms, self._changed_ms = now_ms, None
            return None
        waiting = self.waiting(committed, ends)
        if not waiting.any():
            self._begun_ms = now_ms
            self.rhythm.rested()
            return None
        if (ends < 0).any():
            self.unknown(now_ms)
            return None
        return self._verdict(now_ms, restoring=restoring)

    def waiting(self, committed: LongArray, ends: LongArray) -> BoolArray:
        """Returns, by partition, whether it has records to read. If nothing was ever committed, only records newer than
        the first poll count, because the application may start at the end."""
        first = self._first_end if self._first_end is not None else ends
        start = np.where(committed == NOTHING_COMMITTED, first, committed)
        unread: BoolArray = (ends >= 0) & (ends - start >= UNREAD_MIN)
        return unread

    def _verdict(self, now_ms: int, *, restoring: bool) -> Verdict | None:
        still_ms = now_ms - self._begun_ms
        if still_ms < self.patience_ms:
            return None
        what = f"no partition has been committed for {still_ms // 1000} s, although there are records to read"
        if self._changed_ms is not None and self._worked_before and not restoring:
            return HandBack(f"{what}, since the plan for members that have changed")
        return Alert(f"{what}; {self._why_not(restoring=restoring)}")

    def _why_not(self, *, restoring: bool) -> str:
        if restoring:
            return "state may be restored meanwhile, so Bellwether goes on leading"
        if self._changed_ms is None:
            return "the group has worked by this plan, so Bellwether goes on leading"
        return "whether it worked before is not known, so Bellwether goes on leading"
