"""Shows whether groups could be converted to KIP-848: a log line at each change, and the last answer for metrics."""

from collections.abc import Callable

import structlog

from bellwether_kafka.coordinator.ghosts.coexistence import Conversion, conversion
from bellwether_kafka.coordinator.membership import DescribeAnswer

log = structlog.get_logger(__name__)


class ConversionWatch:
    """All groups; an observer of what DescribeGroups says."""

    def __init__(self, on_change: Callable[[str, Conversion], None]) -> None:
        self._on_change = on_change
        self._last: dict[str, Conversion] = {}

    def on_seen(self, group_id: str, seen: DescribeAnswer) -> None:
        found = conversion(seen)
        if found is None or found == self._last.get(group_id):
            return
        self._last[group_id] = found
        log.info("online_conversion", group=group_id, ready=found.ready, obstacles=list(found.obstacles))
        self._on_change(group_id, found)
