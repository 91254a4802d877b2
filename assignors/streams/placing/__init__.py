"""Places tasks on processes as Kafka's assignors do: HighAvailability, StickyTask, standbys and racks."""

from bellwether_kafka.assignors.streams.placing.even import Evener
from bellwether_kafka.assignors.streams.placing.high_availability import (
    STATEFUL_COSTS,
    STATELESS_COSTS,
    assign_high_availability,
    deal,
    hashes_of,
)
from bellwether_kafka.assignors.streams.placing.keeping import KeepingRule, rack_disagreement, spread_by, unsent_tags
from bellwether_kafka.assignors.streams.placing.limits import TaskLimits
from bellwether_kafka.assignors.streams.placing.movements import Movements
from bellwether_kafka.assignors.streams.placing.placement import Placement
from bellwether_kafka.assignors.streams.placing.rack_aware import RackOptimiser, can_use, is_pointless
from bellwether_kafka.assignors.streams.placing.standby import (
    LabelRule,
    StandbyRule,
    fill_lightest,
    missing_standbys,
    tag_rule,
    task_hashes,
)
from bellwether_kafka.assignors.streams.placing.sticky_task import StickyTask, assign_sticky, previous_owners
