"""Places tasks on processes as Kafka's assignors do: HighAvailability, StickyTask, standbys and racks."""

from bellwether_kafka.assignors.streams.placing.even import (
    Evener,
    QuotaEvener,
    TaskLimits,
    deal_to_quotas,
    deviation,
    quotas,
    weights,
)
from bellwether_kafka.assignors.streams.placing.high_availability import (
    STATEFUL_COSTS,
    STATELESS_COSTS,
    Movements,
    assign_high_availability,
    deal,
    hashes_of,
)
from bellwether_kafka.assignors.streams.placing.keeping import KeepingRule, rack_disagreement, spread_by, unsent_tags
from bellwether_kafka.assignors.streams.placing.placement import Placement
from bellwether_kafka.assignors.streams.placing.racks import RackOptimiser, can_use, is_pointless
from bellwether_kafka.assignors.streams.placing.standby import (
    LabelRule,
    StandbyRule,
    fill_lightest,
    missing_standbys,
    tag_rule,
    task_hashes,
)
from bellwether_kafka.assignors.streams.placing.sticky_task import StickyTask, assign_sticky, previous_owners
