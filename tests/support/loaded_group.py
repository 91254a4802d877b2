"""A group with more load on one member."""

from bellwether_kafka.assignors.consumer import LOAD_AWARE, PartitionPlan, Policy
from bellwether_kafka.assignors.shared import ClusterView, Decision, Memory, Weights
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.support import decisions
from tests.unit.assignors.consumer.wire import LiveMember, live_group

POLICY = Policy(LOAD_AWARE)
EVEN = Weights({TopicPartition("t", p): 10.0 for p in range(8)})


def decided(policy: Policy = POLICY) -> Decision[PartitionPlan]:
    members = [LiveMember("a", ("t",)), LiveMember("b", ("t",))]
    cluster = ClusterView.of({"t": [[None]] * 8})
    return decisions.decided(live_group(members, 1, "range"), cluster, Memory.empty(), policy, now_ms=0)


def heavy_on_one(decision: Decision[PartitionPlan]) -> Weights:
    mine = set((decision.plan.owner == 0).nonzero()[0].tolist())
    return Weights({TopicPartition("t", p): 100.0 if p in mine else 10.0 for p in range(8)})
