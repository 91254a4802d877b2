"""What is assessed: prices, and groups that read across racks."""

import numpy as np

from bellwether_kafka.assignors.consumer import Policy
from bellwether_kafka.assignors.shared import ClusterView, Memory, Weights
from bellwether_kafka.coordinator.assessment import (
    Assessment,
    ConversionFacts,
    GhostRefreshes,
    Prices,
    assess_refreshes,
)
from bellwether_kafka.coordinator.observation import Observation, ObservedMember, Shadow
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.support import decisions
from tests.unit.assignors.consumer.wire import LiveMember, live_group

CLUSTER = ClusterView.of({"t": [["az1"], ["az1"], ["az2"], ["az2"]]})
MEGABYTE = Weights({TopicPartition("t", p): 1e6 for p in range(4)})
SEEN = (("a", ("t",), "az1"), ("b", ("t",), "az2"))
PRICES = Prices(MEGABYTE, per_gb=0.02, currency="EUR", near=False)


def crossed(group: str = "g") -> Observation:
    """Two members, each of which reads the partitions of the other's rack."""
    members = [LiveMember(*fields) for fields in SEEN]
    now = decisions.decided(live_group(members, 2, "range"), CLUSTER, Memory.empty(), Policy(), 0)
    owner = np.array([1, 1, 0, 0], dtype=np.int32)
    seen = tuple(ObservedMember(name, None, name, "/h", rack, topics) for name, topics, rack in SEEN)
    return Observation(group, "classic", "Stable", "range", 0, seen, shadow=Shadow.of(now, owner))


def reported(seen: Observation, prices: Prices) -> Assessment:
    return assess_refreshes([seen], prices, GhostRefreshes(seen.group_id))


READY = ConversionFacts(
    seen=crossed(),
    obstacles=(),
    led=True,
    broker_version=(4, 3),
    features={"group.version": 1, "streams.version": 1},
    migration={1: "BIDIRECTIONAL", 2: "bidirectional"},
)
