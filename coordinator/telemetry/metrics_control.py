"""Prometheus metrics of the control topic: orders in force, instances that live, and whether the heartbeats of this
process come back."""

from prometheus_client import CollectorRegistry, Gauge

from bellwether_kafka.coordinator.control import ControlReport


class ControlMetrics:
    """Observes what the controller reports each second."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.orders = Gauge("bellwether_orders", "Operators' orders in force.", ["group", "kind"], registry=registry)
        self.instances = Gauge(
            "bellwether_instances",
            "Instances of Bellwether whose heartbeats arrived lately, this one included.",
            registry=registry,
        )
        text = "Since this process's own heartbeat last came back through the control topic."
        self.silence = Gauge("bellwether_control_topic_silence_seconds", text, registry=registry)

    def on_control(self, found: ControlReport) -> None:
        self.orders.clear()
        for order in found.orders:
            self.orders.labels(order.target, order.kind.value).inc()
        self.instances.set(found.living + 1)
        self.silence.set(found.silence_s)
