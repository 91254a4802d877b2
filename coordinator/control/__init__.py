"""The control topic: orders of operators, and which of several instances is active."""

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
from bellwether_kafka.coordinator.control.topic import ControlTopicError, ensure_topic, read_all, write_now

__all__ = [
    "EVERYBODY",
    "Beat",
    "ControlReport",
    "ControlSettings",
    "ControlTopicError",
    "Controller",
    "OnControl",
    "Order",
    "OrderKind",
    "OrderState",
    "PlacementKind",
    "PlacementOrder",
    "Record",
    "encode",
    "ensure_topic",
    "order_key",
    "read_all",
    "write_now",
]
