"""Decides when to request threads' reports of their tasks: if members have changed and then commit nothing.

Offset sums are sent only in JoinGroup, so only the next JoinGroup shows whether a restarted thread can run its tasks. A
rebalance causes it, while processing goes on. Pure; times are milliseconds by a clock that is never set.
"""

from dataclasses import dataclass, field

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, BoolArray, Decision, LongArray
from bellwether_kafka.assignors.streams import TaskPlan

UNKNOWN_RHYTHM_MS = 35_000  # a little more than Kafka's default commit.interval.ms
LEAST_MS = 10_000
OF_RHYTHM = 1.5
ASKED_MAX = 3  # requests per change of members
SPACE_MS = 8_000


@dataclass(slots=True)
class Suspicion:
    """The changed members of one application."""

    _changed_ms: int | None = None  # when members last changed
    _members: frozenset[str] = frozenset()
    _fresh: set[str] = field(default_factory=set)  # members that have joined and have not been seen to work yet
    _first: LongArray | None = None  # the first offsets read after that, by flat partition
    _asked: int = 0
    _asked_ms: int = 0

    @property
    def watches(self) -> bool:
        """True if a member may still have to show that it works."""
        return self._changed_ms is not None and self._asked < ASKED_MAX

    def planned(self, decision: Decision[TaskPlan], *, same_topics: bool) -> bool:
        """Takes a delivered plan; returns whether its members have changed."""
        members = frozenset(m.member_id for m in decision.plan.joined)
        before, self._members = self._members, members
        if not same_topics:
            self._first = None
        if members == before:
            return False
        self._fresh = (self._fresh & members) | set(members - before)
        self._changed_ms, self._first, self._asked = decision.decided_at_ms, None, 0
        return True

    def forget(self) -> None:
        self._changed_ms, self._first, self._members = None, None, frozenset()
        self._fresh.clear()

    def observe(
        self,
        decision: Decision[TaskPlan],
        committed: LongArray,
        waiting: BoolArray,
        usual_ms: int | None,
        now_ms: int,
        *,
        again: bool,
    ) -> str:
        """Returns why threads should report their tasks now, "" for no reason. `waiting`: partitions with records to
        read. `usual_ms`: how often the group commits. `again`: a report needs a second one to count."""
        if self._changed_ms is None or self._asked >= ASKED_MAX:
            return ""
        if self._first is None or len(self._first) != len(committed):
            self._first = committed
        silent = waiting & (committed == self._first)
        stuck = self._fresh & _holders(decision, silent)
        self._fresh &= stuck | _idle(decision, waiting, self._fresh)
        if not stuck or now_ms - self._asked_ms < SPACE_MS:
            return ""
        patience_ms = UNKNOWN_RHYTHM_MS if usual_ms is None else max(LEAST_MS, int(OF_RHYTHM * usual_ms))
        if not again and now_ms - self._changed_ms < patience_ms * (1 + self._asked):
            return ""
        self._asked, self._asked_ms = self._asked + 1, now_ms
        return (
            f"see whether member {min(stuck)} works on its tasks: it has records to read and has committed nothing yet"
        )


def _holders(decision: Decision[TaskPlan], partitions: BoolArray) -> set[str]:
    """Returns the members that own a task of one of these partitions."""
    plan = decision.plan
    owner = plan.out.owner(plan.tasks)
    rows = np.unique(owner[partitions & (owner != NOBODY)]).tolist()
    return {plan.joined[row].member_id for row in rows}


def _idle(decision: Decision[TaskPlan], waiting: BoolArray, members: set[str]) -> set[str]:
    """Returns those of `members` that have nothing to read, so that it cannot be seen yet whether they work."""
    return members - _holders(decision, waiting)
