"""Converts a plan to the bytes that every member gets, and to the memory of it."""

from bellwether_kafka.assignors.streams.sending.encode import (
    HostMaps,
    Outgoing,
    deadlines,
    encode_assignments,
    first_deadline,
    host_maps,
    own_assignment,
    shutdown_assignment,
)
from bellwether_kafka.assignors.streams.sending.remember import remember
from bellwether_kafka.assignors.streams.sending.validate import (
    validate_bytes,
    validate_own,
    validate_plan,
    validate_threads,
)
