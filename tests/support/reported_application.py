"""An application before and after it has grown, and its plans."""

from bellwether_kafka.assignors.shared import Decision
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.assignors.streams.application import AssignmentConfigs
from bellwether_kafka.coordinator.planning import Chosen, PlannedRebalance, Source, Timings, WatchedTopics, cause
from tests.unit.assignors.streams.world import NOW_MS, Thread, group, led

A, B, C = Thread("a", 1, rack="az1"), Thread("b", 2, rack="az2"), Thread("c", 3)
ONE_STANDBY = AssignmentConfigs(num_standby_replicas=1)
FIRST = led(group(A, B), configs=ONE_STANDBY)
GROWN = led(
    group(A.after(FIRST), B.after(FIRST), C, generation=2),
    configs=ONE_STANDBY,
    memory=FIRST.plan.memory,
    now_ms=NOW_MS + 5,
)


def planned(decision: Decision[TaskPlan], previous: Decision[TaskPlan] | None = None) -> PlannedRebalance[TaskPlan]:
    """As the runtime hands it to observers: the broker has it."""
    chosen, timings = Chosen(decision, Source.PLAN, ()), Timings(3.0, 0.2, 0.004)
    why = cause(previous, decision)
    topics = WatchedTopics(decision.plan.topology.source_topics)
    return PlannedRebalance(chosen, topics, timings, previous=previous, cause=why)
