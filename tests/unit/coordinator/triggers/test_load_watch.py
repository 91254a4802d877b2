"""The watch asks for a rebalance exactly when the policy would move something, and not again at once."""

import asyncio

import numpy as np
import pytest

from bellwether_kafka.assignors.consumer.decide import decide
from bellwether_kafka.assignors.consumer.partition_plan import PartitionPlan
from bellwether_kafka.assignors.consumer.registry import LOAD_AWARE, Policy
from bellwether_kafka.assignors.shared.decision import Decision
from bellwether_kafka.assignors.shared.dense_views import ClusterView
from bellwether_kafka.assignors.shared.memory import Memory
from bellwether_kafka.assignors.shared.weights import Weights
from bellwether_kafka.coordinator.planning.fallback import Chosen, Source
from bellwether_kafka.coordinator.planning.planned import PlannedRebalance, Timings, WatchedTopics
from bellwether_kafka.coordinator.triggers.load_watch import LoadWatch, would_move
from bellwether_kafka.protocol.primitives.types import TopicPartition
from tests.unit.assignors.consumer.wire import LiveMember, live_group

POLICY = Policy(LOAD_AWARE)
EVEN = Weights({TopicPartition("t", p): 10.0 for p in range(8)})


def decided(policy: Policy = POLICY) -> Decision[PartitionPlan]:
    members = [LiveMember("a", ("t",)), LiveMember("b", ("t",))]
    cluster = ClusterView.of({"t": [[None]] * 8})
    return decide(live_group(members, 1, "range"), cluster, Memory.empty(), policy, now_ms=0)


def heavy_on_one(decision: Decision[PartitionPlan]) -> Weights:
    mine = set((decision.plan.owner == 0).nonzero()[0].tolist())
    return Weights({TopicPartition("t", p): 100.0 if p in mine else 10.0 for p in range(8)})


def test_it_asks_once_when_load_has_moved_and_never_when_it_is_even() -> None:
    decision = decided()
    weights = {"now": EVEN}
    asked: list[tuple[str, str]] = []
    watch = LoadWatch(lambda _: weights["now"], {"group": POLICY}, lambda *why: asked.append(why))
    watch.on_consumer_decision(
        PlannedRebalance(Chosen(decision, Source.PLAN, ()), WatchedTopics(("t",)), Timings(0, 0, 0))
    )
    asyncio.run(watch.refresh())
    assert asked == []
    weights["now"] = heavy_on_one(decision)
    moved = would_move(decision, POLICY, weights["now"])
    asyncio.run(watch.refresh())
    asyncio.run(watch.refresh())
    assert asked == [("group", f"the load of members is uneven, {moved} partitions would move")]
    assert moved > 0


def test_it_would_move_no_more_than_the_limit_after_the_first_rebalance() -> None:
    members = [LiveMember(f"m{i}", ("t",)) for i in range(6)]
    cluster = ClusterView.of({"t": [[None]] * 60})
    decision = decide(live_group(members, 1, "range"), cluster, Memory.empty(), POLICY, now_ms=0)
    skewed = Weights({TopicPartition("t", p): 1000.0 / (1 + p) for p in range(60)})
    assert 0 < would_move(decision, POLICY, skewed) <= POLICY.load.rules.limit(60)


@pytest.mark.parametrize("known", [0, 3], ids=["none", "too few"])
def test_weights_that_are_not_known_any_more_move_nothing(known: int) -> None:
    """As after an outage of the pipeline, or just after the clock was set. The first plan balanced unequal weights."""
    skewed = Weights({TopicPartition("t", p): 100.0 if p == 0 else 10.0 for p in range(8)})
    decision = decided(POLICY.with_weights(skewed))
    counts = np.bincount(decision.plan.owner).tolist()
    assert counts != [4, 4], "by counts others would have the partitions"
    lost = Weights(dict(list(skewed.of.items())[:known]))
    assert would_move(decision, POLICY, lost) == 0
