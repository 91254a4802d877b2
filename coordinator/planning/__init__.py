"""From a JoinGroup answer to an assignment that may be sent: metadata, deadline, plan, guard, fallback, memory."""

from bellwether_kafka.coordinator.planning.applications import (
    Application,
    ApplicationError,
    UnreadableTopicsError,
    load_application,
    stateful,
)
from bellwether_kafka.coordinator.planning.broker_assigned import (
    BROKER_ASSIGNS,
    UNIFORM,
    assignor_of,
    classic_view,
    no_plan_for_broker,
    served_application,
    served_policy,
    subtopology_numbers,
    topology_of,
)
from bellwether_kafka.coordinator.planning.causes import Cause, CauseKind, cause, follows_from_orders
from bellwether_kafka.coordinator.planning.consumer_kind import ConsumerKind
from bellwether_kafka.coordinator.planning.inspection import MESSAGE_BYTES_MAX, inspect, record_bytes
from bellwether_kafka.coordinator.planning.planned import GroupKind, Planned, Source, Timings, WatchedTopics
from bellwether_kafka.coordinator.planning.planner import Planner
from bellwether_kafka.coordinator.planning.racks import (
    NO_RULES,
    Networks,
    RackFile,
    RackFileError,
    RackRules,
    RackSource,
    network,
)
from bellwether_kafka.coordinator.planning.recorded_rebalance import UnreadableRebalanceError, pack, unpack
from bellwether_kafka.coordinator.planning.solver import Solver, Solvers, foreign_code
from bellwether_kafka.coordinator.planning.streams_inputs import (
    STORES_UNDECLARED,
    TASK_STALL_MS,
    StreamsConfig,
    TaskRequest,
)
from bellwether_kafka.coordinator.planning.streams_kind import StreamsKind
from bellwether_kafka.coordinator.planning.threads import Turns, warm_up_soon
