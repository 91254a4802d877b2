"""Asks for a rebalance when a group led by `load-aware` is uneven enough for its policy to move something. Pure.

The plan that would be made now is made, so nothing is requested that this plan would not do; the policy's own dead band
and charge for moves decide. If a rebalance after a request leaves all owners as they were, then the plan did not do
what the check foresaw, and the next one would not either: the interval doubles until owners change. A request that led
to no rebalance shows nothing, and is repeated after the same interval.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from bellwether_kafka.assignors.consumer import LOAD_AWARE, Load, PartitionPlan, Policy, holding, planned_owners
from bellwether_kafka.assignors.shared import NOBODY, Decision, GroupPlan, IntArray, Rule, Weights, moves
from bellwether_kafka.assignors.streams import Assignors, TaskPlan, next_rebalance
from bellwether_kafka.coordinator.membership import RebalanceWanted
from bellwether_kafka.coordinator.triggers.picture import Findings, Picture, Reading
from bellwether_kafka.protocol.primitives import ProcessId

CONSUMERS_S, TASKS_S = 5.0, 60.0  # between two checks
LOAD_INTERVAL_S = 60.0
LOAD_INTERVAL_MAX_S = 3_600.0


@dataclass(frozen=True, slots=True)
class LoadRequests:
    """The seconds until the next request may follow, and until the last one could. `owners` are those of the last
    request; None if there was none, or if they have changed since."""

    interval_s: float = LOAD_INTERVAL_S
    last_interval_s: float = LOAD_INTERVAL_S
    owners: object = None

    def planned(self, owners: object) -> "LoadRequests":
        """Takes the owners by a plan that was delivered, and that no other follows."""
        if self.owners is None:
            return self
        if owners != self.owners:
            return LoadRequests()
        return replace(self, interval_s=min(2 * self.last_interval_s, LOAD_INTERVAL_MAX_S))

    def requested(self, owners: object) -> "LoadRequests":
        """Takes a request for a rebalance, made while items had these owners."""
        return LoadRequests(interval_s=self.interval_s, last_interval_s=self.interval_s, owners=owners)


Processes = tuple[ProcessId | None, ...]


def would_move(
    decision: Decision[PartitionPlan], policy: Policy, weights: Weights, rules: tuple[Rule, ...] = ()
) -> int:
    """Returns how many partitions the policy would move now, under the rules of the decision, if members own what it
    assigned to them. 0 if weights are not known: a plan would then balance counts, and move what it would move back
    later. Pure. Raises RefusalError."""
    weighed, owner = policy.with_weights(weights), decision.plan.owner
    # `current` still has the owners before the decision, and would be read instead of what members have now.
    group = replace(holding(decision.plan.group, owner), current=owner)
    if Load.of(group, decision.cluster, weighed.load).reason:
        return 0
    return moves(owner, planned_owners(group, decision.cluster, weighed.with_rules(rules))).moved


def tasks_to_move(decision: Decision[TaskPlan], policy: str, assignors: Assignors, now_ms: int) -> int:
    """Returns how many active tasks would get another destination now if members have what the decision assigned to
    them. 0 while tasks are still on their way, without usable weights, or if that is not known. Pure, but for the
    weights that `assignors` read."""
    if decision.followup or decision.probing_at_ms is not None:
        return 0
    now = next_rebalance(decision, policy, now_ms, assignors)
    if now is None or not now.plan.target.weights:
        return 0
    pairs = zip(_destinations(decision.plan), _destinations(now.plan), strict=True)
    return sum(before != after for before, after in pairs)


def _destinations(plan: TaskPlan) -> Processes:
    """Returns the process where each task is to end up."""
    return _processes(plan, plan.target.destination if len(plan.target.destination) else plan.target.active)


def _processes(plan: TaskPlan, numbers: IntArray) -> Processes:
    """Returns the process of each task, from its number in the plan; None for none."""
    processes = plan.view.processes
    return tuple(processes[p].process_id if p != NOBODY else None for p in numbers.tolist())


@dataclass(frozen=True, slots=True)
class LoadState:
    """The limits of a group's requests, when the last one was made, and the last plan."""

    requests: LoadRequests = field(default_factory=LoadRequests)
    asked_at: float = float("-inf")
    plan: object = None


def load(picture: Picture, state: LoadState | None) -> tuple[LoadState | None, Findings]:
    decision = picture.decision
    if decision is None or picture.policy != LOAD_AWARE:
        return state, ()
    state = state or LoadState()
    if picture.planned is not state.plan:
        settled = not decision.followup and decision.probing_at_ms is None  # otherwise items are on their way
        requests = state.requests.planned(_owners(decision)) if settled else state.requests
        state = replace(state, requests=requests, plan=picture.planned)
    if not picture.moved or not _may_ask(picture, state):
        return state, ()
    who, what = ("processes", "tasks") if picture.config is not None else ("members", "partitions")
    reason = f"the load of {who} is uneven, {picture.moved} {what} would move"
    asked = replace(state, requests=state.requests.requested(_owners(decision)), asked_at=picture.now)
    return asked, (RebalanceWanted(reason, "load"),)


def load_wants(picture: Picture, state: LoadState | None) -> Mapping[Reading, float]:
    decision = picture.decision
    if state is None or decision is None or decision.followup or not picture.rests or not _may_ask(picture, state):
        return {}
    return {Reading.MOVED: CONSUMERS_S if picture.config is None else TASKS_S}


def _may_ask(picture: Picture, state: LoadState) -> bool:
    return picture.now - state.asked_at >= state.requests.interval_s


def _owners(decision: Decision[GroupPlan]) -> object:
    """Returns the process of each active task, or the member of each partition that has an owner."""
    plan = decision.plan
    if isinstance(plan, TaskPlan):
        return _processes(plan, plan.target.active)
    if not isinstance(plan, PartitionPlan):
        return plan.owner.tolist()
    ids = plan.group.members.ids
    return {decision.cluster.name(flat): ids[m] for flat, m in enumerate(plan.owner.tolist()) if m != NOBODY}
