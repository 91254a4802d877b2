"""Prometheus metrics of groups that are only observed: the present assignment, the shadow plan, and whether Bellwether
could lead."""

from prometheus_client import Gauge

from bellwether_kafka.assignors.shared import Cost
from bellwether_kafka.coordinator.observation import Observation
from bellwether_kafka.coordinator.telemetry.metrics import Metrics

PLANS = ("current", "shadow")
UNKNOWN = float("nan")


class ObservedMetrics:
    """Records observations. Register its `on_*` methods with the runtime."""

    def __init__(self, common: Metrics) -> None:
        self._common = common

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return common.gauge(f"observed_{name}", text, *labels)

        self.can_be_led = gauge("can_be_led", "1 if a client could lead the group, 0 if its broker assigns.")
        self.unknown = common.unknown
        self.seen_at = gauge("timestamp_seconds", "When the group was last described.")
        self.unowned = gauge("unowned", "Partitions or tasks without an owner.", "plan")
        self.cross_rack = gauge("cross_rack_partitions", "Partitions without a replica in their owner's rack.", "plan")
        self.moved = gauge("shadow_moves", "Partitions or tasks that Bellwether's plan would move.")

    def on_unknown(self, seen: Observation) -> None:
        """Sets `unknown` and keeps the last known values, whose time is `timestamp_seconds`."""
        self._common.expect(seen.group_id, lead=False, ghosts=False)  # needed for groups found by `match`
        self.unknown.labels(seen.group_id).set(1)

    def on_observation(self, seen: Observation) -> None:
        group = seen.group_id
        self._common.expect(group, lead=False, ghosts=False)
        self._common.on_anomalies(group, seen.anomalies, seen.unjudged)
        self.unknown.labels(group).set(0)
        self._common.members.labels(group).set(len(seen.members))
        self.can_be_led.labels(group).set(seen.can_be_led)
        self.seen_at.labels(group).set(seen.seen_at_ms / 1000)
        shadow = seen.shadow
        self.moved.labels(group).set(UNKNOWN if shadow is None else shadow.moves.moved)
        self._common.spread.labels(group).set(UNKNOWN if shadow is None else shadow.current.spread)
        costs: tuple[Cost | None, Cost | None] = (None, None) if shadow is None else (shadow.current, shadow.planned)
        for plan, cost in zip(PLANS, costs, strict=True):
            self.unowned.labels(group, plan).set(UNKNOWN if cost is None else cost.unowned)
        crossing = (None, None) if shadow is None else (shadow.cross_rack, shadow.cross_rack_planned)
        for plan, count in zip(PLANS, crossing, strict=True):
            self.cross_rack.labels(group, plan).set(UNKNOWN if count is None else count)
