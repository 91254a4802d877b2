"""Tasks to processes as Kafka's assignors place them: HighAvailability, StickyTask, standbys and racks."""

from bellwether_kafka.assignors.streams.placing.even import Evener
from bellwether_kafka.assignors.streams.placing.high_availability import (
    STATEFUL_NON_OVERLAP_COST,
    STATEFUL_TRAFFIC_COST,
    STATELESS_NON_OVERLAP_COST,
    STATELESS_TRAFFIC_COST,
    HighAvailability,
    RackStage,
    assign_high_availability,
    deal,
    hashes_of,
)
from bellwether_kafka.assignors.streams.placing.keeping import KeepingRule, rack_disagreement, spread_by
from bellwether_kafka.assignors.streams.placing.movements import WarmupBudget, move_actives, move_standbys
from bellwether_kafka.assignors.streams.placing.placement import Placement
from bellwether_kafka.assignors.streams.placing.rack_aware import RackOptimiser, can_use, is_pointless
from bellwether_kafka.assignors.streams.placing.standby import (
    LabelRule,
    StandbyRule,
    fill_lightest,
    tag_rule,
    task_hashes,
)
from bellwether_kafka.assignors.streams.placing.sticky_task import StickyTask, assign_sticky, previous_owners

__all__ = [
    "STATEFUL_NON_OVERLAP_COST",
    "STATEFUL_TRAFFIC_COST",
    "STATELESS_NON_OVERLAP_COST",
    "STATELESS_TRAFFIC_COST",
    "Evener",
    "HighAvailability",
    "KeepingRule",
    "LabelRule",
    "Placement",
    "RackOptimiser",
    "RackStage",
    "StandbyRule",
    "StickyTask",
    "WarmupBudget",
    "assign_high_availability",
    "assign_sticky",
    "can_use",
    "deal",
    "fill_lightest",
    "hashes_of",
    "is_pointless",
    "move_actives",
    "move_standbys",
    "previous_owners",
    "rack_disagreement",
    "spread_by",
    "tag_rule",
    "task_hashes",
]
