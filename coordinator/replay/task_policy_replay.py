"""Replays recorded applications under other policies, to compare their costs. Pure.

As in `policy_replay`, each policy continues from the tasks that it gave members in the rebalance before, not from those
that the recorded leader gave them. Each rebalance is simulated until the application is at rest, when standbys and
warm-ups have caught up. Recorded rebalances of the same members and partitions are skipped: they only warm up and move
what the rebalance before has placed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from bellwether_kafka.assignors import shared
from bellwether_kafka.assignors.explain import flows, imbalance
from bellwether_kafka.assignors.streams import STOCK, Assignors, HeldTasks, TaskPlan, rebalances_of_tasks
from bellwether_kafka.assignors.streams.policies import BROKER_STICKY, STREAMS_HA, assign_broker_sticky
from bellwether_kafka.coordinator import planning
from bellwether_kafka.coordinator.replay.policy_replay import PolicyOutcome
from bellwether_kafka.coordinator.replay.recorded import Record
from bellwether_kafka.coordinator.replay.task_replay import assignors_of, decided


@dataclass(frozen=True, slots=True, kw_only=True)
class _Present:
    """An application as it was in a recorded rebalance, and its configuration."""

    decision: shared.Decision[TaskPlan]
    config: planning.StreamsConfig

    @property
    def world(self) -> tuple[object, ...]:
        """The members with their racks, and the partitions that they read."""
        decision = self.decision
        members = sorted(member.member_id for member in decision.raw.others)
        racks = [(owner.key, owner.rack) for owner in decision.plan.owners]
        cluster = decision.cluster
        return members, racks, cluster.topics, cluster.first.tolist(), cluster.signature.tolist()

    def assignors(self, policy: str, weights: shared.Weights) -> Assignors:
        if policy == BROKER_STICKY:
            return replace(STOCK, assign=assign_broker_sticky)
        return assignors_of(replace(self.config, policy=policy), weights)


def replay_task_policies(
    rebalances: Iterable[Record], policies: Sequence[str], weights: shared.Weights
) -> Iterator[PolicyOutcome]:
    """Yields the results of each policy for the rebalances of one application, in the order of time and generation. A
    rebalance that cannot be planned gives a result with `failed`."""
    ordered = sorted(rebalances, key=lambda r: (r["decided_at_ms"], r["generation"]))
    present = [_present(rebalance, weights) for rebalance in ordered]
    asked = tuple(_asked(present))
    for name in policies:
        placed: Mapping[str, HeldTasks] = {}
        for n in asked:
            outcome, placed = _outcome(ordered[n], present[n], name, placed, weights)
            yield outcome


def _asked(present: Sequence[_Present | str]) -> Iterator[int]:
    """Yields which rebalances are not those of the same members and partitions as the last known one."""
    before: tuple[object, ...] | None = None
    for n, each in enumerate(present):
        if isinstance(each, str):
            yield n
        elif each.world != before:
            before = each.world
            yield n


def _present(rebalance: Record, weights: shared.Weights) -> _Present | str:
    """Returns the application as it was, or why it is not known."""
    try:
        request = planning.unpack(rebalance["inputs"])
        return _Present(decision=decided(request, STREAMS_HA, weights), config=request.config)
    except (planning.UnreadableRebalanceError, shared.RefusalError) as error:
        return str(error)


def _outcome(
    rebalance: Record,
    present: _Present | str,
    policy: str,
    placed: Mapping[str, HeldTasks],
    weights: shared.Weights,
) -> tuple[PolicyOutcome, Mapping[str, HeldTasks]]:
    """Returns the result, and the tasks that members have afterwards; `placed` are those before. Without a plan they
    keep what they had."""
    group, generation, at_ms = rebalance["group"], rebalance["generation"], rebalance["decided_at_ms"]
    if isinstance(present, str):
        return PolicyOutcome(group, generation, at_ms, policy, 0, failed=present), placed
    members = [member.member_id for member in present.decision.raw.others]
    try:
        by = present.assignors(policy, weights)
        made = rebalances_of_tasks(present.decision, placed, shared.Change(), policy, by)
    except (shared.WhatIfError, shared.RefusalError) as error:
        return PolicyOutcome(group, generation, at_ms, policy, len(members), failed=str(error)), placed
    first, plan = made[0].decision.plan, made[-1].decision.plan
    owner, racks = shared.lookup(plan.owner, plan.item_of, shared.NOBODY), [each.rack for each in plan.owners]
    leader_only = [each.leader_only for each in plan.owners]
    traffic = flows(plan.cluster, owner, racks, weights, follower_fetching=True, leader_only=leader_only)
    read = traffic.total if weights.of else float(traffic.owned)
    across = traffic.crossing if weights.of else float(sum(traffic.partitions.values()))
    outcome = PolicyOutcome(
        group=group,
        generation=generation,
        decided_at_ms=at_ms,
        policy=policy,
        members=len(members),
        partitions=int((plan.owner != shared.NOBODY).sum()),
        rebalances=len(made),
        moved=shared.moves(first.before, plan.owner).moved,
        paused=None,
        cross_rack=plan.cost(plan.owner).cross_rack,
        cross_share=across / read if read else 0.0,
        cross_bytes_per_s=traffic.crossing,
        imbalance=imbalance(plan, plan.owner, weights)[0],
    )
    return outcome, {member: HeldTasks(*plan.tasks_of(member)) for member in members}
