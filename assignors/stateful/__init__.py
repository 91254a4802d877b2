"""Translates groups of stateful consumers other than Streams to Streams groups and back."""

from bellwether_kafka.assignors.stateful.translate import (
    CAPACITY_TAG,
    DecodedMember,
    as_streams,
    end_offsets,
    from_streams,
    inspect_stateful,
    read_member,
    stateful_topology,
    topology_of,
)
