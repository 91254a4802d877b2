"""What a broker's own assignors would do with the same group: KIP-848's `uniform` and `range`, KIP-1071's `sticky`.

For comparison only: nobody can lead a group by them, because the broker that assigns also waits for each member to give
up what it loses, which a classic group does not. They are as in Kafka 4.3.0, and none of them looks at racks or load.
Plain values in, plain values out. Ties break in the order of the members as given; a broker's own order is that of a
hash table over ids that it made up, which nobody can know.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from bellwether_kafka.assignors.broker_side.general import assign_general
from bellwether_kafka.assignors.broker_side.group import Owners, Subscriber
from bellwether_kafka.assignors.broker_side.range import assign_range
from bellwether_kafka.assignors.broker_side.sticky import BrokerTask, Copies, StreamsMember, assign_sticky
from bellwether_kafka.assignors.broker_side.uniform import assign_uniform

UNIFORM, RANGE, STICKY = "broker-uniform", "broker-range", "broker-sticky"
OF_PARTITIONS: Mapping[str, Callable[[Sequence[Subscriber], Sequence[int]], Owners]] = MappingProxyType(
    {UNIFORM: assign_uniform, RANGE: assign_range}
)
