"""Prometheus metrics of what members read across racks: bytes per second and money per hour by rack pair.

They are there once [weights] and [cost] are set. Weights change between rounds, so a timer works them out again.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import structlog
from prometheus_client import Gauge

from assignors.decide import Decision
from assignors.streams.result import StreamsDecision
from assignors.traffic import Pair, Traffic, cost_per_hour, traffic_of
from assignors.weights import Weights
from coordinator.commands import Note, NoteKind
from coordinator.fetching import follower_fetching
from coordinator.metrics import OTHER, Metrics
from coordinator.metrics_streams import Changing
from coordinator.observe import Observation
from coordinator.planner import Planned
from coordinator.planner_streams import PlannedTasks
from coordinator.settings_pipeline import CostSettings

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

INTERVAL_S = 30.0
LIMIT_S = 10.0
ASKED_AGAIN = 20  # looks between two questions to brokers about follower fetching
PAIRS_MAX = 100  # of one group with series of their own; the others are summed up

log = structlog.get_logger(__name__)


class CostMetrics:
    """All groups of a process; give its `on_*` methods and `beside` to the service as observers."""

    def __init__(self, common: Metrics, cost: CostSettings, weights: Callable[[], Weights]) -> None:
        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"bellwether_{name}", text, ["group", *labels], registry=common.registry)

        pair = "from_rack", "to_rack"
        self._bytes = Changing(gauge("cross_rack_bytes_per_second", "Read by members in another rack.", *pair))
        text = "What that costs, in the configured currency."
        self._money = Changing(gauge("cross_rack_cost_per_hour", text, *pair, "currency"))
        self.weighed = gauge("weighed_partitions", "Partitions with an owner and a weight; others cost nothing here.")
        self._cost, self._weights = cost, weights
        self._near = bool(cost.follower_fetching)
        self._last: dict[str, tuple[Decision | StreamsDecision, bool]] = {}

    def on_decision(self, planned: Planned) -> None:
        self._take(planned.chosen.decision, present=False)

    def on_streams_decision(self, planned: PlannedTasks) -> None:
        self._take(planned.chosen.decision, present=False)

    def on_observation(self, seen: Observation) -> None:
        if seen.shadow is not None:
            self._take(seen.shadow.decision, present=True)

    def on_note(self, group: str, note: Note) -> None:
        if note.kind is NoteKind.LEFT:
            self._last.pop(group, None)
            self._show(group, {})

    async def beside(self, _offsets: object, _transport: object, admin: "AdminClient") -> None:
        """Until cancelled; errors of ours are log lines and not the end."""
        looks = 0
        while True:
            try:
                if self._cost.follower_fetching is None and looks % ASKED_AGAIN == 0:
                    self._near = bool(await asyncio.to_thread(follower_fetching, admin, LIMIT_S))
                await self.look()
            except Exception:
                log.exception("cost_not_worked_out")
            looks += 1
            await asyncio.sleep(INTERVAL_S)

    async def look(self) -> None:
        """Every group by the weights of this moment."""
        weights = self._weights()
        for group, (decision, present) in list(self._last.items()):
            self._record(group, await asyncio.to_thread(self._traffic, decision, weights, present))

    def _take(self, decision: Decision | StreamsDecision, *, present: bool) -> None:
        group = decision.raw.group_id
        self._last[group] = decision, present
        self._record(group, self._traffic(decision, self._weights(), present))

    def _traffic(self, decision: Decision | StreamsDecision, weights: Weights, present: bool) -> Traffic:
        return traffic_of(decision, weights, follower_fetching=self._near, present=present)

    def _record(self, group: str, found: Traffic) -> None:
        self.weighed.labels(group).set(found.weighed)
        self._show(group, _bounded(found.between))

    def _show(self, group: str, between: Mapping[Pair, float]) -> None:
        price, currency = self._cost.price_per_gb, self._cost.currency
        self._bytes.show(group, {(*pair,): value for pair, value in between.items()})
        self._money.show(group, {(*pair, currency): cost_per_hour(value, price) for pair, value in between.items()})


def _bounded(between: Mapping[Pair, float]) -> dict[Pair, float]:
    """The pairs with the most traffic; the rest as one."""
    ordered = sorted(between.items(), key=lambda item: (-item[1], item[0]))
    kept = dict(ordered[:PAIRS_MAX])
    rest = sum(value for _, value in ordered[PAIRS_MAX:])
    return kept | ({(OTHER, OTHER): rest} if rest else {})
