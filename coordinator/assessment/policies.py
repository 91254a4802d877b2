"""Computes the final assignment of an observed group under each policy, with its costs. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from bellwether_kafka.assignors import consumer, shared
from bellwether_kafka.assignors.broker_side import modelled
from bellwether_kafka.assignors.explain import cost_per_hour, flows, imbalance
from bellwether_kafka.assignors.shared import NOBODY, Decision, GroupPlan, IntArray
from bellwether_kafka.assignors.streams import STOCK, HeldTasks, TaskPlan, rebalances_of_tasks
from bellwether_kafka.assignors.streams.policies import BROKER_STICKY, STREAMS_POLICIES, assign_broker_sticky
from bellwether_kafka.coordinator.assessment.model import NOW, Measures, PolicyRow, Prices
from bellwether_kafka.coordinator.membership import STREAMS_PROTOCOL
from bellwether_kafka.coordinator.observation import NEWEST, UNEVEN, Observation, Shadow
from bellwether_kafka.coordinator.planning import StreamsConfig, load_application
from bellwether_kafka.protocol.primitives import TaskId


def rows_of(seen: Observation, prices: Prices, *, restarts: bool = False) -> tuple[PolicyRow, ...]:
    """Returns rows for the present assignment, then for Bellwether's policies, then for the assignors of a broker of
    the release that was observed. Empty without a plan. `restarts`: for the broker's row of an application all
    instances are stopped and started with the protocol `streams`."""
    return tuple(
        row if row.leads or row.policy == NOW else replace(row, release=modelled(seen.broker_version))
        for row in _rows(seen, prices, restarts=restarts)
    )


def _restarted(seen: Observation, shadow: Shadow, plan: TaskPlan, prices: Prices) -> PolicyRow:
    """Returns what a broker assigns to an application whose instances were all stopped: it does not know what they had
    before, up to Kafka 4.3 not even what is on their disks."""
    release = modelled(seen.broker_version)
    owner = assign_broker_sticky(plan.view, plan.configs, release=release, restarted=True).active
    moved = shared.moves(shadow.present, owner).moved
    return PolicyRow(BROKER_STICKY, False, measures(plan, owner, prices), moved, 1)


def _rows(seen: Observation, prices: Prices, *, restarts: bool) -> tuple[PolicyRow, ...]:
    shadow = seen.shadow
    if shadow is None:
        return ()
    plan = shadow.decision.plan
    present = PolicyRow(NOW, leads=False, measures=measures(plan, shadow.present, prices))
    if isinstance(plan, consumer.PartitionPlan):
        return present, *_of_consumers(shadow, plan, prices)
    if isinstance(plan, TaskPlan) and seen.protocol == STREAMS_PROTOCOL:
        return present, *_of_tasks(seen, shadow, plan, prices, restarts=restarts)
    return present, PolicyRow("as configured", True, measures(plan, plan.owner, prices), shadow.moves.moved, 1)


def measures(plan: GroupPlan, owner: IntArray, prices: Prices) -> Measures:
    """Returns the costs of an assignment. `owner` are the owners of all items, with the indices of `plan`."""
    cost = plan.cost(owner)
    flats = shared.lookup(owner, plan.item_of, NOBODY)
    traffic = flows(
        plan.cluster,
        flats,
        [reader.rack for reader in plan.owners],
        prices.weights,
        bool(prices.near),
        leader_only=[reader.leader_only for reader in plan.owners],
    )
    racks = bool(plan.read_remotely(owner)[0].any())
    crossing = traffic.crossing if traffic.weighed and racks else None
    fullest, by_load = _imbalance(plan, owner, prices.weights)
    money = cost_per_hour(crossing, prices.per_gb) if crossing is not None and prices.per_gb is not None else None
    return Measures(cost.unowned, cost.cross_rack if racks else None, cost.spread, fullest, by_load, crossing, money)


def _imbalance(plan: GroupPlan, owner: IntArray, weights: shared.Weights) -> tuple[float, bool]:
    """Returns the fullest owner over the mean, and whether that is by load. Consumers are compared with those with
    which they could exchange partitions."""
    if isinstance(plan, consumer.PartitionPlan):
        load = consumer.Load.of(plan.group, plan.cluster, consumer.LoadAware(weights))
        return load.imbalance(owner), not load.reason
    return imbalance(plan, owner, weights)


def _of_consumers(shadow: Shadow, plan: consumer.PartitionPlan, prices: Prices) -> Iterator[PolicyRow]:
    memory = shared.Memory.of(NEWEST - 2 * consumer.REBALANCES_MAX, plan.cluster, shadow.present, plan.group.members)
    for name in (*consumer.POLICIES, *consumer.BROKER_SIDE):
        leads = name in consumer.POLICIES
        policy = consumer.Policy(name) if leads else consumer.broker_side(name)
        if name == consumer.LOAD_AWARE:
            if not prices.weights.of:
                yield PolicyRow(name, leads, why="no partition has a weight")
                continue
            policy = policy.with_weights(prices.weights)
        raw = replace(shadow.decision.raw, resting=False)
        try:
            made = consumer.rebalances(raw, plan.cluster, memory, policy, shadow.decision.decided_at_ms)
        except shared.WhatIfError as error:
            yield PolicyRow(name, leads, why=str(error))
            continue
        yield _row(name, made, shadow.present, prices, leads=leads)


def _of_tasks(
    seen: Observation, shadow: Shadow, plan: TaskPlan, prices: Prices, *, restarts: bool
) -> Iterator[PolicyRow]:
    tasks_of = {m.member_id: HeldTasks(_tasks(m.active), _tasks(m.standby)) for m in seen.members}
    broker = replace(STOCK, assign=partial(assign_broker_sticky, release=modelled(seen.broker_version)))
    by_load = load_application(StreamsConfig(seen.group_id, policy=consumer.LOAD_AWARE), lambda: prices.weights)
    assignors = dict.fromkeys(STREAMS_POLICIES, STOCK) | {consumer.LOAD_AWARE: by_load.assignors, BROKER_STICKY: broker}
    for name, by in assignors.items():
        leads = name in STREAMS_POLICIES
        if name == consumer.LOAD_AWARE and not prices.weights.of:
            yield PolicyRow(name, leads, why="no partition has a weight")
            continue
        if name == BROKER_STICKY and restarts:
            yield _restarted(seen, shadow, plan, prices)
            continue
        decision: Decision[TaskPlan] = shadow.decision  # type: ignore[assignment]  # the caller has checked
        try:
            made = [
                rebalance.decision for rebalance in rebalances_of_tasks(decision, tasks_of, shared.Change(), name, by)
            ]
        except shared.WhatIfError as error:
            yield PolicyRow(name, leads, why=str(error))
            continue
        yield _row(name, made, shadow.present, prices, leads=leads)


def _row(
    name: str, made: Sequence[Decision[GroupPlan]], present: IntArray, prices: Prices, *, leads: bool
) -> PolicyRow:
    plan = made[-1].plan
    moved = shared.moves(present, plan.owner).moved
    return PolicyRow(name, leads, measures(plan, plan.owner, prices), moved, len(made))


def _tasks(names: Sequence[str]) -> tuple[TaskId, ...]:
    parts = (name.partition("_") for name in names)
    return tuple(TaskId(int(subtopology), int(number)) for subtopology, _, number in parts)


def best(rows: Sequence[PolicyRow]) -> PolicyRow | None:
    """Returns the policy to lead with that costs least, None if there is none. Compares in this order: items without an
    owner; reads across racks, in bytes or else in partitions; imbalance beyond a tenth; moves. Among equal ones, the
    first is chosen."""
    candidates = [row for row in rows if row.leads and row.measures is not None]
    return min(candidates, key=_cost, default=None)


def _cost(row: PolicyRow) -> tuple[float, ...]:
    costs = row.measures
    assert costs is not None  # noqa: S101 - called for rows with measures only
    crossing = costs.bytes_per_s if costs.bytes_per_s is not None else costs.cross_rack or 0
    return costs.unowned, crossing, max(0.0, round(costs.imbalance - UNEVEN, 3)), row.moves or 0
