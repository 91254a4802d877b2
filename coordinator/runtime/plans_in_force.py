"""Whether the assignment of a group is that of a plan. A broker that has no plan in time keeps what members have: one
that joined meanwhile has nothing, an order is not followed, and nothing else would make the broker ask again. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from bellwether_kafka.assignors.shared import Rule
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.coordinator.membership import GroupState
from bellwether_kafka.coordinator.observation import Observation, ObservedMember
from bellwether_kafka.coordinator.serving import NewestPlan, tasks_by_process

PLAN_AGE_S_MAX = 300.0  # an older plan may have been followed by one that another process made
WAIT_S = 60.0  # after the first rebalance that is begun for one state of a group; twice as long after the second
ATTEMPTS_MAX = 3  # for one state
IDLE_ATTEMPTS_MAX = 1  # a member may be idle by a plan of another process
LATE = "the newest plan did not reach the broker in time"
DISREGARDED = "an order is not followed"


@dataclass(frozen=True, slots=True)
class _State:
    """What has to change before a rebalance is begun again. `members` are instance ids, else member ids."""

    members: frozenset[str]
    rules: tuple[Rule, ...]


@dataclass(slots=True)
class _Watched:
    """One group. `epoch`: that of the last assignment that was not a plan's, None before it was observed. `agreed`: the
    newest plan that was once in force, and at which epoch."""

    state: _State
    attempts: int = 0
    not_before: float = 0.0
    epoch: int | None = None
    agreed: tuple[NewestPlan, int | None] | None = None


@dataclass(slots=True)
class PlansInForce:
    """The groups that are assigned by brokers, as last observed."""

    _groups: dict[str, _Watched] = field(default_factory=dict)
    _late_at: dict[str, float] = field(default_factory=dict)

    def late_cause(self, group_id: str, now: float) -> str:
        """Returns why the broker should compute the assignment anew at once after a plan that came too late, "" if this
        has been the reason within the last WAIT_S seconds. If plans stay late, only `rebalance_cause` decides."""
        if now < self._late_at.get(group_id, float("-inf")) + WAIT_S:
            return ""
        self._late_at[group_id] = now
        return LATE

    def rebalance_cause(
        self, seen: Observation, newest: NewestPlan | None, rules: tuple[Rule, ...] | None, now: float
    ) -> str:
        """Returns why the broker should compute the assignment anew, "" if it should not: in two observations of one
        assignment an order was not followed, it was not that of the newest plan, or a member had no partition. Few
        times for one state of a group, because another process may know better or every plan be late. `rules` is None
        while orders are unread. `now` is in seconds of the clock of `newest`."""
        if not seen.asks_bellwether or seen.state != GroupState.STABLE or rules is None:
            return ""
        group = self._watched(seen, _State(frozenset(map(_name, seen.members)), rules))
        if group.attempts >= ATTEMPTS_MAX or (newest is not None and group.agreed == (newest, seen.epoch)):
            return ""
        cause = _cause(seen, newest, group, now)
        before, group.epoch = group.epoch, seen.epoch if cause else None
        if not cause or before != seen.epoch or now < group.not_before:
            return ""
        group.attempts += 1
        group.not_before = now + WAIT_S * group.attempts
        return cause

    def forget(self, group: str) -> None:
        self._groups.pop(group, None)
        self._late_at.pop(group, None)

    def _watched(self, seen: Observation, state: _State) -> _Watched:
        group = self._groups.get(seen.group_id)
        if group is None or group.state != state:
            agreed = None if group is None else group.agreed
            group = self._groups[seen.group_id] = _Watched(state, agreed=agreed)
        return group


def _cause(seen: Observation, newest: NewestPlan | None, group: _Watched, now: float) -> str:
    if newest is not None and (group.agreed is None or group.agreed[0] is not newest):
        if isinstance(newest.plan, TaskPlan) and seen.shadow is None:
            return ""  # which process runs which task is unknown
        if newest.owned() == _owned(seen):
            group.agreed = (newest, seen.epoch)
            return ""
        if now - newest.made_at < PLAN_AGE_S_MAX and _are_named(newest, seen.members):
            return LATE
    if group.state.rules:
        return DISREGARDED if _disregards(seen, group.state.rules) else ""
    return _idle(seen.members) if group.attempts < IDLE_ATTEMPTS_MAX else ""


def _owned(seen: Observation) -> dict[str, frozenset[tuple[str, int]]]:
    """Returns what each owner has by an observation, in the form of `NewestPlan.owned`."""
    shadow = seen.shadow
    if shadow is not None and isinstance(shadow.decision.plan, TaskPlan):
        return tasks_by_process(shadow.decision.plan, shadow.present)
    return {_name(m): frozenset(m.owned) for m in seen.members}


def _name(member: ObservedMember) -> str:
    """Returns what a static member keeps when it restarts with its partitions."""
    return member.instance_id or member.member_id


def _are_named(newest: NewestPlan, members: Sequence[ObservedMember]) -> bool:
    """Returns whether all topics of the plan had their names when it was made."""
    return set(newest.topics) <= {topic for member in members for topic in member.topics}


def _disregards(seen: Observation, rules: tuple[Rule, ...]) -> bool:
    """Returns whether a partition is where an order does not allow it although it could be elsewhere."""
    shadow = seen.shadow
    return shadow is not None and len(shadow.decision.plan.against(rules, shadow.present)) > 0


def _idle(members: Sequence[ObservedMember]) -> str:
    """Returns which member has no partition although another one with the same topics has several, "" for none."""
    largest: dict[frozenset[str], int] = {}
    for member in members:
        topics = frozenset(member.topics)
        largest[topics] = max(largest.get(topics, 0), len(member.owned))
    idle = (m.member_id for m in members if not m.owned and largest[frozenset(m.topics)] > 1)
    member_id = next(idle, "")
    return f"{member_id} has no partition although others have several" if member_id else ""
