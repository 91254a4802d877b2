"""Facts that assignors derive from a view: claims, subscribers, connected components, racks."""

from bellwether_kafka.assignors.consumer.derived.claims import (
    claimants,
    compare,
    current_owner,
    former_owners,
    subscriptions,
    wanted,
)
from bellwether_kafka.assignors.consumer.derived.components import Component, components
from bellwether_kafka.assignors.consumer.derived.racks import mismatched, rack_matters, remote_racks
from bellwether_kafka.assignors.consumer.derived.subscribers import NO_CLASS, member_order, topic_classes
