"""The Streams policies by configured name, and the fallback if a policy cannot be used."""

from bellwether_kafka.assignors.streams.policies.assign import (
    LOAD_AWARE,
    STREAMS_HA,
    STREAMS_POLICIES,
    assign_fallback_prior,
    assign_streams,
)
from bellwether_kafka.assignors.streams.policies.broker_side import BROKER_STICKY, assign_broker_sticky
