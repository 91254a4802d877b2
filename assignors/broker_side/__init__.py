"""The assignors of brokers, to compare their plans for the same group: KIP-848's `uniform` and `range`, KIP-1071's
`sticky`.

No leader can use them, because a broker that assigns also waits until each member has given up what it loses, which a
classic group does not do. None of them considers racks or load. `uniform` and `range` are the same in Kafka 4.3.0 and
4.4.0, `sticky` is not. Plain values in, plain values out. Ties break in the order of the members as given; a broker's
own order is that of a hash table over ids that it generated, which is unknown here.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from bellwether_kafka.assignors.broker_side.partitions import (
    Owners,
    Subscriber,
    assign_general,
    assign_range,
    assign_uniform,
)
from bellwether_kafka.assignors.broker_side.releases import NEWEST, OLDEST, modelled
from bellwether_kafka.assignors.broker_side.sticky_tasks import BrokerTask, Copies, StreamsMember, assign_sticky

UNIFORM, RANGE, STICKY = "broker-uniform", "broker-range", "broker-sticky"
OF_PARTITIONS: Mapping[str, Callable[[Sequence[Subscriber], Sequence[int]], Owners]] = MappingProxyType(
    {UNIFORM: assign_uniform, RANGE: assign_range}
)
