"""Consumer groups come to rest while an order on places is in force, under every policy."""

import random
from dataclasses import dataclass

import numpy as np
import pytest

from bellwether_kafka.assignors.consumer import POLICIES, PartitionPlan, Policy, decide
from bellwether_kafka.assignors.consumer.derived import subscriptions
from bellwether_kafka.assignors.consumer.operator_rules import matches
from bellwether_kafka.assignors.shared import BoolArray, ClusterView, Decision, Memory, Rule, Weights
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.consumers import LiveMember, live_group
from tests.seeds import seeds

TOPICS = ("a", "b")
RACKS = ("az0", "az1", "az2")
RULES = (
    Rule("ban", "*", "member:m0"),
    Rule("ban", "*", "rack:az1"),
    Rule("ban", "a", "member:m0"),
)
REBALANCES_MAX = 8  # `load-aware` limits the moves of one rebalance, so it takes several


@dataclass(slots=True)
class LiveGroup:
    """Cooperative members that rebalance until a plan leaves nothing pending. `memory` and `generation` go on."""

    cluster: ClusterView
    members: list[LiveMember]
    weights: dict[TopicPartition, float]
    memory: Memory
    generation: int = 0

    @classmethod
    def random(cls, rng: random.Random) -> "LiveGroup":
        replicas, partitions = rng.choice([0, 1, 2]), rng.choice([6, 12, 40])
        layout = {topic: [rng.sample(RACKS, replicas) for _ in range(partitions)] for topic in TOPICS}
        members = [
            LiveMember(f"m{i}", TOPICS if i == 0 or rng.random() < 0.8 else ("a",), RACKS[i % 3] if replicas else None)
            for i in range(rng.choice([2, 3, 5]))
        ]
        loads = [TopicPartition(topic, number) for topic in TOPICS for number in range(partitions)]
        weights = {partition: rng.choice([10, 50, 100, 1000]) * rng.random() for partition in loads}
        return cls(ClusterView.of(layout), members, weights, Memory.empty())

    def settled(self, policy: Policy) -> tuple[Decision[PartitionPlan], int]:
        """Returns the last decision, and after how many rebalances nothing is pending."""
        decision, rebalances = self.rebalanced(policy), 1
        while decision.followup and rebalances <= REBALANCES_MAX:
            decision, rebalances = self.rebalanced(policy), rebalances + 1
        return decision, rebalances

    def rebalanced(self, policy: Policy) -> Decision[PartitionPlan]:
        self.generation += 1
        raw = live_group(self.members, self.generation)
        decision = decide(raw, self.cluster, self.memory, policy.with_weights(Weights(self.weights)), now_ms=0)
        assert isinstance(decision, Decision)
        self.memory = decision.plan.memory
        self.members = [member.after(decision) for member in self.members]
        return decision


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", seeds(100))
def test_a_cooperative_group_comes_to_rest_under_an_order(seed: int, policy: str) -> None:
    rng = random.Random(seed)
    group, rule = LiveGroup.random(rng), rng.choice(RULES)
    ordered = Policy(policy).with_rules((rule,))
    group.settled(Policy(policy))
    for _ in range(3):
        decision, rebalances = group.settled(ordered)
        assert rebalances <= REBALANCES_MAX
        assert not misplaced(decision, rule)
        group.members.append(LiveMember(f"m{len(group.members)}", TOPICS, group.members[-1].rack))
        for partition in rng.sample(sorted(group.weights), len(group.weights) // 2):
            group.weights[partition] *= rng.choice([0.1, 1, 10])


def misplaced(decision: Decision[PartitionPlan], rule: Rule) -> list[str]:
    """Returns the partitions that the rule forbids to their owner although another member subscribes to them."""
    plan, cluster = decision.plan, decision.cluster
    banned = np.array([matches(member, rule.where) for member in plan.group.members], dtype=np.bool_)
    subscribed = subscriptions(plan.group, len(cluster.topics))[plan.group.topic_set]
    served: BoolArray = np.logical_or.reduce(subscribed[~banned], axis=0)
    topics = [rule.item in ("*", topic) and bool(served[at]) for at, topic in enumerate(cluster.topics)]
    owned = enumerate(zip(cluster.topic_of().tolist(), plan.owner.tolist(), strict=True))
    return [str(cluster.name(flat)) for flat, (topic, owner) in owned if topics[topic] and banned[owner]]
