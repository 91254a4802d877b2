"""Notices a group whose plans do not settle, whatever the reason: a policy, mostly a plug-in's, gives the same items to
other owners again and again although nothing else changes. Pure.

Such a plan is refused like one that is late or invalid. So the cheaper plan is sent, and the same log line, metric and
alert report it.
"""

from dataclasses import dataclass, field

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, BoolArray, Decision, GroupPlan, LongArray
from bellwether_kafka.coordinator.planning.causes import Cause, CauseKind

# Under `kafka` a task changed it four times in one of 120 random events, as processes caught up one after the other.
CHANGES_MAX = 6
WITHIN_MS = 600_000
# A rebalance for one of these causes is for what a plan left over, or for nothing. What Bellwether itself requests may
# have a reason that changes plans, such as load, but `membership.Reactions` lets it come less often than this counts.
WITHOUT_A_CHANGE = (CauseKind.PENDING, CauseKind.PROBE, CauseKind.REQUESTED, CauseKind.AGAIN)


@dataclass(frozen=True, slots=True, eq=False)
class Settling:
    """How often each item was given to another owner than the plan before gave it to, since something else changed or
    began to be counted at `since_ms` (epoch)."""

    changes: LongArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    since_ms: int = 0

    def objection(self, previous: Decision[GroupPlan] | None, decision: Decision[GroupPlan], why: Cause) -> str:
        """Returns why this plan must not follow the `previous` one, as a part of a sentence; "" if it may."""
        changed = self._changed(previous, decision, why)
        if changed is None or not (again := np.flatnonzero(changed & (self.changes >= CHANGES_MAX))).size:
            return ""
        words, item = decision.plan.words, decision.plan.name(int(again[0]))
        return (
            f"policy {decision.policy} does not settle: {words.items(len(again))} would get another {words.owner},"
            f" such as {item}, which got another one {int(self.changes[again[0]])} times although nothing else changed"
        )

    def after(self, previous: Decision[GroupPlan] | None, decision: Decision[GroupPlan], why: Cause) -> "Settling":
        """Returns the counts once this plan has been delivered. Where plans did not settle they stay until something
        else changes."""
        changed, now_ms = self._changed(previous, decision, why), decision.decided_at_ms
        if changed is None:
            return Settling(np.zeros(len(decision.plan.owner), dtype=np.int64), now_ms)
        within = 0 <= now_ms - self.since_ms <= WITHIN_MS  # not after the clock was set back
        if not within and (self.changes < CHANGES_MAX).all():
            return Settling(changed.astype(np.int64), now_ms)
        return Settling(self.changes + changed, self.since_ms)

    def _changed(
        self, previous: Decision[GroupPlan] | None, decision: Decision[GroupPlan], why: Cause
    ) -> BoolArray | None:
        """Marks the items that get another owner than the previous plan gave them; None if something else has changed
        since that plan."""
        if previous is None or why.kind not in WITHOUT_A_CHANGE:
            return None
        last, now = previous.plan, decision.plan
        if not len(self.changes) == len(last.owner) == len(now.owner):
            return None
        index = {owner.key: at for at, owner in enumerate(now.owners)}
        at = np.array([*(index.get(owner.key, NOBODY) for owner in last.owners), NOBODY], dtype=np.int64)
        before = at[last.owner]
        return np.asarray((before != NOBODY) & (now.owner != NOBODY) & (before != now.owner))
