"""Plans that have been delivered, and the pauses that they cost."""

from dataclasses import replace

import numpy as np

from bellwether_kafka.assignors.consumer import PartitionPlan
from bellwether_kafka.assignors.shared import Decision
from bellwether_kafka.coordinator.planning import Cause, CauseKind, PlannedRebalance, Timings
from tests.support.decided_groups import decided, member, planned

A, B = member("a-1", None), member("b-1", None)
COOPERATIVE = "cooperative-sticky"


def delivered(
    at_s: float,
    before: list[int],
    owner: list[int],
    pending: tuple[int, ...] = (),
    *,
    why: CauseKind = CauseKind.JOINED,
    protocol: str = COOPERATIVE,
    first: bool = False,
) -> PlannedRebalance[PartitionPlan]:
    """A rebalance of four partitions that began a second before `at_s` and took half a second more to be sent."""
    decision: Decision[PartitionPlan] = decided(A, B)
    held_back = np.isin(np.arange(4), pending)
    target = replace(decision.plan.target, owner=np.array(owner, dtype=np.int32), pending=held_back)
    plan = replace(decision.plan, before=np.array(before, dtype=np.int32), target=target)
    decision = replace(decision, plan=plan, raw=replace(decision.raw, protocol=protocol))
    timings = Timings(joined_at=at_s, metadata_s=0.1, plan_s=0.2, sync_s=0.2, join_s=1.0)
    previous = None if first else decision
    return replace(planned(decision, previous), previous=previous, cause=Cause(why, ""), timings=timings)
