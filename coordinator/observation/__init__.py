"""Groups observed without joining them: what the present assignment costs, and what Bellwether would assign."""

from bellwether_kafka.coordinator.observation.anomalies import BY_TOPIC, OF_PATTERNS
from bellwether_kafka.coordinator.observation.findings import (
    ANOMALIES,
    FINDINGS,
    OLD_MS,
    STORM_MIN,
    STORM_MS,
    UNEVEN,
    WRONG_ASSIGNMENT,
    Fault,
    Finding,
    FindingKind,
    FindingRow,
    Level,
    judged,
    of_kind,
    worst,
)
from bellwether_kafka.coordinator.observation.group import (
    BELLWETHER,
    BROKER,
    BROKER_TYPES,
    CONSUMERS,
    MEMBER,
    NO_PROBLEM,
    NOBODY,
    NOT_KNOWN,
    PASSING,
    Emptying,
    Group,
    RoleStatus,
    group_of,
    role_status,
    shown_costs,
    unread,
    values_of_group,
    who_assigns,
    worst_first,
)
from bellwether_kafka.coordinator.observation.group_reader import OnSeen, Sources, as_if_led, described_by_broker
from bellwether_kafka.coordinator.observation.health import BROKER_CONFIGS, DoctorFacts, GivenOrders, examine
from bellwether_kafka.coordinator.observation.kept import Kept
from bellwether_kafka.coordinator.observation.lag import (
    VERDICTS,
    GroupLag,
    LagReport,
    LagSummary,
    LagVerdict,
    PartitionLag,
)
from bellwether_kafka.coordinator.observation.lag_refreshes import LagRefreshes
from bellwether_kafka.coordinator.observation.log_bounds import UNREAD, ReadLogs, read_logs, why_unread
from bellwether_kafka.coordinator.observation.message_versions import how_to_name_racks
from bellwether_kafka.coordinator.observation.next_steps import next_steps
from bellwether_kafka.coordinator.observation.notify import notify
from bellwether_kafka.coordinator.observation.observation import (
    Observation,
    ObservedMember,
    Shadow,
    anomalies_of_members,
    anomalies_of_plan,
    as_document,
    group_values,
    known_cross_rack,
    observation,
    values_of,
)
from bellwether_kafka.coordinator.observation.observer import (
    NEWEST,
    GroupObserver,
    OnObservation,
    OnRebalance,
)
from bellwether_kafka.coordinator.observation.pauses import Pause, Pauses, is_eager, seen_pause
from bellwether_kafka.coordinator.observation.readiness import unready
from bellwether_kafka.coordinator.observation.rebalances import UNKNOWN_CAUSE as UNKNOWN_CAUSE
from bellwether_kafka.coordinator.observation.rebalances import Rebalances, SeenRebalance, at_rest, moves_between
from bellwether_kafka.coordinator.observation.removals import Removals, removals
from bellwether_kafka.coordinator.observation.rhythms import Rhythms
from bellwether_kafka.coordinator.observation.self_assigned import ONLY_BELLWETHER as ONLY_BELLWETHER
from bellwether_kafka.coordinator.observation.self_assigned import RELEASE as RELEASE
from bellwether_kafka.coordinator.observation.self_assigned import SELF_ASSIGNED as SELF_ASSIGNED
from bellwether_kafka.coordinator.observation.self_assigned import MemberlessCommits
from bellwether_kafka.coordinator.observation.short_ids import full_ids, short_ids
from bellwether_kafka.coordinator.observation.trends import Curve, LagTrends, Trend
from bellwether_kafka.coordinator.observation.unknown import NO_BROKER, Unknown, unknown_values
