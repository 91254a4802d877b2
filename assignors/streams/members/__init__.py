"""What members report, and what a leader remembers of them between rebalances."""

from bellwether_kafka.assignors.streams.members.checks import (
    check_members,
    check_standbys,
    check_topics,
    check_topology,
    fatal_to_java,
    known_cluster,
    member_warnings,
    state_warnings,
)
from bellwether_kafka.assignors.streams.members.claims import ThreadClaims, read_claims, still_held
from bellwether_kafka.assignors.streams.members.destinations import (
    destinations_after,
    target_of,
    target_to_carry_out,
    use_destinations,
)
from bellwether_kafka.assignors.streams.members.hidden_state import (
    HiddenState,
    records_after,
    rejoins_at_ms,
    use_hidden_state,
)
from bellwether_kafka.assignors.streams.members.homes import Homes, home_of, known_homes
from bellwether_kafka.assignors.streams.members.memory import (
    Destinations,
    Home,
    ProcessRecord,
    StreamsMemory,
    Target,
    ThreadRecord,
    assignment_info,
    recall_streams,
)
from bellwether_kafka.assignors.streams.members.process_map import (
    SHUTDOWN_REQUESTED,
    DecodedStreams,
    ProcessMap,
    decode_streams,
    end_point,
    gather,
)
from bellwether_kafka.assignors.streams.members.views import (
    TimestampedView,
    contradictions,
    read_reports,
    reports_at_rest,
    streams_view,
)
