"""Prometheus metrics of the control topic: orders that stand, sidecars that live, and whether we hear ourselves."""

from prometheus_client import CollectorRegistry, Gauge

from bellwether_kafka.coordinator.control import ControlReport


class ControlMetrics:
    """Observes what the controller reports each second."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.orders = Gauge("bellwether_orders", "Operators' orders that stand.", ["group", "kind"], registry=registry)
        self.sidecars = Gauge("bellwether_sidecars", "Sidecars heard lately, this one included.", registry=registry)
        text = "Since our own beat last came back through the control topic."
        self.silence = Gauge("bellwether_control_topic_silence_seconds", text, registry=registry)

    def on_control(self, found: ControlReport) -> None:
        self.orders.clear()
        for order in found.orders:
            self.orders.labels(order.target, order.kind.value).inc()
        self.sidecars.set(found.living + 1)
        self.silence.set(found.silence_s)
