"""Prometheus metrics of reads across racks, by pair of racks: partitions; bytes per second if [weights] is set; cost
per hour if [cost] also has a price. A timer recomputes them, because weights change between rebalances."""

import asyncio
from collections.abc import Callable, Collection, Mapping

import structlog
from confluent_kafka.admin import AdminClient

from bellwether_kafka.assignors.explain import Pair, Traffic, cost_per_hour, traffic_of
from bellwether_kafka.assignors.shared import Decision, GroupPlan, Weights
from bellwether_kafka.coordinator import clocks
from bellwether_kafka.coordinator.kafka.client import follower_fetching
from bellwether_kafka.coordinator.membership import Note, NoteKind
from bellwether_kafka.coordinator.observation import Observation
from bellwether_kafka.coordinator.planning import Planned
from bellwether_kafka.coordinator.settings import CostSettings
from bellwether_kafka.coordinator.telemetry.metrics import OTHER, Metrics
from bellwether_kafka.coordinator.telemetry.metrics_streams import Changing

INTERVAL_S = 30.0
LIMIT_S = 10.0
ASK_AGAIN_S = 600.0  # between two requests to brokers whether they allow follower fetching
PAIRS_MAX = 100  # with series of their own in one group; the others are added up

log = structlog.get_logger(__name__)


class CostMetrics:
    """The metrics of all groups of a process. Register its `on_*` methods and `beside` with the service."""

    def __init__(self, common: Metrics, cost: CostSettings | None, weights: Callable[[], Weights] | None) -> None:
        gauge, pair = common.gauge, ("from_rack", "to_rack")
        text = "Partitions read in another rack: from leaders, unless consumers may fetch from followers."
        self._partitions = Changing(gauge("cross_rack_read_partitions", text, *pair))
        text = "Read by members in another rack; only with weights."
        self._bytes = Changing(gauge("cross_rack_bytes_per_second", text, *pair))
        text = "Cost of these reads, in the configured currency; only with weights and a price."
        self._money = Changing(gauge("cross_rack_cost_per_hour", text, *pair, "currency"))
        self.weighed = gauge(
            "weighed_partitions", "Partitions with an owner and a weight; the cost leaves out all others."
        )
        self._cost, self._weights = cost or CostSettings(), weights
        self._near = bool(self._cost.follower_fetching)
        self._last: dict[str, tuple[Decision[GroupPlan], bool]] = {}
        self._new: set[str] = set()
        self._news = asyncio.Event()

    def on_decision(self, planned: Planned[GroupPlan]) -> None:
        self._take(planned.decision, present=False)

    def on_observation(self, seen: Observation) -> None:
        """Takes a shadow plan, unless its decision is the same object as before and hence has the same cost."""
        last = self._last.get(seen.group_id)
        if seen.shadow is not None and (last is None or last[0] is not seen.shadow.decision):
            self._take(seen.shadow.decision, present=True)

    on_led_seen = on_observation

    def on_note(self, group: str, note: Note) -> None:
        if note.kind is NoteKind.LEFT:
            self.on_gone(group)

    def on_gone(self, group: str) -> None:
        """Removes the series of a group that is no longer observed."""
        self._last.pop(group, None)
        self._show(group, {}, {})

    async def beside(self, _offsets: object, _transport: object, admin: AdminClient) -> None:
        """Updates the metrics until cancelled. Unexpected errors are logged and do not end it."""
        asked_at, near = float("-inf"), None
        while True:
            try:
                if self._cost.follower_fetching is None and clocks.monotonic() - asked_at > ASK_AGAIN_S:
                    asked_at = clocks.monotonic()
                    message = await asyncio.to_thread(follower_fetching, admin, LIMIT_S)
                    # if no broker answers, the last known value remains valid
                    self._near = self._near if message is None else message
                due = await self._due()
                if self._near != near:
                    due, near = (), self._near
                elif not due and self._weights is None:
                    continue  # without weights and without a new decision no cost has changed
                await self.refresh(due)
            except Exception:
                log.exception("cost_not_worked_out")
                await asyncio.sleep(INTERVAL_S)
                self._new.update(self._last)  # their news has been taken, and without weights there may be no other
                self._news.set()

    async def refresh(self, groups: Collection[str] = ()) -> None:
        """Computes the metrics of these groups, or of all if there are none, with the present weights."""
        weights = self._weights() if self._weights is not None else Weights()
        for group in groups or list(self._last):
            last = self._last.get(group)
            traffic = await asyncio.to_thread(self._traffic, *last, weights) if last is not None else None
            if traffic is not None and group in self._last:  # the group may have gone meanwhile
                self._record(group, traffic)

    async def _due(self) -> Collection[str]:
        """Waits for groups with a new decision and returns them. After INTERVAL_S without any it returns (), which
        means all groups, because weights change."""
        try:
            async with asyncio.timeout(INTERVAL_S):
                await self._news.wait()
        except TimeoutError:
            return ()
        self._news.clear()
        due, self._new = self._new, set()
        return due

    def _take(self, decision: Decision[GroupPlan], *, present: bool) -> None:
        """Queues a decision for `beside`, so that a rebalance does not wait for the computation."""
        group = decision.raw.group_id
        self._last[group] = decision, present
        self._new.add(group)
        self._news.set()

    def _traffic(self, decision: Decision[GroupPlan], present: bool, weights: Weights) -> Traffic:
        return traffic_of(decision, weights, follower_fetching=self._near, present=present)

    def _record(self, group: str, traffic: Traffic) -> None:
        if self._weights is not None:
            self.weighed.labels(group).set(traffic.weighed)
        self._show(group, traffic.partitions, traffic.between)

    def _show(self, group: str, partitions: Mapping[Pair, float], between: Mapping[Pair, float]) -> None:
        price, currency, rates = self._cost.price_per_gb, self._cost.currency, _bounded(between)
        self._partitions.show(group, {(*pair,): value for pair, value in _bounded(partitions).items()})
        self._bytes.show(group, {(*pair,): value for pair, value in rates.items()})
        if price is not None:
            self._money.show(group, {(*pair, currency): cost_per_hour(value, price) for pair, value in rates.items()})


def _bounded(between: Mapping[Pair, float]) -> dict[Pair, float]:
    """Returns the PAIRS_MAX pairs with the most traffic, and the sum of the others as one pair."""
    ordered = sorted(between.items(), key=lambda item: (-item[1], item[0]))
    kept = dict(ordered[:PAIRS_MAX])
    rest = sum(value for _, value in ordered[PAIRS_MAX:])
    return kept | ({(OTHER, OTHER): rest} if rest else {})
