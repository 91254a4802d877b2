"""What an instance process plans with: the product's own functions, without the event loop and the readers around."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from bellwether_kafka.assignors.consumer import PartitionPlan, Policy, recall, topics_wanted
from bellwether_kafka.assignors.shared import NO_RACK, AssignedMember, ClusterView, Decision, Memory, RawGroup, extended
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.assignors.streams.members import StreamsMemory, fatal_to_java, recall_streams
from bellwether_kafka.coordinator.kafka.metadata_watch import (
    Change,
    WatchRules,
    WatchState,
    material_change,
    planned_with,
)
from bellwether_kafka.coordinator.membership import PROGRESS
from bellwether_kafka.coordinator.membership import DescribedMember as Seen
from bellwether_kafka.coordinator.planning import MESSAGE_BYTES_MAX, ConsumerKind, streams_kind
from bellwether_kafka.coordinator.planning.consumer_kind import PartitionRequest, make_partitions
from bellwether_kafka.coordinator.planning.fallback import previous_answer
from bellwether_kafka.coordinator.planning.inspection import inspect
from bellwether_kafka.coordinator.planning.streams_config import Arrivals
from bellwether_kafka.coordinator.triggers import ProbingFacts
from bellwether_kafka.coordinator.triggers.probing import Prober
from bellwether_kafka.coordinator.triggers.streams_watch import HELD_BACK_S
from tests.simulation import streams
from tests.simulation.brokers.topics import Sizes, partitions_of

if TYPE_CHECKING:
    from tests.simulation.world import World

REFRESH_S = 5.0  # between refreshes of metadata

Made = tuple[Any, tuple[str, ...]]


class Planner(Protocol):
    """`made` raises RefusalError, a final one where a member has to lead."""

    def made(self, raw: RawGroup) -> Made: ...
    def again(self, raw: RawGroup) -> Made | None:
        """The previous answer, if it is one for this rebalance."""

    def topics(self, raw: RawGroup) -> tuple[str, ...]: ...
    def worth_moving(self, decision: Any) -> str: ...
    def recall(self, generation: int, protocol: str, seen: Sequence[Seen]) -> None: ...
    def delivered(self, decision: Any) -> None: ...
    def forget(self) -> None: ...
    def wanted(self) -> Change | None:
        """Why the group should rebalance now; asked while it is at rest under Bellwether."""

    def follow(self, decision: Any) -> None:
        """A group that came back to Bellwether at rest, and that this plan, which no member has, was compared with."""

    @property
    def unfinished(self) -> bool:
        """A rebalance of Bellwether is planned for some time."""


class PlainPlanner:
    """Of consumers."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.forget()

    def forget(self) -> None:
        self.memory = Memory.empty()
        self._previous: Decision[PartitionPlan] | None = None
        self._watched: WatchState | None = None

    def made(self, raw: RawGroup) -> Made:
        reported = self.world.topics.reported()
        request = PartitionRequest(raw, self.world.topics.view(reported), self.memory, 0, 1, MESSAGE_BYTES_MAX)
        made = make_partitions(Policy(), request)
        self.world.checks.made(made.decision.assignments, partitions_of(reported))
        return made.decision, made.findings

    def again(self, raw: RawGroup) -> Made | None:
        previous = previous_answer(self._previous, raw)
        return None if previous is None else (previous, inspect(raw, previous))

    def topics(self, raw: RawGroup) -> tuple[str, ...]:
        return topics_wanted(raw)

    def worth_moving(self, decision: Decision[PartitionPlan]) -> str:
        return ConsumerKind.worth_moving(decision)

    def recall(self, generation: int, protocol: str, seen: Sequence[Seen]) -> None:
        self.memory = recall(generation, protocol, self.world.topics.refresh(), _described(seen))

    def delivered(self, decision: Decision[PartitionPlan]) -> None:
        self._previous, self.memory = decision, decision.plan.memory
        self._watched = planned_with(decision.cluster, self.world.subscribed, rack_aware=False)

    def follow(self, decision: Decision[PartitionPlan]) -> None:
        consumed = extended(decision.cluster, self.memory.assigned_sizes())
        self._watched = planned_with(consumed, self.world.subscribed, rack_aware=False)

    def wanted(self) -> Change | None:
        """What the watch over metadata finds."""
        if self._watched is None or not self.world.metadata:
            return None
        topics = self.world.topics
        read = topics.read(self.world.subscribed, topics.reported())
        change, self._watched = material_change(self._watched, read, self.world.clock.now, WatchRules())
        return change

    @property
    def unfinished(self) -> bool:
        return False


class TaskPlanner:
    """Of a Streams application; what the product's watch does between rebalances included, stalled tasks left out."""

    def __init__(self, world: "World") -> None:
        self.world = world
        configs = world.application.config.configs
        self._refresh_at = self._held_back_until = 0.0
        self._prober = Prober(configs.acceptable_recovery_lag, configs.probing_rebalance_interval_ms)
        self.forget()

    def forget(self) -> None:
        self.memory = StreamsMemory.empty()
        self._previous: Decision[TaskPlan] | None = None
        self._arrivals = self._next_arrivals = Arrivals()
        self._watched: WatchState | None = None
        self._prober.forget()
        if self.world.work is not None:
            self.world.work.forget()

    def made(self, raw: RawGroup) -> Made:
        made = streams.make(self.world, raw, self.memory, self._arrivals)
        self._next_arrivals = made.arrivals or self._next_arrivals
        return made.decision, made.findings

    def again(self, raw: RawGroup) -> Made | None:
        previous = previous_answer(self._previous, raw)
        return None if previous is None else (previous, inspect(raw, previous))

    def topics(self, raw: RawGroup) -> tuple[str, ...]:
        del raw
        return self.world.application.topology.source_topics

    def worth_moving(self, decision: Decision[TaskPlan]) -> str:
        return streams_kind.worth_moving(decision, self.memory)

    def recall(self, generation: int, protocol: str, seen: Sequence[Seen]) -> None:
        self.memory = recall_streams(generation, protocol, self.world.topics.refresh(), _described(seen))

    def delivered(self, decision: Decision[TaskPlan]) -> None:
        self._previous, self.memory, self._arrivals = decision, decision.plan.memory, self._next_arrivals
        self._prober.planned(ProbingFacts.of(decision, ordered=self.world.evacuation is not None))
        if self.world.work is not None:
            self.world.work.planned(decision)
        self._follow(decision, decision.cluster)

    def follow(self, decision: Decision[TaskPlan]) -> None:
        self._follow(decision, extended(decision.cluster, self.memory.plan.assigned_sizes()))

    def _follow(self, decision: Decision[TaskPlan], cluster: ClusterView) -> None:
        topology = decision.plan.topology
        self._watched = planned_with(
            cluster,
            topology.source_topics,
            rack_aware=bool((decision.plan.view.rack != NO_RACK).any()),
            kept=topology.changelogs,
            objection=partial(fatal_to_java, topology),
        )

    def wanted(self) -> Change | None:
        """A probe, or what the watch over metadata finds, where that would not end the application."""
        reason = self._prober.due(self.world.own_wall_ms())
        if reason:
            return None if self._held_back(reason) else Change(reason, PROGRESS)
        if self._watched is None or not self.world.metadata or self.world.clock.now < self._refresh_at:
            return None
        self._refresh_at = self.world.clock.now + REFRESH_S
        topics = self.world.topics
        reported = topics.reported()
        read = topics.read(self.world.application.topology.topics, reported)
        change, self._watched = material_change(self._watched, read, self.world.clock.now, WatchRules())
        return None if change is None or self._would_end(self._watched, reported, change.reason) else change

    def _held_back(self, reason: str) -> bool:
        """As `streams_watch` does it: no probe while a rebalance would end the application, or that is unknown."""
        now, reported = self.world.clock.now, self.world.topics.reported()
        if self._watched is None:
            return False
        if not self.world.metadata or now < self._held_back_until:
            return True
        if not self._would_end(self._watched, reported, reason):
            return False
        self._held_back_until = now + HELD_BACK_S
        return True

    def _would_end(self, watched: WatchState, reported: Sizes, reason: str) -> bool:
        """What the product says of a rebalance with these topics, held against what the model knows."""
        if watched.objection is not None and watched.objection(self.world.topics.view(reported)):
            return True
        if not self.world.application.fits(reported):
            self.world.violate(f"a round that would end the application: {reason}")
        return False

    @property
    def unfinished(self) -> bool:
        return self._prober.next_at_ms is not None


def _described(seen: Sequence[Seen]) -> list[AssignedMember]:
    return [AssignedMember(m.member_id, m.instance_id, m.metadata, m.assignment) for m in seen]
