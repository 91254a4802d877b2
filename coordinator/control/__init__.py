"""Operators' orders, given through the control topic, and the choice of the active instance."""

from typing import TYPE_CHECKING

from bellwether_kafka.coordinator.control.applied_plan import AppliedPlan
from bellwether_kafka.coordinator.control.order_kinds import (
    ONCE_MS,
    ORDERS,
    OrderKind,
    OrderTraits,
    Takes,
    order_key,
)
from bellwether_kafka.coordinator.control.orders import NO_ORDERS, GroupOrders, Orders, absence_of
from bellwether_kafka.coordinator.control.record_codec import VALUE_BYTES_MAX, RecordError, decode, encode
from bellwether_kafka.coordinator.control.records import (
    ABSENCE,
    EVERYBODY,
    HEARTBEAT,
    HEARTBEAT_AGE_MS_MAX,
    NO_END_MS,
    Absence,
    AnyOrder,
    ControlSettings,
    InstanceHeartbeat,
    OnPlaces,
    Order,
    PlacementOrder,
    Record,
    Stage,
    Stopped,
    Until,
    absence_key,
    clocks_may_differ,
    end_in_words,
    lead_is_wanted,
    orders_in_force,
    recent_heartbeats,
    traits_of,
    utc_time,
)
from bellwether_kafka.coordinator.on_demand import on_demand

_HEAVY = {
    "absence": ("absence_update", "handed_over", "owned"),
    "absence_watch": ("AbsenceWatch",),
    "feasibility": ("contradicting", "objection", "policy_of", "unfollowed"),
    "controller": ("Controller", "ControlReport", "OnControl"),
    "order_source": ("LastRecords", "NoTopic", "OnCaughtUp", "OnRecord", "OnRefused", "OrderSource"),
    "state_files": ("HandBackFile", "state_file", "write_state"),
    "served_orders": ("ServedGroups",),
    "topic": (
        "ControlTopic",
        "ControlTopicError",
        "NoControlTopicError",
        "SilentTopicError",
        "TopicChannel",
    ),
}

if TYPE_CHECKING:
    from bellwether_kafka.coordinator.control.absence import absence_update, handed_over, owned
    from bellwether_kafka.coordinator.control.absence_watch import AbsenceWatch
    from bellwether_kafka.coordinator.control.controller import Controller, ControlReport, OnControl
    from bellwether_kafka.coordinator.control.feasibility import (
        contradicting,
        objection,
        policy_of,
        unfollowed,
    )
    from bellwether_kafka.coordinator.control.order_source import (
        LastRecords,
        NoTopic,
        OnCaughtUp,
        OnRecord,
        OnRefused,
        OrderSource,
    )
    from bellwether_kafka.coordinator.control.served_orders import ServedGroups
    from bellwether_kafka.coordinator.control.state_files import HandBackFile, state_file, write_state
    from bellwether_kafka.coordinator.control.topic import (
        ControlTopic,
        ControlTopicError,
        NoControlTopicError,
        SilentTopicError,
        TopicChannel,
    )
else:
    __getattr__ = on_demand(__name__, _HEAVY)
