"""Plans of a plain group, one after another."""

from bellwether_kafka.assignors.consumer import PartitionPlan, Policy
from bellwether_kafka.assignors.shared import ClusterView, Decision, Memory, RawGroup, RawMember
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.support import decisions

Members = dict[str, tuple[str, ...]]


def decided(
    members: Members,
    topics: dict[str, int],
    *,
    protocol: str = "range",
    owned: dict[str, tuple[TopicPartition, ...]] | None = None,
    statics: bool = False,
    suffix: str = "",
) -> Decision[PartitionPlan]:
    raw = RawGroup(
        group_id="g",
        generation=5,
        protocol=protocol,
        members=tuple(
            RawMember(
                name + suffix,
                name if statics else None,
                ConsumerProtocolSubscription(
                    version=3, topics=subscribed, owned_partitions=(owned or {}).get(name, ()), generation_id=4
                ).encode(),
            )
            for name, subscribed in members.items()
        ),
    )
    cluster = ClusterView.of({topic: [["az1"]] * count for topic, count in topics.items()})
    return decisions.decided(raw, cluster, Memory.empty(), Policy(), now_ms=0)
