"""Consumer groups: the implementation of `GroupKind` that the planner uses for them."""

import asyncio
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bellwether_kafka.assignors import consumer, shared
from bellwether_kafka.assignors.consumer import LOAD_AWARE, PartitionPlan, Policy, topics_wanted
from bellwether_kafka.assignors.shared import AssignedMember, ClusterView, Decision, Memory, RawGroup, RawMember
from bellwether_kafka.coordinator import clocks
from bellwether_kafka.coordinator.kafka.client import ClusterReader
from bellwether_kafka.coordinator.membership import MEMBER_ID_UUID_LENGTH, Decide
from bellwether_kafka.coordinator.planning.inspection import MESSAGE_BYTES_MAX, inspect
from bellwether_kafka.coordinator.planning.planned import METADATA_AGE_MS_MAX, Planned, SecondsLeft, WatchedTopics

CHEAP_POLICY = Policy(name=consumer.STICKY_MIN_CHURN)
# Share of the time until the deadline for reading metadata. It is large, because a plan takes milliseconds, but without
# metadata there is no plan and Bellwether has to leave the group.
METADATA_SHARE = 0.75
READ_AT_ONCE_BYTES = 1 << 16
UNREADABLE_SHOWN = 3


@dataclass(frozen=True, slots=True)
class ConsumerInputs:
    """The complete input of one plan, except the policy. `rules`: the policy's own and operators' orders. `weights` may
    change between plans; None if the policy uses none."""

    raw: RawGroup
    cluster: ClusterView
    memory: Memory
    now_ms: int
    rules: tuple[shared.Rule, ...] = ()
    weights: shared.Weights | None = None
    message_bytes_max: int = MESSAGE_BYTES_MAX
    cheap: bool = False

    record = None  # plans of consumers are replayed from the events alone

    def under(
        self,
        rules: tuple[shared.Rule, ...],
        message_bytes_max: int,
        *,
        cheap: bool = False,
        dry: bool = False,  # noqa: ARG002 - see Inputs
    ) -> "ConsumerInputs":
        return replace(self, rules=(*self.rules, *rules), message_bytes_max=message_bytes_max, cheap=cheap)

    def planned(self, policy: Policy) -> Planned[PartitionPlan]:
        """Returns the plan and the guard's findings. Raises RefusalError."""
        if self.cheap:
            policy = CHEAP_POLICY
        elif self.weights is not None:
            policy = policy.with_weights(self.weights)
        raw, seed = self.raw, zlib.crc32(self.raw.group_id.encode())
        policy = policy.with_rules(tuple(rule for rule in self.rules if rule not in policy.rules))
        decision = consumer.decide(raw, self.cluster, self.memory, policy, self.now_ms, seed)
        if isinstance(decision, shared.Refusal):
            raise decision.error()
        return Planned(decision, findings=inspect(raw, decision, message_bytes_max=self.message_bytes_max))


class ConsumerKind:
    """One consumer group. `memory` is what its members own, as far as Bellwether knows."""

    def __init__(
        self, reader: ClusterReader, policy: Policy, *, weights: Callable[[], shared.Weights] | None = None
    ) -> None:
        self.memory = Memory.empty()
        self._reader = reader
        self._policy = policy
        self._weights = weights if policy.name == LOAD_AWARE else None

    rules_refused = ""

    @property
    def policy(self) -> str:
        return self._policy.name

    @property
    def maker(self) -> Policy:
        return self._policy

    def uses_racks(self, protocol: str) -> bool:
        return self._policy.uses_racks(protocol)

    async def read(self, raw: RawGroup, command: Decide, left: SecondsLeft) -> ConsumerInputs:
        if command.removed:
            self.memory = self.memory.renamed(returned_ids(command.removed, self.memory, raw))
        async with asyncio.timeout(left() * METADATA_SHARE):
            topics = await topics_of(raw)
            cluster = await self._reader.snapshot(topics, METADATA_AGE_MS_MAX)
        if not command.dry:
            refuse_unreadable(cluster, self.memory.cluster)
        weights = self._weights() if self._weights is not None else None
        now_ms = int(clocks.wall() * 1000)
        return ConsumerInputs(raw, cluster, self.memory, now_ms, rules=self._policy.rules, weights=weights)

    def topics(self, decision: Decision[PartitionPlan]) -> WatchedTopics:
        group = decision.plan.group
        lists = {id(member.topics): member.topics for member in group.members}  # equal subscriptions share one tuple
        subscribed: set[str] = set().union(*lists.values())
        return WatchedTopics(tuple(sorted(subscribed)), rack_aware=bool((group.rack != shared.NO_RACK).any()))

    def present_owner(self, decision: Decision[PartitionPlan]) -> shared.IntArray:
        return decision.plan.before

    def assigned_sizes(self) -> dict[str, int]:
        return self.memory.assigned_sizes()

    @staticmethod
    def worth_moving(decision: Decision[PartitionPlan]) -> str:
        """Returns why the plan is worth a rebalance: partitions have no owner, or the spread would be fairer. "" for
        merely another equally good plan."""
        before, after = decision.plan.cost(decision.plan.before), decision.cost
        if before.unowned > after.unowned:
            return f"{before.unowned - after.unowned} partitions have no owner"
        if before.spread > after.spread and before.spread > 1:
            return f"the spread of partitions would go from {before.spread} to {after.spread}"
        return ""

    @staticmethod
    def differs(
        decision: Decision[PartitionPlan],
        former: Decision[PartitionPlan],  # noqa: ARG004 - see GroupKind
        rules: tuple[shared.Rule, ...],  # noqa: ARG004
    ) -> bool:
        moves = decision.moves
        return bool(moves.moved or moves.new or moves.lost)

    def delivered(self, planned: Planned[PartitionPlan]) -> None:
        self.memory = planned.decision.plan.memory

    def forget(self) -> None:
        self.memory = Memory.empty()

    def distrust(self) -> None:
        """Does nothing: plans depend only on what members send and brokers answer."""

    digest = ""

    async def learn(self, members: tuple[AssignedMember, ...]) -> bool:  # noqa: ARG002 - the interface of all kinds
        return True

    async def recall(
        self, generation: int, protocol: str, members: Sequence[AssignedMember], current: Callable[[], bool]
    ) -> None:
        joined = tuple(RawMember(m.member_id, m.instance_id, m.metadata) for m in members)
        topics = topics_wanted(RawGroup("", generation, protocol, joined))
        cluster = await self._reader.snapshot(topics, METADATA_AGE_MS_MAX)
        memory = await asyncio.to_thread(consumer.recall, generation, protocol, cluster, members)
        if current():
            self.memory = memory


def refuse_unreadable(cluster: ClusterView, remembered: ClusterView) -> None:
    """Raises RefusalError if a topic's metadata cannot be read and never could: it would get no owners, whereas a
    member can read it and should lead."""
    unknown = sorted(cluster.unreadable - remembered.index.keys())
    if unknown:
        named = ", ".join(f"'{topic}'" for topic in unknown[:UNREADABLE_SHOWN])
        remedy = f"grant Bellwether's principal the ACL DESCRIBE on Topic {named}"
        reason = f"metadata of {len(unknown)} topics cannot be read; {remedy}"
        raise shared.RefusalError(shared.RefusalCause.TOPICS, reason)


async def topics_of(raw: RawGroup) -> tuple[str, ...]:
    """Returns all subscribed topics, sorted. Small groups are decoded here, because switching to a thread would take
    longer."""
    if sum(len(m.metadata) for m in raw.members) <= READ_AT_ONCE_BYTES:
        return topics_wanted(raw)
    return await asyncio.to_thread(topics_wanted, raw)


def returned_ids(removed: Sequence[str], memory: Memory, raw: RawGroup) -> dict[str, str]:
    """Returns the new member ids of removed leaders that have come back, by old id. Brokers form a member id from the
    client id and a UUID, so a leader is left out if several members with its client id are new."""
    new = [m.member_id for m in raw.members if m.instance_id is None and m.member_id not in memory.index]
    back = {old: [n for n in new if n[:-MEMBER_ID_UUID_LENGTH] == old[:-MEMBER_ID_UUID_LENGTH]] for old in removed}
    return {old: successors[0] for old, successors in back.items() if len(successors) == 1}
