"""Operators' orders, given through the control topic, and the choice of the active instance."""

from typing import TYPE_CHECKING

from bellwether_kafka.coordinator.control.active_role import Instances
from bellwether_kafka.coordinator.control.applied_plan import AppliedPlan
from bellwether_kafka.coordinator.control.handed_back import HandedBack, renewed
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
    heartbeat_key,
    lead_is_wanted,
    orders_in_force,
    recent_heartbeats,
    traits_of,
    utc_time,
)
from bellwether_kafka.coordinator.on_demand import on_demand

_HEAVY = {
    "absence": ("AbsenceUpdate", "absence_update", "handed_over", "left_behind", "owned"),
    "absence_watch": ("Absences", "AbsenceWatch"),
    "group_roles": ("ControlledGroup", "GroupRoles"),
    "feasibility": ("contradicting", "objection", "policy_of", "unfollowed"),
    "controller": ("Controller", "ControlReport", "OnControl"),
    "kept_orders": ("KeptOrders", "NoTopic", "OnCaughtUp", "OnReadAgain", "OnRecord", "OnRefused", "OrderSource"),
    "state_files": ("HandBackFile", "state_file", "state_folder", "write_state"),
    "served_orders": ("ServedGroups", "ServedOrders"),
    "topic": ("ControlTopic", "TopicChannel", "read_all", "write_now"),
    "topic_creation": (
        "ControlTopicError",
        "NoControlTopicError",
        "SilentTopicError",
        "ensure_topic",
        "forgetful",
        "require_topic",
    ),
}

if TYPE_CHECKING:
    from bellwether_kafka.coordinator.control.absence import (
        AbsenceUpdate,
        absence_update,
        handed_over,
        left_behind,
        owned,
    )
    from bellwether_kafka.coordinator.control.absence_watch import Absences, AbsenceWatch
    from bellwether_kafka.coordinator.control.controller import Controller, ControlReport, OnControl
    from bellwether_kafka.coordinator.control.feasibility import (
        contradicting,
        objection,
        policy_of,
        unfollowed,
    )
    from bellwether_kafka.coordinator.control.group_roles import ControlledGroup, GroupRoles
    from bellwether_kafka.coordinator.control.kept_orders import (
        KeptOrders,
        NoTopic,
        OnCaughtUp,
        OnReadAgain,
        OnRecord,
        OnRefused,
        OrderSource,
    )
    from bellwether_kafka.coordinator.control.served_orders import ServedGroups, ServedOrders
    from bellwether_kafka.coordinator.control.state_files import HandBackFile, state_file, state_folder, write_state
    from bellwether_kafka.coordinator.control.topic import ControlTopic, TopicChannel, read_all, write_now
    from bellwether_kafka.coordinator.control.topic_creation import (
        ControlTopicError,
        NoControlTopicError,
        SilentTopicError,
        ensure_topic,
        forgetful,
        require_topic,
    )
else:
    __getattr__ = on_demand(__name__, _HEAVY)
