"""How commands order something: the control topic as they use it, and the options that they share."""

from bellwether_kafka.coordinator.cli.ordering.options import (
    DryRun,
    For,
    Force,
    ItemName,
    Reason,
    Remove,
    Terms,
    Wait,
    Where,
    with_terms,
    with_topic,
)
from bellwether_kafka.coordinator.cli.ordering.topic import AnyOrder, OrdersTopic, document, now_ms
