"""Orders of operators, through the control topic or on the same machine, and which of several instances is active."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bellwether_kafka.coordinator.control.absence import owned
from bellwether_kafka.coordinator.control.records import (
    EVERYBODY,
    HEARD_MS,
    Absence,
    Beat,
    ControlSettings,
    Order,
    OrderKind,
    OrderState,
    PlacementKind,
    PlacementOrder,
    Record,
    RecordError,
    Stage,
    Until,
    absence_key,
    decode,
    encode,
    order_key,
)

# As in `coordinator.kafka`: these need librdkafka or numpy, which are too large for a guard beside an application.
_HEAVY = {
    "absence_watch": ("AbsenceWatch",),
    "checks": ("absence_of", "heard", "objection", "policy_of"),
    "controller": ("Controller", "ControlReport", "OnControl"),
    "local": ("LocalDesk", "LocalOrders", "LocalProcess", "local_processes"),
    "topic": ("ControlTopic", "ControlTopicError", "NoControlTopicError", "TopicDesk", "read_all"),
}

if TYPE_CHECKING:
    from bellwether_kafka.coordinator.control.absence_watch import AbsenceWatch
    from bellwether_kafka.coordinator.control.checks import absence_of, heard, objection, policy_of
    from bellwether_kafka.coordinator.control.controller import Controller, ControlReport, OnControl
    from bellwether_kafka.coordinator.control.local import LocalDesk, LocalOrders, LocalProcess, local_processes
    from bellwether_kafka.coordinator.control.topic import (
        ControlTopic,
        ControlTopicError,
        NoControlTopicError,
        TopicDesk,
        read_all,
    )
else:

    def __getattr__(name: str) -> Any:
        for module, names in _HEAVY.items():
            if name in names:
                return getattr(import_module(f"{__name__}.{module}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
