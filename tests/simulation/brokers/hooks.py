"""What the model of a group leaves to others, and how a broker is set."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.kit.membership import HashOrder
from tests.simulation.brokers.member_entries import Record


@dataclass
class Hooks:
    """What the model calls outside of itself: to persist groups, to make ids, and to report events."""

    persist: Callable[[Record], None]
    new_id: Callable[[str], str]
    changed: Callable[[], None]
    planned: Callable[[str, tuple[tuple[str, bytes], ...]], None]
    log: Callable[[str], None]
    initial_delay_s: float = 3.0
    order: HashOrder = HashOrder.JAVA
    size_max: int | None = None  # group.max.size
