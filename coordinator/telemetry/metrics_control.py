"""Prometheus metrics of the control topic: orders in force, live instances, and the silence since this process's last
own heartbeat was read back."""

from prometheus_client import CollectorRegistry, Gauge

from bellwether_kafka.coordinator.control import ControlReport


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
