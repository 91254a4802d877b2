"""When the broker of a group that it assigns is made to ask for a plan again. A broker asks only when members or topics
change; it knows nothing of orders, load, racks, or of a plan that came too late.

`Asking.step` is one function of what is known of a group. Each reason is about a state, and is one again only when that
state has changed or a while has passed: another process may know better, and every plan may be late.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from bellwether_kafka.assignors.consumer import LOAD_AWARE, Load, LoadAware, PartitionPlan
from bellwether_kafka.assignors.shared import GroupPlan, Rule, Weights
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.coordinator.membership import GroupState
from bellwether_kafka.coordinator.observation import Observation, ObservedMember, Shadow
from bellwether_kafka.coordinator.serving import Incomplete, NewestPlan, tasks_by_process

PLAN_AGE_S_MAX = 300.0  # an older plan may have been followed by one that another process made
WAIT_S = 60.0  # between two rebalances for one reason; twice as long after each that has left its state as it was
WAIT_S_MAX = 3_600.0
LATE = "the newest plan did not reach the broker in time"
DISREGARDED = "an order is not followed"
CHANGED = "the orders in force have changed since the newest plan"


class Reason(Enum):
    ORDERED = auto()  # orders have changed since the newest plan
    LACKING = auto()  # the newest plan was made before something was known
    LATE = auto()  # the assignment is not that of the newest plan
    DISREGARDED = auto()  # an order is not followed
    IDLE = auto()  # a member has nothing, and there is no newest plan
    BETTER = auto()  # the plan that would be made now is better


@dataclass(frozen=True, slots=True)
class _Damping:
    """`most`: how many rebalances one state is worth, None for any number. `waits`: WAIT_S passes between two."""

    most: int | None
    waits: bool = True


DAMPING: Mapping[Reason, _Damping] = {
    Reason.ORDERED: _Damping(1, waits=False),  # operators wait for nothing
    Reason.LACKING: _Damping(1, waits=False),  # once for each plan
    Reason.LATE: _Damping(3),
    Reason.DISREGARDED: _Damping(3),
    Reason.IDLE: _Damping(1),  # a member may be idle by a plan of another process
    Reason.BETTER: _Damping(None),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServedGroup:
    """What is known of a group now. `rules` are None while orders are unread. `lacked` is what the newest plan lacked
    that is known by now, with the rack or capacity that this concerns, "" for none. `first`: this is the first of the
    instances that serve it. `ended`: why orders have ended, by their sentences. `late`: the broker has not waited for
    the newest plan. `seen` is an observation that is not older than the last step, None for none. `by_orders`: orders
    are to be compared, because the broker has a plan of this process."""

    rules: tuple[Rule, ...] | None = ()
    newest: NewestPlan | None = None
    lacked: tuple[Incomplete, str] | None = None
    first: bool = True
    ended: Mapping[str, str] = field(default_factory=dict)
    late: bool = False
    seen: Observation | None = None
    weights: Callable[[], Weights] | None = None
    by_orders: bool = False


@dataclass(frozen=True, slots=True)
class _Asked:
    """The last rebalance for a reason: the state that it was about, how many that state has had, and when it was."""

    state: object
    times: int
    at: float

    def next_at(self, state: object) -> float:
        return self.at + (min(WAIT_S * 2 ** (self.times - 1), WAIT_S_MAX) if state == self.state else WAIT_S)


@dataclass(slots=True)
class _Memory:
    """Of one group. `agreed`: the newest plan that was once in force, and at which epoch. `suspected`: the epoch of the
    last assignment that was not a plan's, None for none."""

    asked: dict[Reason, _Asked] = field(default_factory=dict)
    agreed: tuple[NewestPlan, int | None] | None = None
    suspected: int | None = None
    members: frozenset[str] = frozenset()

    def may_ask(self, reason: Reason, state: object, now: float) -> bool:
        """Returns whether a rebalance may be begun, and takes it for begun."""
        last, damping = self.asked.get(reason), DAMPING[reason]
        times = last.times if last is not None and last.state == state else 0
        if damping.most is not None and times >= damping.most:
            return False
        if last is not None and damping.waits and now < last.next_at(state):
            return False
        self.asked[reason] = _Asked(state, times + 1, now)
        return True


@dataclass(slots=True)
class Asking:
    """The groups that brokers assign."""

    _groups: dict[str, _Memory] = field(default_factory=dict)

    def step(self, group: str, known: ServedGroup, now: float) -> str:
        """Returns why the broker should compute the assignment anew, "" if it should not. `now` is in seconds of the
        clock of `newest`."""
        memory = self._groups.setdefault(group, _Memory())
        reasons = _reasons(known, memory, now)
        return next((cause for reason, state, cause in reasons if memory.may_ask(reason, state, now)), "")

    def forget(self, group: str) -> None:
        self._groups.pop(group, None)


def _reasons(known: ServedGroup, memory: _Memory, now: float) -> Iterator[tuple[Reason, object, str]]:
    """Yields each reason with its state, and with its cause as a phrase."""
    if known.rules is None:
        return
    if known.by_orders:
        yield from _by_orders(known, known.rules, memory, now)
    state = memory.members, known.rules
    if known.late:
        yield Reason.LATE, state, LATE
    seen = known.seen
    if seen is None or not seen.asks_bellwether or seen.state != GroupState.STABLE:
        return
    memory.members = frozenset(map(_name, seen.members))
    wrong = _wrong(seen, known.newest, known.rules, memory, now)
    before, memory.suspected = memory.suspected, seen.epoch if wrong is not None else None
    if wrong is not None and before == seen.epoch:  # a plan may have been on its way to the first of two observations
        yield wrong[0], (memory.members, known.rules), wrong[1]
    if seen.shadow is not None and known.weights is not None and (gain := _gain(seen.shadow, known.weights)):
        owners = frozenset((member.member_id, member.owned) for member in seen.members)
        yield Reason.BETTER, owners, gain


def _by_orders(
    known: ServedGroup, rules: tuple[Rule, ...], memory: _Memory, now: float
) -> Iterator[tuple[Reason, object, str]]:
    """What an instance's newest plan lacks is known to that instance alone; of a change of orders the first one begins
    a rebalance, and the others only take note of it."""
    last = memory.asked.get(Reason.ORDERED)
    planned = known.newest.rules if known.newest is not None else ()
    before: tuple[Rule, ...] = planned if last is None else last.state  # type: ignore[assignment]  # of this reason
    if known.lacked is not None and (cause := news((), rules, known.ended) or known.lacked[1]):
        memory.asked[Reason.ORDERED] = _Asked(rules, 1, now)
        yield Reason.LACKING, known.lacked[0], cause
    elif rules == before or (last is not None and not known.first):
        memory.asked[Reason.ORDERED] = _Asked(rules, 1, now)
    else:
        yield Reason.ORDERED, rules, news(before if last is not None else (), rules, known.ended) or CHANGED


def news(before: Sequence[Rule], rules: Sequence[Rule], ended: Mapping[str, str]) -> str:
    """Returns which orders are new and which have ended, in sentences."""
    began = [rule.order for rule in rules if rule not in before]
    gone = [f"{rule.order}: {ended.get(rule.order, 'ended')}" for rule in before if rule not in rules]
    return "; ".join(dict.fromkeys((*began, *gone)))


def _wrong(
    seen: Observation, newest: NewestPlan | None, rules: tuple[Rule, ...], memory: _Memory, now: float
) -> tuple[Reason, str] | None:
    """Returns what contradicts the assignment, None for nothing."""
    if newest is not None and memory.agreed == (newest, seen.epoch):
        return None
    if newest is not None and (memory.agreed is None or memory.agreed[0] is not newest):
        if isinstance(newest.plan, TaskPlan) and seen.shadow is None:
            return None  # which process runs which task is unknown
        if newest.owned() == _owned(seen):
            memory.agreed = (newest, seen.epoch)
            return None
        if now - newest.made_at < PLAN_AGE_S_MAX and _are_named(newest, seen.members):
            return Reason.LATE, LATE
    if rules:
        return (Reason.DISREGARDED, DISREGARDED) if _disregards(seen, rules) else None
    idle = _idle(seen.members)
    return (Reason.IDLE, idle) if idle else None


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


def _gain(shadow: Shadow, weights: Callable[[], Weights]) -> str:
    """Returns what the plan that the broker would get now improves, "" for nothing: the load under `load-aware`, reads
    from other racks, which may have changed, under any other policy."""
    if not shadow.moves.moved:
        return ""
    if shadow.decision.policy != LOAD_AWARE:
        present, planned = shadow.cross_rack, shadow.cross_rack_planned
        saved = 0 if present is None or planned is None else present - planned
        return f"{saved} fewer partitions would be read from other racks" if saved > 0 else ""
    if not _is_weighed(shadow.decision.plan, weights):
        return ""
    return f"the load of members is uneven, {shadow.moves.moved} partitions would move"


def _is_weighed(plan: GroupPlan, weights: Callable[[], Weights]) -> bool:
    """Returns whether the plan is by known weights. Without any it balances counts, and a later plan would move back
    what it moves."""
    return isinstance(plan, PartitionPlan) and not Load.of(plan.group, plan.cluster, LoadAware(weights())).reason
