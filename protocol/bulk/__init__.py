"""The same messages as numpy columns over all members of a group, for a leader of 2,000 members."""

from bellwether_kafka.protocol.bulk.consumer_assignments import (
    AssignmentColumns,
    owner_of,
    read_assignments,
    write_assignments,
)
from bellwether_kafka.protocol.bulk.consumer_subscriptions import (
    ClaimColumns,
    SubscriptionColumns,
    read_claims,
    read_subscriptions,
)
from bellwether_kafka.protocol.bulk.streams_assignments import AssignedColumns, read_assigned
from bellwether_kafka.protocol.bulk.streams_subscriptions import InfoColumns, read_infos
