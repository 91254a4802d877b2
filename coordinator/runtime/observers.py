"""The observers of a process, which hand what happens to its groups to metrics, logs, events and the page."""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, fields
from typing import Any

from confluent_kafka.admin import AdminClient

from bellwether_kafka.assignors.consumer import PartitionPlan
from bellwether_kafka.assignors.shared import GroupPlan
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.coordinator import membership, planning
from bellwether_kafka.coordinator.control import OnControl
from bellwether_kafka.coordinator.ghosts import RemovalObserver
from bellwether_kafka.coordinator.kafka import client, wire
from bellwether_kafka.coordinator.observation import OnObservation, OnRebalance
from bellwether_kafka.coordinator.runtime.group_runner import NoteObserver, RoleObserver
from bellwether_kafka.coordinator.runtime.observed_groups import OnGone

DecisionObserver = Callable[[planning.Planned[GroupPlan]], None]
Beside = Callable[[client.OffsetReader, wire.Transport, AdminClient], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class Observers:
    """Functions to call for each kind of event. Exceptions that they raise are logged and ignored.

    `on_decision` receives the decisions of all groups that a broker has accepted, `on_consumer_decision` and
    `on_streams_decision` only those of one kind. `beside` are tasks that run until the service ends; they read and
    decide nothing.
    """

    on_decision: Sequence[DecisionObserver] = ()
    on_note: Sequence[NoteObserver] = ()
    on_role: Sequence[RoleObserver] = ()
    on_consumer_decision: Sequence[Callable[[planning.Planned[PartitionPlan]], None]] = ()
    on_streams_decision: Sequence[Callable[[planning.Planned[TaskPlan]], None]] = ()
    on_ghost: Sequence[RemovalObserver] = ()
    beside: Sequence[Beside] = ()
    on_seen: Sequence[Callable[[str, membership.DescribeAnswer], None]] = ()
    on_observation: Sequence[OnObservation] = ()
    on_unknown: Sequence[OnObservation] = ()  # the last known state of a group that brokers do not report now
    on_rebalance: Sequence[OnRebalance] = ()  # of observed groups
    on_led_seen: Sequence[OnObservation] = ()  # of groups to lead, while no plan of this process is in force
    on_control: Sequence[OnControl] = ()
    on_gone: Sequence[OnGone] = ()  # groups that are no longer observed

    @classmethod
    def of(cls, *observers: object) -> "Observers":
        """Returns the methods of these objects that have the name of a field here, in the order of the objects. An
        object that is an `Observers` itself contributes all of its functions."""
        return cls(**{field.name: tuple(_functions(observers, field.name)) for field in fields(cls)})


def _functions(observers: Sequence[object], event: str) -> list[Any]:
    functions: list[Any] = []
    for observer in observers:
        function = getattr(observer, event, None)
        if isinstance(observer, Observers):
            functions += function or ()
        elif function is not None:
            functions.append(function)
    return functions
