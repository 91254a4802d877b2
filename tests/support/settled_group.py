"""A plain group that Bellwether has planned and that has settled."""

from bellwether_kafka.assignors.consumer import Policy, rebalances
from bellwether_kafka.assignors.shared import ClusterView, Memory, RawGroup, RawMember
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription

CLUSTER = ClusterView.of({"orders": [["az1"], ["az2"], ["az3"]] * 4, "users": [["az1"], ["az2"]]})
POLICY = Policy("kafka")


def group(*racks: str, protocol: str = "cooperative-sticky") -> RawGroup:
    blobs = [ConsumerProtocolSubscription(version=3, topics=("orders",), rack_id=rack).encode() for rack in racks]
    return RawGroup("g", 1, protocol, tuple(RawMember(f"m{i}", None, b) for i, b in enumerate(blobs)), frozenset())


def settled(raw: RawGroup) -> Memory:
    return rebalances(raw, CLUSTER, Memory.empty(), POLICY, 0)[-1].plan.memory
