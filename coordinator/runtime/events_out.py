"""Creates the event publisher and the sampler from the settings; neither if events are off."""

from collections.abc import Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge

from bellwether_kafka.coordinator.settings import Settings
from bellwether_kafka.coordinator.telemetry import (
    EventPublisher,
    ObservedRebalances,
    ObservedSamples,
    Sampler,
    WeightReader,
)


def events_counter(registry: CollectorRegistry) -> Counter:
    """Returns the counter of events that were sent, dropped or failed."""
    return Counter("bellwether_events", "Events by what became of them.", ["event", "outcome"], registry=registry)


def events_waiting(registry: CollectorRegistry) -> Gauge:
    """Returns the gauge of plans and samples that the publisher's thread has not taken yet. Those that do not fit are
    dropped."""
    return Gauge("bellwether_event_queue", "Plans and samples that wait to be published.", registry=registry)


@dataclass(frozen=True, slots=True)
class EventsOut:
    """The observers for the runtime, and the publisher to close at the end."""

    publisher: EventPublisher | None = None
    observers: Sequence[object] = ()

    @classmethod
    def of(cls, settings: Settings, registry: CollectorRegistry) -> "EventsOut":
        """Creates the observers. Starts the publisher if a topic is configured."""
        events = settings.events
        if events is None:
            return cls()
        counter = events_counter(registry)
        publisher = EventPublisher(settings.properties, events, lambda *labels: counter.labels(*labels).inc())
        events_waiting(registry).set_function(lambda: publisher.waiting)
        sampler = Sampler(publisher, interval_ms=events.sample_interval_ms)
        publisher.start()
        samples = ObservedSamples(publisher, events.sample_interval_ms)
        rebalances = ObservedRebalances(publisher.offer_later)
        return cls(publisher, (publisher, sampler, samples, rebalances))

    def close(self) -> None:
        if self.publisher is not None:
            self.publisher.close()


def weight_reader(settings: Settings) -> WeightReader | None:
    """Returns a started reader of weights; None if no topic is configured."""
    if settings.weights is None:
        return None
    reader = WeightReader(settings.properties, settings.weights)
    reader.start()
    return reader
