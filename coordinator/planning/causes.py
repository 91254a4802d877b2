"""Finds out why a rebalance happened by comparing two decisions, because the broker gives the leader no reason; and
notices a group whose plans do not settle. Pure.

The kind of a cause is one of a few values, for metric labels; the sentence names members and topics.

Plans do not settle if a policy, mostly a plug-in's, gives the same items to other owners again and again although
nothing else changes, whatever the reason. Such a plan is refused like one that is late or invalid. So the cheaper plan
is sent, and the same log line, metric and alert report it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, BoolArray, Decision, GroupPlan, LongArray, Words
from bellwether_kafka.coordinator.names import listed

Name = Callable[[str], str]

TOPICS_SHOWN = 4


class CauseKind(StrEnum):
    """What changed; the first that applies."""

    FIRST = "first plan"
    ORDERED = "ordered"
    JOINED = "members joined"
    LEFT = "members left"
    EXCHANGED = "members joined and left"
    SUBSCRIPTIONS = "subscriptions changed"
    METADATA = "metadata changed"
    PENDING = "pending partitions"
    PROBE = "probe"
    REQUESTED = "requested"
    AGAIN = "nothing changed"


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a rebalance happened. `members`: ids of those that joined or left, for finding the cause of endless
    rebalances. `by_order`: an operator's order has caused it, directly or indirectly."""

    kind: CauseKind
    sentence: str
    members: tuple[str, ...] = ()
    by_order: bool = False


def cause(
    previous: Decision[GroupPlan] | None,
    decision: Decision[GroupPlan],
    name: Name = str,
    *,
    ordered: Sequence[str] = (),
    in_force: Sequence[str] = (),
    wanted: str = "",
) -> Cause:
    """Returns the cause, by comparison with the `previous` decision that was delivered to the group. `name` converts an
    owner's name for display. `ordered`: the operators' orders since then; `in_force`: all orders on placement;
    `wanted`: why Bellwether itself requested the rebalance, "" if it did not."""
    plan = decision.plan
    if plan.shutdown:
        return Cause(CauseKind.SUBSCRIPTIONS, "a member requests a shutdown of the application")
    if previous is None:
        owners = _counted(len(plan.owners), plan.words.owner, plan.words.owners)
        return Cause(CauseKind.FIRST, f"first plan, for {owners}")
    change = _members(previous, decision, name) or _unplaced(previous, decision) or _topics(previous, decision, name)
    if ordered:
        changed = (change.sentence,) if change is not None else ()
        return Cause(CauseKind.ORDERED, "; ".join((*ordered, *changed)), change.members if change is not None else ())
    if change is not None:
        return change
    for_orders = f", for {'; '.join(in_force)}" if in_force else ""
    if previous.followup:
        waiting = plan.words.items(int(previous.plan.pending.sum()))
        return Cause(CauseKind.PENDING, f"{waiting} given up by the former owner can be handed out{for_orders}")
    if previous.probing_at_ms is not None:
        return Cause(CauseKind.PROBE, f"a probe, to see what has caught up or come back{for_orders}")
    if wanted:
        return Cause(CauseKind.REQUESTED, wanted)
    return Cause(CauseKind.AGAIN, "a member joined again, nothing changed")


def follows_from_orders(
    why: Cause,
    previous: Decision[GroupPlan] | None,
    decision: Decision[GroupPlan],
    places: Iterable[str],
    *,
    before: bool,
) -> bool:
    """Returns whether operators' orders have caused a rebalance: it carries out an order, hands out what an order made
    members give up (`before`: orders caused the previous rebalance), or follows the restart of members in evacuated
    `places`."""
    if why.kind is CauseKind.ORDERED:
        return True
    if why.kind is CauseKind.PENDING:
        return before
    if not why.members:
        return False
    plans = [decision.plan, *([previous.plan] if previous is not None else [])]
    named = {
        member
        for plan in plans
        for place in places
        for owner, meant in zip(plan.owners, plan.named(place).tolist(), strict=True)
        if meant
        for member in owner.members
    }
    return named.issuperset(why.members)


def cause_after_return(
    at_return: Decision[GroupPlan],
    reason: str,
    decision: Decision[GroupPlan],
    *,
    ordered: Sequence[str] = (),
    in_force: Sequence[str] = (),
    wanted: str = "",
) -> Cause:
    """Returns the cause of the first plan of a process that returned to a stable group. `at_return` is the decision
    that it would have made at its return; `reason` is why that would have been worth a rebalance, "" if it would
    not."""
    why = cause(at_return, decision, ordered=ordered, in_force=in_force)
    if why.kind not in (CauseKind.AGAIN, CauseKind.PENDING, CauseKind.PROBE):
        return why
    return Cause(CauseKind.FIRST, reason or wanted or "first plan after a return")


def _members(previous: Decision[GroupPlan], decision: Decision[GroupPlan], name: Name) -> Cause | None:
    """Compares members by what survives a restart: a static member's instance id, else the member id."""
    had, has = _owners_by_key(previous.plan), _owners_by_key(decision.plan)
    came = {key: has[key] for key in has if key not in had}
    went = {key: had[key] for key in had if key not in has}
    if not came and not went:
        return None
    words = decision.plan.words
    entries = []
    if came:
        entries.append(f"{_named(words, (owner for _, owner in came.values()), name)} joined")
    if went:
        entries.append(f"{_named(words, (owner for _, owner in went.values()), name)} left or died")
    ids = *sorted(member for member, _ in came.values()), *sorted(member for member, _ in went.values())
    return Cause(_came_or_went(came, went), ", ".join(entries), ids)


def _owners_by_key(plan: GroupPlan) -> dict[str, tuple[str, str]]:
    """Returns (member id, name of its owner) by what survives a restart."""
    return {owner.instance_id or member: (member, owner.name) for owner in plan.owners for member in owner.members}


def _unplaced(previous: Decision[GroupPlan], decision: Decision[GroupPlan]) -> Cause | None:
    """Compares members that own nothing because their metadata cannot be read."""
    had, has = _ids_without_owner(previous), _ids_without_owner(decision)
    came, went = has - had, had - has
    if not came and not went:
        return None
    without = f"without {decision.plan.words.item}s"
    entries = []
    if came:
        entries.append(f"{_counted(len(came), 'member', 'members')} {without} joined")
    if went:
        entries.append(f"{_counted(len(went), 'member', 'members')} {without} left")
    return Cause(_came_or_went(came, went), ", ".join(entries))


def _ids_without_owner(decision: Decision[GroupPlan]) -> set[str]:
    placed = {member for owner in decision.plan.owners for member in owner.members}
    return {member.member_id for member in decision.raw.others} - placed


def _topics(previous: Decision[GroupPlan], decision: Decision[GroupPlan], name: Name) -> Cause | None:
    before = {owner.key: owner.topics for owner in previous.plan.owners}
    changed = [owner.name for owner in decision.plan.owners if before.get(owner.key, owner.topics) != owner.topics]
    topics = decision.plan.topic_changes(previous.plan)[:TOPICS_SHOWN]
    if changed:
        entries = f"{_named(decision.plan.words, changed, name)} changed the subscription"
        return Cause(CauseKind.SUBSCRIPTIONS, "; ".join([entries, *topics]))
    return Cause(CauseKind.METADATA, "; ".join(topics)) if topics else None


def _came_or_went(came: object, went: object) -> CauseKind:
    if came and went:
        return CauseKind.EXCHANGED
    return CauseKind.JOINED if came else CauseKind.LEFT


def _named(words: Words, owners: Iterable[str], name: Name) -> str:
    names = sorted({name(owner[: words.name_chars]) for owner in owners})
    singular, plural = words.owner_before_name
    return f"{singular if len(names) == 1 else plural}{listed(names)}"


def _counted(number: int, singular: str, plural: str) -> str:
    return f"{number} {singular if number == 1 else plural}"


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
