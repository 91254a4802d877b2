"""Observed groups and applications as pages show them."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bellwether_kafka.assignors.consumer import Policy, recall
from bellwether_kafka.assignors.shared import AssignedMember, ClusterView, RawGroup, RawMember
from bellwether_kafka.coordinator.membership import Decide, DescribeAnswer, DescribedMember, JoinedMember
from bellwether_kafka.coordinator.observation import NEWEST, Observation, Shadow, observation
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from tests.support import decisions
from tests.support.observed import tp
from tests.unit.assignors.streams.world import Thread
from tests.unit.coordinator.planning.applications import App

CLUSTER = ClusterView.of({"orders": [["az1"], ["az2"], ["az1"], ["az2"]]})
LAGS: Mapping[str, tuple[int | None, ...]] = {"orders": (7, None, 0, 12_000)}


def member(name: str, rack: str | None, *owned: str) -> DescribedMember:
    subscription = ConsumerProtocolSubscription(3, ("orders",), None, (), 1, rack).encode()
    assignment = ConsumerProtocolAssignment(0, tp(*owned)).encode()
    return DescribedMember(name, None, subscription, assignment, name.partition("-")[0], "/10.0.0.3")


def observed_group(*members: DescribedMember, shadow: bool = True) -> Observation:
    answer = DescribeAnswer(0, 0, "Stable", "consumer", "range", members)
    seen = replace(observation("g", "classic", answer, 9_000), lags=LAGS)
    if not shadow:
        return replace(seen, trouble="no shadow plan: the brokers are silent")
    stored = [AssignedMember(m.member_id, None, m.metadata, m.assignment) for m in members]
    raw = RawGroup("g", 9, "range", tuple(RawMember(m.member_id, None, m.metadata) for m in members))
    decision = decisions.decided(raw, CLUSTER, recall(9, "range", CLUSTER, stored), Policy("rack-first"), 0, 0)
    return replace(seen, shadow=Shadow.of(decision, decision.plan.before))


# a reads orders-1 from another rack, and b has too much.
SKEWED = observed_group(
    member("a-1", "az1", "orders-1"), member("b-1", "az2", "orders-0", "orders-2", "orders-3"), member("c-1", None)
)
RACKLESS = observed_group(member("a-1", None, "orders-0", "orders-1"), member("b-1", None, "orders-2", "orders-3"))


def observed_application(*, reported: bool = False) -> Observation:
    """Two processes as they run after a rebalance, each with a standby for the other; `reported`: they have joined
    again since, and said how far they are."""
    first, second = Thread("a", 1, rack="az1"), Thread("b", 2, rack="az2")

    async def scenario() -> Observation:
        app = App(attested=True, num_standby_replicas=1)
        planned = await app.planner.plan(app.order(1, first, second, deadline=time.monotonic() + 5))
        given = dict(planned.chosen.decision.assignments)
        members = tuple(
            DescribedMember(t.member_id, None, t.raw.metadata, given[t.member_id], f"shop-{t.member_id}", "/h")
            for t in (decision.after(planned.chosen.decision) if reported else decision for decision in (first, second))
        )
        answer: Any = DescribeAnswer(0, 0, "Stable", "consumer", "stream", members)
        joined = tuple(JoinedMember(m.member_id, None, m.metadata) for m in members)
        command = Decide(NEWEST, "stream", joined, "", time.monotonic() + 5, dry=True)
        compared = await App(attested=True, num_standby_replicas=1).planner.shadow(command, answer)
        shadow = Shadow.of(compared.decision, compared.present, compared.inputs)
        return replace(observation("shop", "classic", answer, 9_000), shadow=shadow)

    return asyncio.run(scenario())
