"""Groups seen from outside: what the present assignment costs, and what Bellwether would assign."""

from bellwether_kafka.coordinator.observation.doctor import BROKER_CONFIGS, Check, Facts, Verdict, examine, worst
from bellwether_kafka.coordinator.observation.lag import (
    UNKNOWN,
    VERDICTS,
    GroupLag,
    LagReport,
    LagSummary,
    LagVerdict,
    PartitionLag,
)
from bellwether_kafka.coordinator.observation.lag_looks import LagLooks
from bellwether_kafka.coordinator.observation.next_steps import next_steps
from bellwether_kafka.coordinator.observation.notify import notify
from bellwether_kafka.coordinator.observation.observation import (
    Observation,
    ObservedMember,
    Shadow,
    as_document,
)
from bellwether_kafka.coordinator.observation.observer import NEWEST, GroupObserver, OnObservation, Sources
from bellwether_kafka.coordinator.observation.readiness import unready
from bellwether_kafka.coordinator.observation.rebalances import Rebalances, SeenRebalance
from bellwether_kafka.coordinator.observation.shared import SharedGroups, SharedOffsets
from bellwether_kafka.coordinator.observation.short_ids import full_ids, short_ids
