"""Whether the broker of a group that it assigns by `load-aware` should ask again because the load of members has become
uneven. Pure.

A broker asks only when members or topics change. Beside each observation there is the plan that it would get now, so a
rebalance is begun only if that plan would move something; `load_requests` limits how often.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from bellwether_kafka.assignors.consumer import LOAD_AWARE, Load, LoadAware, PartitionPlan
from bellwether_kafka.assignors.shared import Decision, GroupPlan, Weights
from bellwether_kafka.coordinator.triggers.load_requests import LoadRequests


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Assigned:
    """A group at rest that its broker has assigned, by the assignment `epoch`. `owners` are the present ones,
    `decision` is the plan that the broker would get now, `moved` how many partitions that would move."""

    group: str
    epoch: int | None
    owners: object
    decision: Decision[GroupPlan]
    moved: int


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
        if not seen.moved or now - group.at < group.requests.interval_s or not _is_weighed(seen.decision, weights):
            return ""
        group.requests, group.at, group.epoch = group.requests.requested(seen.owners), now, seen.epoch
        return f"the load of members is uneven, {seen.moved} partitions would move"

    def forget(self, group: str) -> None:
        self._groups.pop(group, None)


def _is_weighed(decision: Decision[GroupPlan], weights: Callable[[], Weights]) -> bool:
    """Returns whether the plan is by known weights. Without any it balances counts, and a later plan would move back
    what it moves."""
    plan = decision.plan
    if decision.policy != LOAD_AWARE or not isinstance(plan, PartitionPlan):
        return False
    return not Load.of(plan.group, plan.cluster, LoadAware(weights())).reason
