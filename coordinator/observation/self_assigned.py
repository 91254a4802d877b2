"""Detects consumers that assign themselves partitions (assign()): offsets move in a group without members. Pure.

Tools commit like this, too: a reset of offsets moves them once, and a mirror that copies the offsets of another
cluster moves them repeatedly.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from bellwether_kafka.assignors.shared import LongArray
from bellwether_kafka.coordinator.observation.lag import VERDICTS, GroupLag, LagVerdict

Committed = Mapping[str, Sequence[int] | LongArray]  # by topic those of partitions 0..n-1, negative for none

SELF_ASSIGNED = "consumers assign themselves partitions: offsets are committed without members"
# While a group has only this member; brokers show nobody whom they refuse, and offsets cannot move.
ONLY_BELLWETHER = (
    "Bellwether is its only member, so the broker refuses what commits without being a member (assign(), a mirror)"
)
RELEASE = "If something does, run `bellwether release GROUP`"
LASTS_MS_MIN = 300_000
PAUSES = 3  # the last move counts for this many times the longest pause between two moves


@dataclass(frozen=True, slots=True, eq=False)
class MemberlessCommits:
    """Readings of a group since it last had a member. `committed` and `at_ms` are from the newest; the first with the
    same offsets was at `rests_from_ms`. `moves` counts the readings with a higher offset than the one before, of which
    the last was at `moved_at_ms`; `pause_ms` is the longest time between two of these."""

    at_ms: int
    committed: Committed = field(default_factory=dict)
    moves: int = 0
    moved_at_ms: int = 0
    pause_ms: int = 0
    rests_from_ms: int | None = None

    @property
    def rest_ms(self) -> int:
        """How long readings have shown the same offsets."""
        return 0 if self.rests_from_ms is None else self.at_ms - self.rests_from_ms

    @property
    def self_assigned(self) -> bool:
        """Returns whether offsets move. A pause that is not much longer than earlier ones does not change this."""
        return self.moves > 0 and self.at_ms - self.moved_at_ms <= max(LASTS_MS_MIN, PAUSES * self.pause_ms)

    def after(self, committed: Committed, at_ms: int) -> "MemberlessCommits":
        """Returns this with one more reading. If the clock went back, the readings start anew."""
        if at_ms < self.at_ms:
            return MemberlessCommits(at_ms, committed, rests_from_ms=at_ms)
        same = self.rests_from_ms is not None and _is_same(self.committed, committed)
        updated = replace(self, at_ms=at_ms, committed=committed, rests_from_ms=self.rests_from_ms if same else at_ms)
        if not _rises(self.committed, committed):
            return updated
        pause_ms = max(self.pause_ms, at_ms - self.moved_at_ms) if self.moves else 0
        return replace(updated, moves=self.moves + 1, moved_at_ms=at_ms, pause_ms=pause_ms)


def committed_of(lag: GroupLag) -> Committed:
    """Returns the committed offsets by topic."""
    return dict(zip(lag.counts, np.split(lag.committed, np.cumsum([*lag.counts.values()])), strict=False))


def of_memberless(lag: GroupLag, commits: MemberlessCommits | None) -> GroupLag:
    """Returns the lag with `self_assigned` set and STOPPED replaced by STALLED if consumers assign themselves: their
    partitions have consumers although no member has them. `commits` is None if the group has members."""
    if commits is None or not commits.self_assigned:
        return lag
    stalled, stopped = VERDICTS.index(LagVerdict.STALLED), VERDICTS.index(LagVerdict.STOPPED)
    return replace(lag, verdict=np.where(lag.verdict == stopped, stalled, lag.verdict), self_assigned=True)


def _is_same(before: Committed, after: Committed) -> bool:
    return before.keys() == after.keys() and all(np.array_equal(before[topic], after[topic]) for topic in after)


def _rises(before: Committed, after: Committed) -> bool:
    """Returns whether a known offset is higher now. A new one does not count: it may have been unreadable before."""
    for topic, offsets in after.items():
        same = min(len(offsets), len(before.get(topic, ())))
        if not same:
            continue
        was, is_now = np.asarray(before[topic][:same]), np.asarray(offsets[:same])
        if ((was >= 0) & (is_now > was)).any():
            return True
    return False
