"""Commits in a group without members: its consumers assign themselves partitions (assign()). Pure.

Offsets that rise between two readings of a group without members were committed by no member. Tools commit so, too: a
reset of offsets moves them once, and a mirror that copies the offsets of another cluster again and again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from bellwether_kafka.assignors.shared import LongArray
from bellwether_kafka.coordinator.observation.lag import VERDICTS, GroupLag, LagVerdict

Committed = Mapping[str, Sequence[int] | LongArray]  # by topic those of partitions 0..n-1, negative for none

SELF_ASSIGNED = "consumers assign themselves: offsets move without members"
LASTS_MS_MIN = 300_000
PAUSES = 3  # the longest pause between two moves, so many times over, is how long the last move counts


@dataclass(frozen=True, slots=True, eq=False)
class MemberlessCommits:
    """Readings of a group since it has had no member. `committed` and `at_ms` are those of the newest; `moves` counts
    the readings that showed a higher offset than the one before, the last at `moved_at_ms`; `pause_ms` is the longest
    time between two of them."""

    at_ms: int
    committed: Committed = field(default_factory=dict)
    moves: int = 0
    moved_at_ms: int = 0
    pause_ms: int = 0

    @property
    def self_assigned(self) -> bool:
        """Offsets move, or have paused for a while as they did before."""
        return self.moves > 0 and self.at_ms - self.moved_at_ms <= max(LASTS_MS_MIN, PAUSES * self.pause_ms)

    def after(self, committed: Committed, at_ms: int) -> "MemberlessCommits":
        """With one more reading. A clock that goes back begins anew."""
        if at_ms < self.at_ms:
            return MemberlessCommits(at_ms, committed)
        known = replace(self, at_ms=at_ms, committed=committed)
        if not _rises(self.committed, committed):
            return known
        pause_ms = max(self.pause_ms, at_ms - self.moved_at_ms) if self.moves else 0
        return replace(known, moves=self.moves + 1, moved_at_ms=at_ms, pause_ms=pause_ms)


def committed_of(found: GroupLag) -> Committed:
    """A reading."""
    return dict(zip(found.counts, np.split(found.committed, np.cumsum([*found.counts.values()])), strict=False))


def of_memberless(found: GroupLag, commits: MemberlessCommits | None) -> GroupLag:
    """The lag of a group with what commits without members say of it, None where it has members: consumers that assign
    themselves have what does not move, although no member has it."""
    if commits is None or not commits.self_assigned:
        return found
    stalled, stopped = VERDICTS.index(LagVerdict.STALLED), VERDICTS.index(LagVerdict.STOPPED)
    return replace(found, verdict=np.where(found.verdict == stopped, stalled, found.verdict), self_assigned=True)


def _rises(before: Committed, after: Committed) -> bool:
    """Whether a known offset is higher now. One that appears may only have been unreadable before."""
    for topic, offsets in after.items():
        same = min(len(offsets), len(before.get(topic, ())))
        if not same:
            continue
        was, is_now = np.asarray(before[topic][:same]), np.asarray(offsets[:same])
        if ((was >= 0) & (is_now > was)).any():
            return True
    return False
