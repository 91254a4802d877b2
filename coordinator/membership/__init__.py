"""The membership of one classic consumer group as state machines without I/O: events in, commands out."""

from bellwether_kafka.coordinator.membership.broker_order import tables
from bellwether_kafka.coordinator.membership.changed_members import (
    Duels,
    MemberChange,
    changed_members,
    may_change,
    sentence,
)
from bellwether_kafka.coordinator.membership.commands import (
    Abandon,
    Command,
    Decide,
    Describe,
    Evict,
    Fatal,
    FindCoordinator,
    Heartbeat,
    Join,
    Leave,
    MembershipStopped,
    Note,
    NoteKind,
    PlanDelivered,
    RebuildMemory,
    Request,
    Sync,
)
from bellwether_kafka.coordinator.membership.config import (
    CLIENT_ID,
    NOT_READ,
    STOCK_PROTOCOLS,
    STREAMS_PROTOCOL,
    STREAMS_SESSION_MS_MAX,
    STREAMS_SESSION_MS_MIN,
    Adopt,
    HandBackMode,
    MembershipConfig,
    Mode,
    SizeLimit,
    check_timing,
)
from bellwether_kafka.coordinator.membership.error_codes import EXIT_CONFIG, Code, name_of
from bellwether_kafka.coordinator.membership.events import (
    AT_REST,
    FINISHED,
    REBALANCING,
    ActiveRoleChanged,
    Answer,
    ComparisonFailed,
    ComparisonReady,
    CoordinatorAnswer,
    DeathsProven,
    DecisionFailed,
    DecisionReady,
    DescribeAnswer,
    DescribedMember,
    Event,
    Failure,
    GroupState,
    HandBackRemembered,
    HeartbeatAnswer,
    JoinAnswer,
    JoinedMember,
    LeadRemembered,
    LeaveAnswer,
    Node,
    OffsetsFound,
    OffsetsRead,
    OrdersInForce,
    RebalanceOrdered,
    RebalanceWanted,
    RequestFailed,
    SizeLimitRead,
    StepAsideWanted,
    StopRequested,
    SyncAnswer,
    Wake,
    WorkSuspected,
)
from bellwether_kafka.coordinator.membership.lead_rules import (
    MEMBER_ID_UUID_LENGTH,
    assigned_by_broker,
    is_bellwether,
    is_missing,
    unfit,
)
from bellwether_kafka.coordinator.membership.machine import GroupMembership, MembershipView
from bellwether_kafka.coordinator.membership.reactions import PROGRESS, UNREAD, Reactions
from bellwether_kafka.coordinator.membership.requests import Timer
from bellwether_kafka.coordinator.membership.role import REMEDIES, NotLeading, Obstacle, Role
from bellwether_kafka.coordinator.membership.shown import NotShownError, ShownGroup, shown
from bellwether_kafka.coordinator.membership.succession import first_bucket
from bellwether_kafka.coordinator.membership.table_growth import Forecasts
from bellwether_kafka.coordinator.membership.takeover_policy import (
    ANSWERS,
    PROVEN_FROM,
    SearchTurns,
    blocked,
    proven,
    usual_ms,
)
from bellwether_kafka.coordinator.membership.transitions import (
    INTERNAL_ERROR,
    MEMBERSHIP,
    TAKEOVER,
    Edge,
    State,
    Step,
    Transitions,
)
