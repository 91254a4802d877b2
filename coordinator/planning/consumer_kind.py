"""Consumer groups, as the planner needs to know them."""

import asyncio
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bellwether_kafka.assignors import consumer, shared
from bellwether_kafka.assignors.consumer import LOAD_AWARE, PartitionPlan, Policy, topics_wanted
from bellwether_kafka.assignors.shared import AssignedMember, ClusterView, Decision, Memory, RawGroup, RawMember
from bellwether_kafka.coordinator.kafka import ClusterReader
from bellwether_kafka.coordinator.membership import Decide
from bellwether_kafka.coordinator.planning.fallback import Source
from bellwether_kafka.coordinator.planning.group_kind import METADATA_AGE_MS_MAX, Proposal, SecondsLeft, Work
from bellwether_kafka.coordinator.planning.guard import inspect
from bellwether_kafka.coordinator.planning.planned import WatchedTopics

CHEAP_POLICY = Policy(name=consumer.STICKY_MIN_CHURN)
# Of the time until the deadline. A plan takes milliseconds; without metadata there is none, and a leader that has none
# gives the group away, so most of the time may go into the read.
METADATA_SHARE = 0.75
READ_AT_ONCE_BYTES = 1 << 16
UNREADABLE_SHOWN = 3
UUID_LENGTH = 36


@dataclass(frozen=True, slots=True)
class ConsumerInputs:
    """`topics` are those that members subscribe to."""

    raw: RawGroup
    topics: tuple[str, ...]
    cluster: ClusterView


class ConsumerKind:
    """One group's. `memory` is what its members hold as far as Bellwether knows."""

    def __init__(
        self, reader: ClusterReader, policy: Policy, *, weights: Callable[[], shared.Weights] | None = None
    ) -> None:
        self.memory = Memory.empty()
        self._reader = reader
        self._policy = policy
        self._weights = weights
        self.rules: tuple[shared.Rule, ...] = ()

    rules_refused = ""

    @property
    def policy(self) -> str:
        return self._policy.name

    def rule(self, rules: tuple[shared.Rule, ...]) -> None:
        self.rules = rules

    async def read(self, raw: RawGroup, command: Decide, left: SecondsLeft) -> ConsumerInputs:
        if command.removed:
            self.memory = self.memory.renamed(heirs(command.removed, self.memory, raw))
        async with asyncio.timeout(left() * METADATA_SHARE):
            topics = await topics_of(raw)
            cluster = await self._reader.snapshot(topics, METADATA_AGE_MS_MAX)
        if not command.dry:
            self._refuse_unreadable(cluster)
        return ConsumerInputs(raw, topics, cluster)

    def work(
        self,
        inputs: ConsumerInputs,
        source: Source,
        message_bytes_max: int,
        *,
        dry: bool = False,  # noqa: ARG002 - see GroupKind
    ) -> Work[PartitionPlan]:
        now_ms, seed = int(time.time() * 1000), zlib.crc32(inputs.raw.group_id.encode())
        arguments = inputs.raw, inputs.cluster, self.memory, now_ms, seed, message_bytes_max
        if source is Source.CHEAP:
            return Work(make_partitions, self._ruled(CHEAP_POLICY), arguments)
        # Weights and rules change; the solver's process knows one policy.
        portable = self._policy.name != LOAD_AWARE and not self.rules
        return Work(make_partitions, self._ruled(self._weighted()), arguments, portable)

    def proposed(self, proposal: Proposal[PartitionPlan]) -> None:
        """A plan says all that there is to remember of it."""

    def topics(self, inputs: ConsumerInputs | None, decision: Decision[PartitionPlan]) -> WatchedTopics:
        rack_aware = bool((decision.plan.group.rack != shared.NO_RACK).any())
        return WatchedTopics(inputs.topics if inputs is not None else (), rack_aware=rack_aware)

    def recordable(self, inputs: ConsumerInputs) -> object:  # noqa: ARG002 - the interface of all kinds
        return None

    def held(self, decision: Decision[PartitionPlan]) -> shared.IntArray:
        return decision.plan.before

    @staticmethod
    def worth_moving(decision: Decision[PartitionPlan]) -> str:
        """It must be more than another taste: partitions without an owner, or a fairer spread."""
        before, after = decision.plan.cost(decision.plan.before), decision.cost
        if before.unowned > after.unowned:
            return f"{before.unowned - after.unowned} partitions have no owner"
        if before.spread > after.spread and before.spread > 1:
            return f"the spread of partitions would go from {before.spread} to {after.spread}"
        return ""

    @staticmethod
    def differs(decision: Decision[PartitionPlan], former: Decision[PartitionPlan]) -> bool:  # noqa: ARG004 - see GroupKind
        found = decision.moves
        return bool(found.moved or found.new or found.lost)

    def delivered(self, decision: Decision[PartitionPlan]) -> None:
        self.memory = decision.plan.memory

    def forget(self) -> None:
        self.memory = Memory.empty()

    def doubt(self) -> None:
        """Plans are made from what members send and brokers answer, and there is nothing else to doubt."""

    digest = ""

    async def learn(self, members: tuple[AssignedMember, ...]) -> bool:  # noqa: ARG002 - the interface of all kinds
        return True

    async def recall(self, generation: int, protocol: str, members: Sequence[AssignedMember]) -> Memory:
        joined = tuple(RawMember(m.member_id, m.instance_id, m.metadata) for m in members)
        topics = topics_wanted(RawGroup("", generation, protocol, joined))
        cluster = await self._reader.snapshot(topics, METADATA_AGE_MS_MAX)
        return await asyncio.to_thread(consumer.recall, generation, protocol, cluster, members)

    def _refuse_unreadable(self, cluster: ClusterView) -> None:
        """A topic that could never be read would get no owners; members can read it, so one of them leads."""
        unknown = sorted(cluster.unreadable - self.memory.cluster.index.keys())
        if unknown:
            named = ", ".join(f"'{topic}'" for topic in unknown[:UNREADABLE_SHOWN])
            remedy = f"grant Bellwether's principal the ACL DESCRIBE on Topic {named}"
            reason = f"metadata of {len(unknown)} subscribed topics cannot be read; {remedy}"
            raise shared.RefusalError(shared.RefusalCause.TOPICS, reason)

    def _weighted(self) -> Policy:
        if self._weights is None or self._policy.name != LOAD_AWARE:
            return self._policy
        return replace(self._policy, load=replace(self._policy.load, weights=self._weights()))

    def _ruled(self, policy: Policy) -> Policy:
        return replace(policy, stages=(*policy.stages, consumer.OperatorRules(self.rules))) if self.rules else policy


def make_partitions(
    policy: Policy, raw: RawGroup, cluster: ClusterView, memory: Memory, now_ms: int, seed: int, message_bytes_max: int
) -> Proposal[PartitionPlan]:
    """The plan and the guard's findings: what a thread or the solver's process does. Raises RefusalError."""
    decision = consumer.decide(raw, cluster, memory, policy, now_ms, seed)
    if isinstance(decision, shared.Refusal):
        raise decision.error()
    return Proposal(decision, inspect(raw, decision, message_bytes_max=message_bytes_max))


async def topics_of(raw: RawGroup) -> tuple[str, ...]:
    """All subscribed topics, sorted. The way to a thread and back takes longer than reading what a small group says."""
    if sum(len(m.metadata) for m in raw.members) <= READ_AT_ONCE_BYTES:
        return topics_wanted(raw)
    return await asyncio.to_thread(topics_wanted, raw)


def heirs(removed: Sequence[str], memory: Memory, raw: RawGroup) -> dict[str, str]:
    """The ids under which removed leaders have come back. A broker makes member ids of the client id and a UUID; where
    several of one client id are new, nobody knows."""
    new = [m.member_id for m in raw.members if m.instance_id is None and m.member_id not in memory.index]
    back = {old: [n for n in new if n[:-UUID_LENGTH] == old[:-UUID_LENGTH]] for old in removed}
    return {old: found[0] for old, found in back.items() if len(found) == 1}
