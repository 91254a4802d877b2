"""The control topic: orders of operators, and which of several instances is active."""

from bellwether_kafka.coordinator.control.checks import heard, objection, policy_of
from bellwether_kafka.coordinator.control.controller import Controller, ControlReport, OnControl
from bellwether_kafka.coordinator.control.records import (
    EVERYBODY,
    Beat,
    ControlSettings,
    Order,
    OrderKind,
    OrderState,
    PlacementKind,
    PlacementOrder,
    Record,
    encode,
    order_key,
)
from bellwether_kafka.coordinator.control.topic import (
    ControlTopic,
    ControlTopicError,
    read_all,
    write_now,
)
