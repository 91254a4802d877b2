"""Creates the event publisher and the sampler from the settings; neither if events are off."""

from collections.abc import Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge

from bellwether_kafka.coordinator.observation import OnObservation, OnRebalance
from bellwether_kafka.coordinator.runtime.group_runner import NoteObserver
from bellwether_kafka.coordinator.runtime.observed_groups import OnGone
from bellwether_kafka.coordinator.runtime.service import Beside, DecisionObserver
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
    on_decision: Sequence[DecisionObserver] = ()
    on_note: Sequence[NoteObserver] = ()
    beside: Sequence[Beside] = ()
    on_observation: Sequence[OnObservation] = ()
    on_rebalance: Sequence[OnRebalance] = ()
    on_gone: Sequence[OnGone] = ()

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
        return cls(
            publisher,
            on_decision=(publisher.on_decision, sampler.on_decision),
            on_note=(sampler.on_note,),
            beside=(sampler.run,),
            on_observation=(samples.on_observation, rebalances.on_observation),
            on_rebalance=(rebalances.on_rebalance,),
            on_gone=(samples.on_gone, rebalances.on_gone),
        )

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
