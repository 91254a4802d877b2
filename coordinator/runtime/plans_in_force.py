"""Whether the assignment of a group is that of a plan. A broker that has no plan in time keeps what members have: one
that joined meanwhile has nothing, and nothing else would make the broker ask again. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from bellwether_kafka.coordinator.observation import Observation, ObservedMember
from bellwether_kafka.coordinator.serving import NewestPlan

ASSIGNORS = "bellwether"  # how the names of all of Bellwether's assignors begin
STABLE = "Stable"
PLAN_AGE_S_MAX = 300.0  # an older plan may have been followed by one that another process made
WAIT_S, WAIT_S_MAX = 60.0, 3_600.0  # between two rebalances that are begun for this; it doubles each time
LATE = "the newest plan did not reach the broker in time"


@dataclass(slots=True)
class _Waiting:
    """A group whose assignment is not that of a plan. `epoch`: that of the assignment, None before it was observed."""

    epoch: int | None = None
    wait_s: float = WAIT_S
    not_before: float = 0.0


@dataclass(slots=True)
class PlansInForce:
    """The groups whose assignment, as last observed, is not that of a plan."""

    _waiting: dict[str, _Waiting] = field(default_factory=dict)

    def lacking(self, seen: Observation, newest: NewestPlan | None, now: float, *, ruled: bool) -> str:
        """Returns why the broker should compute the assignment anew, "" if it should not. It should where the same
        assignment, observed twice, differs from the newest plan, or leaves a member without a partition. `ruled`: an
        order is in force, which may leave members without any. `now` is in seconds of the clock of `newest`."""
        if seen.kind != "consumer" or seen.state != STABLE or not seen.protocol.startswith(ASSIGNORS):
            return ""
        why = _why(seen.members, newest, now, ruled=ruled)
        if not why:
            self.forget(seen.group_id)
            return ""
        group = self._waiting.setdefault(seen.group_id, _Waiting())
        before, group.epoch = group.epoch, seen.epoch
        if before != seen.epoch or now < group.not_before:
            return ""
        group.not_before, group.wait_s = now + group.wait_s, min(2 * group.wait_s, WAIT_S_MAX)
        return why

    def forget(self, group: str) -> None:
        self._waiting.pop(group, None)


def _why(members: Iterable[ObservedMember], newest: NewestPlan | None, now: float, *, ruled: bool) -> str:
    present = tuple(members)
    if newest is not None:
        owned = {m.member_id: frozenset(f"{topic}-{partition}" for topic, partition in m.owned) for m in present}
        if owned == newest.owned:
            return ""
        if now - newest.made_at < PLAN_AGE_S_MAX:
            return LATE
    return "" if ruled else _idle(present)


def _idle(members: Sequence[ObservedMember]) -> str:
    """Returns which member has no partition although another one with the same topics has several, "" for none."""
    largest: dict[frozenset[str], int] = {}
    for member in members:
        topics = frozenset(member.topics)
        largest[topics] = max(largest.get(topics, 0), len(member.owned))
    idle = (m.member_id for m in members if not m.owned and largest[frozenset(m.topics)] > 1)
    member_id = next(idle, "")
    return f"{member_id} has no partition although others have several" if member_id else ""
