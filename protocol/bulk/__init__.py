"""The same messages as numpy columns over all members of a group, for a leader of 2,000 members."""

from bellwether_kafka.protocol.bulk.consumer import (
    AssignmentColumns,
    ClaimColumns,
    SubscriptionColumns,
    owner_of,
    read_assignments,
    read_claims,
    read_subscriptions,
    write_assignments,
)
from bellwether_kafka.protocol.bulk.streams import InfoColumns, read_infos
