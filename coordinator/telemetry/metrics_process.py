"""Prometheus metrics of the control topic (orders in force, live instances, the silence since this process's last own
heartbeat was read back) and of the plans that brokers have requested."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from bellwether_kafka.coordinator.control import ControlReport
from bellwether_kafka.coordinator.serving import Served
from bellwether_kafka.coordinator.telemetry.metrics import DECISION_BUCKETS


class ControlMetrics:
    """Records the reports that the controller makes each second."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.orders = Gauge("bellwether_orders", "Operators' orders in force.", ["group", "kind"], registry=registry)
        self.instances = Gauge(
            "bellwether_instances",
            "Instances of Bellwether whose heartbeats arrived lately, this one included.",
            registry=registry,
        )
        text = "Since this process's own heartbeat last came back through the control topic."
        self.silence = Gauge("bellwether_control_topic_silence_seconds", text, registry=registry)

    def on_control(self, report: ControlReport) -> None:
        self.orders.clear()
        for order in report.orders:
            self.orders.labels(order.target, order.kind.value).inc()
        self.instances.set(report.living + 1)
        self.silence.set(report.silence_s)


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
