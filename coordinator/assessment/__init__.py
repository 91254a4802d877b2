"""Assessments: the costs of groups, now and in a past period, and which of these Bellwether would avoid."""

from bellwether_kafka.coordinator.assessment.conversion import ConversionPlan, plan_conversion
from bellwether_kafka.coordinator.assessment.conversion_facts import (
    ASSIGNORS_LISTED,
    MIGRATION_POLICY,
    SIZES_MAX,
    ConversionFacts,
    protocol_of,
)
from bellwether_kafka.coordinator.assessment.conversion_watch import (
    ConversionFollower,
    ConversionProgress,
    ConversionStart,
    PlacementCounts,
)
from bellwether_kafka.coordinator.assessment.from_refreshes import assess_refreshes, configuration_to_lead
from bellwether_kafka.coordinator.assessment.ghosts import GhostRefreshes
from bellwether_kafka.coordinator.assessment.grids import (
    Grid,
    document,
    grids,
    headline,
    lines,
    modelled_release,
    policy_grid,
)
from bellwether_kafka.coordinator.assessment.model import (
    Assessment,
    Prices,
)
from bellwether_kafka.coordinator.assessment.page import page
from bellwether_kafka.coordinator.assessment.periods import period_of_records
