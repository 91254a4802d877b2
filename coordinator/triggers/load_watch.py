"""Requests a rebalance when a group led by `load-aware` has become uneven enough for its policy to move something.

It makes the plan that would be made now, so it requests nothing that this plan would not do; the policy's own dead band
and charge for moves decide. `load_requests` limits how often. Of applications `streams_watch` makes the request,
because only it knows whether a rebalance would stop one.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace

import structlog

from bellwether_kafka.assignors.consumer import LOAD_AWARE, Load, PartitionPlan, Policy, holding, planned_owners
from bellwether_kafka.assignors.shared import NOBODY, Decision, IntArray, Rule, Weights, moves
from bellwether_kafka.assignors.streams import Assignors, TaskPlan, next_rebalance
from bellwether_kafka.coordinator import clocks
from bellwether_kafka.coordinator.membership import Note, NoteKind
from bellwether_kafka.coordinator.planning import Planned
from bellwether_kafka.coordinator.triggers.load_requests import LoadRequests
from bellwether_kafka.coordinator.watching import every
from bellwether_kafka.protocol.primitives import ProcessId, TopicPartition

INTERVAL_S = 5.0

Processes = tuple[ProcessId | None, ...]

log = structlog.get_logger(__name__)


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


def task_owners(decision: Decision[TaskPlan]) -> Processes:
    """Returns the process to which each active task is assigned."""
    return _processes(decision.plan, decision.plan.target.active)


def _destinations(plan: TaskPlan) -> Processes:
    """Returns the process where each task is to end up."""
    return _processes(plan, plan.target.destination if len(plan.target.destination) else plan.target.active)


def _processes(plan: TaskPlan, numbers: IntArray) -> Processes:
    """Returns the process of each task, from its number in the plan; None for none."""
    processes = plan.view.processes
    return tuple(processes[p].process_id if p != NOBODY else None for p in numbers.tolist())


def _owners(planned: Planned[PartitionPlan]) -> dict[TopicPartition, str]:
    """Returns the member of each partition that has an owner."""
    decision = planned.decision
    ids, owner = decision.plan.group.members.ids, decision.plan.owner.tolist()
    return {decision.cluster.name(flat): ids[member] for flat, member in enumerate(owner) if member != NOBODY}


class LoadWatch:
    """Watches all groups of consumers led by `load-aware`. Its `on_*` methods are observers for the runtime. `weights`
    returns those of a group; `policies` is by group; `wanted` is called with (group, reason)."""

    def __init__(
        self,
        weights: Callable[[str], Weights],
        policies: Mapping[str, Policy],
        wanted: Callable[[str, str], None],
        *,
        clock: Callable[[], float] = clocks.monotonic,
    ) -> None:
        self._weights = weights
        self._policies = policies
        self._wanted = wanted
        self._clock = clock
        self._last: dict[str, Planned[PartitionPlan]] = {}
        self._requests: dict[str, LoadRequests] = {}
        self._requested_at: dict[str, float] = {}

    def on_consumer_decision(self, planned: Planned[PartitionPlan]) -> None:
        decision = planned.decision
        group = decision.raw.group_id
        if decision.policy != LOAD_AWARE or decision.followup:
            self._last.pop(group, None)
            return
        self._last[group] = planned
        if group in self._requests:
            self._requests[group] = self._requests[group].planned(_owners(planned))

    def on_note(self, group: str, note: Note) -> None:
        if note.kind in (NoteKind.LEFT, NoteKind.WATCHING):
            self._last.pop(group, None)

    async def beside(self, *_: object) -> None:
        """Runs until cancelled. Logs its own errors and goes on."""
        await every(INTERVAL_S, self.refresh, log, "load_watch_crashed")

    async def refresh(self) -> None:
        """Checks every group that is due. An error in one is logged and does not stop others."""
        for group, planned in list(self._last.items()):
            try:
                await self._refresh(group, planned)
            except Exception:
                log.exception("load_watch_failed", group=group)

    async def _refresh(self, group: str, planned: Planned[PartitionPlan]) -> None:
        requests, at_s = self._requests.get(group, LoadRequests()), self._requested_at.get(group, float("-inf"))
        if self._clock() - at_s < requests.interval_s:
            return
        by = self._policies[group], self._weights(group), planned.rules
        moved = await asyncio.to_thread(would_move, planned.decision, *by)
        if moved and self._last.get(group) is planned:
            self._requests[group], self._requested_at[group] = requests.requested(_owners(planned)), self._clock()
            self._wanted(group, f"the load of members is uneven, {moved} partitions would move")
