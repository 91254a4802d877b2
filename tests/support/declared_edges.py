"""The edges that the membership's two machines declare, one by one."""

from collections.abc import Iterator
from typing import Any

from bellwether_kafka.coordinator.membership import Edge, Timer, Transitions


def edges(transitions: Transitions[Any]) -> Iterator[Edge[Any]]:
    for state, by_trigger in transitions.items():
        for on, by_next in by_trigger.items():
            yield from (Edge(state, on, to) for to in by_next)


def trigger_name(on: Timer | type) -> str:
    return f"timer {on.name}" if isinstance(on, Timer) else on.__name__
