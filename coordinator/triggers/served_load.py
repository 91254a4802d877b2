"""Whether the broker of a group that it assigns should ask again: under `load-aware` because load has become uneven,
under any policy because racks by `[racks]` have changed. Pure.

A broker asks only when members or topics change. Beside each observation there is the plan that it would get now, so a
rebalance is begun only if that plan would be better; `LoadRequests` limits how often.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from bellwether_kafka.assignors.consumer import LOAD_AWARE, Load, LoadAware, PartitionPlan
from bellwether_kafka.assignors.shared import Decision, GroupPlan, Weights
from bellwether_kafka.coordinator.triggers.load import LoadRequests


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Assigned:
    """A group at rest that its broker has assigned, by the assignment `epoch`. `owners` are the present ones,
    `decision` is the plan that the broker would get now, `moved` how many partitions that would move, and `saved` how
    many fewer would be read from other racks."""

    group: str
    epoch: int | None
    owners: object
    decision: Decision[GroupPlan]
    moved: int
    saved: int


@dataclass(slots=True)
class _Watched:
    """The limits of a group's requests, when the last one was made, and the epoch at which it was."""

    requests: LoadRequests = field(default_factory=LoadRequests)
    at: float = float("-inf")
    epoch: int | None = None


@dataclass(slots=True)
class ServedLoad:
    """The groups that brokers assign, as last observed."""

    _groups: dict[str, _Watched] = field(default_factory=dict)

    def rebalance_cause(self, seen: Assigned, weights: Callable[[], Weights], now: float) -> str:
        """Returns why the broker should compute the assignment anew, "" if it should not. `now` is in seconds of a
        monotonic clock."""
        group = self._groups.setdefault(seen.group, _Watched())
        if group.epoch not in (None, seen.epoch):
            group.requests, group.epoch = group.requests.planned(seen.owners), None
        if not seen.moved or now - group.at < group.requests.interval_s:
            return ""
        cause = _gain(seen, weights)
        if cause:
            group.requests, group.at, group.epoch = group.requests.requested(seen.owners), now, seen.epoch
        return cause

    def forget(self, group: str) -> None:
        self._groups.pop(group, None)


def _gain(seen: Assigned, weights: Callable[[], Weights]) -> str:
    """Returns what the plan would improve, "" for nothing."""
    if seen.decision.policy != LOAD_AWARE:
        return f"{seen.saved} fewer partitions would be read from other racks" if seen.saved > 0 else ""
    if not _is_weighed(seen.decision.plan, weights):
        return ""
    return f"the load of members is uneven, {seen.moved} partitions would move"


def _is_weighed(plan: GroupPlan, weights: Callable[[], Weights]) -> bool:
    """Returns whether the plan is by known weights. Without any it balances counts, and a later plan would move back
    what it moves."""
    return isinstance(plan, PartitionPlan) and not Load.of(plan.group, plan.cluster, LoadAware(weights())).reason
