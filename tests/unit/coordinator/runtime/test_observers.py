"""An object observes what it has methods for, and these take what they are given."""

from collections.abc import Callable
from dataclasses import fields
from inspect import signature
from typing import Any, get_args, get_type_hints

import pytest
from typing_extensions import get_protocol_members, is_protocol

from bellwether_kafka.coordinator.ghosts import ConversionWatch
from bellwether_kafka.coordinator.observation import LagTrends, Rhythms
from bellwether_kafka.coordinator.runtime import Observers
from bellwether_kafka.coordinator.runtime.plans_for_brokers import PlansForBrokers
from bellwether_kafka.coordinator.telemetry import (
    ControlMetrics,
    CostMetrics,
    EventPublisher,
    LagExporterMetrics,
    LagMetrics,
    Metrics,
    ObservedMetrics,
    ObservedRebalances,
    ObservedSamples,
    PauseMetrics,
    Sampler,
    StreamsMetrics,
)
from bellwether_kafka.coordinator.web import LagWatch, LedRebalances

OBSERVING: dict[type, set[str]] = {
    ControlMetrics: {"on_control"},
    ConversionWatch: {"on_seen", "on_gone"},
    CostMetrics: {"on_decision", "on_note", "on_observation", "on_led_seen", "on_gone", "beside"},
    EventPublisher: {"on_decision"},
    LagExporterMetrics: {"on_observation", "on_led_seen", "on_gone"},
    LagMetrics: {"on_observation", "on_led_seen", "on_gone"},
    LagTrends: {"on_observation", "on_led_seen", "on_gone"},
    LagWatch: {"on_decision", "on_note", "beside"},
    LedRebalances: {"on_decision"},
    Metrics: {"on_decision", "on_note", "on_role", "on_ghost", "on_led_seen", "on_gone"},
    ObservedMetrics: {"on_observation", "on_unknown"},
    ObservedRebalances: {"on_observation", "on_rebalance", "on_gone"},
    ObservedSamples: {"on_observation", "on_gone"},
    PauseMetrics: {"on_decision", "on_note", "on_rebalance", "on_gone"},
    PlansForBrokers: {"on_observation", "on_gone", "beside"},
    Rhythms: {"beside"},
    Sampler: {"on_decision", "on_note", "beside"},
    StreamsMetrics: {"on_streams_decision"},
}
EVENTS = [field.name for field in fields(Observers)]


@pytest.mark.parametrize("observer", OBSERVING, ids=lambda observer: observer.__name__)
def test_a_class_observes_these_events_and_takes_what_they_bring(observer: type) -> None:
    methods: dict[str, Callable[..., Any]] = {
        event: getattr(observer, event) for event in EVENTS if hasattr(observer, event)
    }
    assert methods.keys() == OBSERVING[observer]
    for event, method in methods.items():
        ((given, _),) = [get_args(hint) for hint in get_args(get_type_hints(Observers)[event])]
        taken = list(signature(method).parameters.values())[1:]
        assert len(taken) == len(given) or taken[-1].kind is taken[-1].VAR_POSITIONAL, (event, taken)
        hints = get_type_hints(method)
        for parameter, value in zip(taken, given, strict=False):
            hint = hints[parameter.name]
            assert hint in (value, object) or _has_methods_of(value, hint), (event, parameter)


def _has_methods_of(given: type, protocol: type) -> bool:
    return is_protocol(protocol) and get_protocol_members(protocol) <= set(dir(given))


def test_functions_are_called_in_the_order_of_the_objects() -> None:
    rebalances, trends = LedRebalances(), LagTrends()
    logged = Observers(on_decision=(print,), on_gone=(print,))
    observers = Observers.of(trends, logged, rebalances)
    assert observers.on_decision == (print, rebalances.on_decision)
    assert observers.on_gone == (trends.on_gone, print)
    assert observers.on_control == ()
