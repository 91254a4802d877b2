"""Decided groups, as pages and commands show them."""

from bellwether_kafka.assignors.consumer import PartitionPlan, Policy
from bellwether_kafka.assignors.shared import ClusterView, Decision, Memory, RawGroup, RawMember
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.coordinator.planning import Chosen, PlannedRebalance, Source, Timings, WatchedTopics, cause
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription
from tests.support import decisions

CLUSTER = ClusterView.of({"orders": [["az1"], ["az2"], ["az3"], ["az3"]]})


def member(name: str, rack: str | None) -> RawMember:
    return RawMember(name, None, ConsumerProtocolSubscription(version=3, topics=("orders",), rack_id=rack).encode())


def decided(
    *members: RawMember, generation: int = 1, policy: str = "kafka", memory: Memory | None = None
) -> Decision[PartitionPlan]:
    raw = RawGroup("g", generation, "range", members, frozenset())
    return decisions.decided(raw, CLUSTER, memory or Memory.empty(), Policy(policy), now_ms=5)


def planned(
    decision: Decision[PartitionPlan], previous: Decision[PartitionPlan] | None = None
) -> PlannedRebalance[PartitionPlan]:
    chosen, timings = Chosen(decision, Source.PLAN, ()), Timings(3.0, 0.2, 0.004, 0.01)
    return PlannedRebalance(
        chosen, WatchedTopics(("orders",)), timings, previous=previous, cause=cause(previous, decision)
    )


def tasks(decision: Decision[TaskPlan], previous: Decision[TaskPlan] | None = None) -> PlannedRebalance[TaskPlan]:
    chosen, timings = Chosen(decision, Source.PLAN, ()), Timings(3.0, 0.2, 0.004)
    why = cause(previous, decision)
    return PlannedRebalance(
        chosen, WatchedTopics(decision.plan.topology.source_topics), timings, previous=previous, cause=why
    )
