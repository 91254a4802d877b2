"""Bellwether's Avro events: schemas, encoding, registration in a schema registry, and the entries of a plan. Does not
need Spark."""

from bellwether_kafka.coordinator.events.avro import (
    CONFLUENT_BYTES,
    CONFLUENT_MARKER,
    HEADER_BYTES,
    MARKER,
    EventError,
    EventSchema,
    SchemaSet,
    confluent,
    single_object,
)
from bellwether_kafka.coordinator.events.entries import (
    ACTIVE,
    ERROR_HEADER,
    OBSERVED,
    PLANNED,
    STANDBY,
    UNKNOWN,
    WARMUP,
    Places,
    active_entries,
    assignment_entries,
    copy_entry,
)
from bellwether_kafka.coordinator.events.schema_registry import RegistryError, register, registered
