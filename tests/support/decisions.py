"""Decisions of plain consumer groups that must not be refused."""

from typing import Any

from bellwether_kafka.assignors.consumer import PartitionPlan, decide
from bellwether_kafka.assignors.shared import Decision, Refusal


def decided(*arguments: Any, **options: Any) -> Decision[PartitionPlan]:
    """What `decide` returns for these arguments. AssertionError where it refuses."""
    decision = decide(*arguments, **options)
    assert not isinstance(decision, Refusal), decision.reason
    return decision
