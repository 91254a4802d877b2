"""What telemetry has published."""

from collections.abc import Mapping
from typing import Any

from bellwether_kafka.coordinator.events import SchemaSet


class Kept:
    """A publisher that keeps what it is offered."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    def offer(self, event: str, record: Mapping[str, Any]) -> None:
        schemas = SchemaSet.load()
        self.events.append(schemas.decode(schemas.encode(event, record)))
