"""Prometheus metrics of the plans that brokers have requested."""

from prometheus_client import CollectorRegistry, Counter, Histogram

from bellwether_kafka.coordinator.serving import Served
from bellwether_kafka.coordinator.telemetry.metrics import DECISION_BUCKETS

PLANNED, REFUSED, LATE = "plan", "refused", "late"


class ServedMetrics:
    """Counts the requests by outcome and records how long plans took."""

    def __init__(self, registry: CollectorRegistry) -> None:
        text = "Requests of brokers' assignors, by outcome: plan, refused, or late."
        self.requests = Counter("bellwether_served_requests", text, ["outcome"], registry=registry)
        text = "From the request of a broker's assignor to the plan."
        self.seconds = Histogram("bellwether_served_seconds", text, buckets=DECISION_BUCKETS, registry=registry)
        for outcome in (PLANNED, REFUSED, LATE):
            self.requests.labels(outcome)

    def on_served(self, served: Served) -> None:
        outcome = REFUSED if served.planned is None else LATE if served.late else PLANNED
        self.requests.labels(outcome).inc()
        if served.planned is not None:
            self.seconds.observe(served.took_s)
