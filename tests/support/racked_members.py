"""Members whose racks are configured by client or host."""

import time

from bellwether_kafka.assignors.shared import ClusterView
from bellwether_kafka.coordinator.membership import Decide, DescribedMember, JoinedMember
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription
from tests.support.racks import rack_rules
from tests.unit.coordinator.planning.consumer_scenes import OTHER_UUID, OWN, UUID

# Every partition has a replica in both racks; the leaders of the first two are in az2.
CLUSTER = ClusterView.of({"t": [["az2", "az1"]] * 2 + [["az1", "az2"]] * 2})


V0 = ConsumerProtocolSubscription(0, ("t",)).encode()


IN_AZ1, IN_AZ2 = f"orders-1-{UUID}", f"orders-2-{OTHER_UUID}"


MEMBERS = (JoinedMember(OWN, None, V0), JoinedMember(IN_AZ1, None, V0), JoinedMember(IN_AZ2, None, V0))


BY_HOST = rack_rules(hosts={"10.1.0.0/16": "az1", "10.2.0.0/16": "az2"})


BY_CLIENT = rack_rules(client_ids={"orders-1": "az1", "orders-2": "az2"})


SHOWN = (
    DescribedMember(IN_AZ1, None, client_id="orders-1", client_host="/10.1.0.1"),
    DescribedMember(IN_AZ2, None, client_id="orders-2", client_host="/10.2.0.1"),
)


def decide(generation: int, *, dry: bool = False) -> Decide:
    return Decide(generation, "range", MEMBERS, OWN, time.monotonic() + 5, dry=dry)
