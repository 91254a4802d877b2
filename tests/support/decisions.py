"""Decisions of plain consumer groups that must not be refused."""

from typing import Any

from bellwether_kafka.assignors.consumer.decide import decide
from bellwether_kafka.assignors.consumer.partition_plan import PartitionPlan
from bellwether_kafka.assignors.shared.decision import Decision
from bellwether_kafka.assignors.shared.refusal import Refusal


def decided(*arguments: Any, **options: Any) -> Decision[PartitionPlan]:
    """What `decide` returns for these arguments. AssertionError where it refuses."""
    decision = decide(*arguments, **options)
    assert not isinstance(decision, Refusal), decision.reason
    return decision
