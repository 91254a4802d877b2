"""What members report, and what a leader remembers of them between rebalances."""

from bellwether_kafka.assignors.streams.members.hidden_state import (
    HiddenState,
    records_after,
    rejoins_at_ms,
    use_hidden_state,
)
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
from bellwether_kafka.assignors.streams.members.processes import (
    SHUTDOWN_REQUESTED,
    DecodedStreams,
    ProcessMap,
    check_members,
    check_standbys,
    check_topics,
    check_topology,
    decode_streams,
    end_point,
    fatal_to_java,
    gather,
    known_cluster,
    member_warnings,
)
from bellwether_kafka.assignors.streams.members.remembered import (
    Homes,
    destinations_after,
    home_of,
    known_homes,
    target_of,
    target_to_carry_out,
    use_destinations,
)
from bellwether_kafka.assignors.streams.members.reports import (
    ThreadClaims,
    TimestampedView,
    contradictions,
    read_claims,
    read_reports,
    reports_at_rest,
    state_warnings,
    still_held,
    streams_view,
)
