"""The plan part of a decision for a consumer group: partitions and their owners."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from bellwether_kafka.assignors import shared
from bellwether_kafka.assignors.consumer import operator_rules
from bellwether_kafka.assignors.consumer.chain import Problem
from bellwether_kafka.assignors.consumer.follow_up import unreleased
from bellwether_kafka.assignors.consumer.plan_cost import alternatives, crossing, score
from bellwether_kafka.assignors.consumer.validate import validate
from bellwether_kafka.assignors.consumer.views import static_digests
from bellwether_kafka.assignors.shared import NO_RACK, NOBODY, BoolArray, ClusterView, GroupView, IntArray, LongArray
from bellwether_kafka.protocol.bulk import owner_of
from bellwether_kafka.protocol.messages import STICKY
from bellwether_kafka.protocol.primitives import ProtocolError


@dataclass(frozen=True, eq=False)  # no slots: some values are computed on first use
class PartitionPlan:
    """The plan of a consumer group. `before` and `target` are in the coordinates of `group` and `cluster`. `joined` are
    the members as they joined, without Bellwether's own. `echoes` is the userData written into assignments, by member.
    `rules` are the operator's, under which it was made, and `by` is the policy, as in `Memory`. See `GroupPlan`."""

    group: GroupView
    cluster: ClusterView
    before: IntArray
    target: shared.Plan
    joined: tuple[shared.RawMember, ...]
    echoes: Mapping[int, bytes]
    rules: tuple[shared.Rule, ...] = ()
    by: str = ""

    words = shared.Words("consumer", "partition", "member", "members")
    replayable = True
    shutdown = False
    application = ""

    @property
    def state(self) -> shared.NoState:
        return shared.NoState(len(self.owner))

    @property
    def owner(self) -> IntArray:
        return self.target.owner

    @property
    def pending(self) -> BoolArray:
        return self.target.pending

    @property
    def item_of(self) -> IntArray:
        return np.arange(len(self.owner), dtype=np.int32)

    @cached_property
    def owners(self) -> tuple[shared.Owner, ...]:
        return tuple(
            shared.Owner(
                name=m.member_id,
                rack=m.rack,
                members=(m.member_id,),
                instance_id=m.instance_id,
                topics=frozenset(m.topics),
                degraded=m.degraded,
                leader_only=m.leader_only,
            )
            for m in self.group.members
        )

    @cached_property
    def _cost(self) -> shared.Cost:
        return score(self.group, self.cluster, self.owner)

    @cached_property
    def memory(self) -> shared.Memory:
        """The memory of this plan, to be stored only after SyncGroup has succeeded."""
        group, sent, digests = self.group, self.target.sent, static_digests(self.joined)
        echoes = {group.members[m].key: data for m, data in self.echoes.items()}
        plan = shared.Memory.of(group.generation, self.cluster, sent, group.members, digests=digests, echoes=echoes)
        holder, asked = unreleased(group, sent)
        if not self.pending.any():
            return replace(plan, holder=holder, asked=asked)
        return replace(plan, holder=holder, asked=asked, target=self.owner, rules=self.rules, by=self.by)

    def in_generation(self, generation: int) -> Self:
        return replace(self, group=replace(self.group, generation=generation))

    def name(self, item: int) -> str:
        topic, partition = self.cluster.name(item)
        return f"{topic}-{partition}"

    def names(self, items: IntArray | LongArray) -> list[str]:
        cluster = self.cluster
        topic = np.searchsorted(cluster.first, items, side="right") - 1
        numbers = items - cluster.first[topic]
        return [f"{cluster.topics[t]}-{p}" for t, p in zip(topic.tolist(), numbers.tolist(), strict=True)]

    def cost(self, owner: IntArray) -> shared.Cost:
        return self._cost if owner is self.owner else score(self.group, self.cluster, owner)

    def read_remotely(self, owner: IntArray) -> tuple[BoolArray, BoolArray]:
        cluster = self.cluster
        comparable = np.logical_or.reduce(cluster.signature_racks, axis=1)[cluster.signature]
        comparable &= (owner != NOBODY) & (self.group.rack[owner] != NO_RACK)
        return comparable, crossing(self.group, cluster, owner)

    def topic_changes(self, previous: Self) -> list[str]:
        old, new = previous.cluster, self.cluster
        changes: list[str] = []
        for topic in sorted(set(old.topics) | set(new.topics)):
            before, after = _partitions(old, topic), _partitions(new, topic)
            if before == 0 < after:
                changes.append(f"topic {topic} appeared with {self.words.items(after)}")
            elif after == 0 < before:
                changes.append(f"topic {topic} is gone")
            elif before != after:
                changes.append(f"topic {topic} went from {before} to {after} partitions")
        return changes

    def summary(self) -> dict[str, object]:
        return {
            "protocol": self.group.protocol,
            "members": self.group.size,
            "partitions": int((self.owner != NOBODY).sum()),
            "unowned": self._cost.unowned,
            "spread": self._cost.spread,
        }

    def findings(self, raw: shared.RawGroup, assignments: Sequence[tuple[str, bytes]]) -> tuple[str, ...]:
        return tuple(self._findings(raw, dict(assignments)))

    def _findings(self, raw: shared.RawGroup, blobs: Mapping[str, bytes]) -> Iterator[str]:
        theirs = [m.member_id for m in raw.others]
        own = [m.member_id for m in raw.members if m.member_id in raw.own_member_ids]
        try:
            sent = owner_of([blobs[i] for i in (*theirs, *own)], self.cluster.topics, self.cluster.first)
        except ProtocolError as error:
            yield f"the assignments do not read back: {error}"
            return
        if (sent >= len(theirs)).any():
            yield "Bellwether's own member would get partitions"
        expected = self.target.sent
        if not np.array_equal(sent, expected):
            wrong = int(np.argmax(sent != expected))
            yield f"what is sent is not the plan without its pending partitions, first at {self.cluster.name(wrong)}"
        yield from validate(self.group, self.cluster, self.target, holds_claims=raw.protocol != STICKY)

    def placed_by(self, item: int, policy: str, stages: Sequence[shared.StageReport]) -> str:  # noqa: ARG002 - see GroupPlan
        """Returns the name of the stage that took this partition from its owner, else of the last that changed its
        owner."""
        owner, last_stage = NOBODY, ""
        for stage in stages:
            if stage.released is not None and stage.released[item]:
                return stage.stage
            if stage.owner is not None and stage.taken and int(stage.owner[item]) != owner:
                owner, last_stage = int(stage.owner[item]), stage.stage
        return last_stage

    def rejected_claims(self, item: int) -> tuple[str, ...]:
        return tuple(f"{self.joined[row].member_id} {what}" for row, what in self.group.refused.of([item]))

    def why_moved(self, item: int, stages: Sequence[shared.StageReport]) -> str:
        return f"by {self.placed_by(item, '', stages)}"

    def alternatives(self, item: int, most: int) -> tuple[shared.Alternative, ...]:
        return alternatives(self, item, most)

    def infeasible(self, rule: shared.Rule, others: Sequence[shared.Rule]) -> str:
        return operator_rules.infeasible(Problem(self.group, self.cluster, self.before), rule, others)

    def against(self, rules: Sequence[shared.Rule], owner: IntArray) -> IntArray:
        return operator_rules.against(Problem(self.group, self.cluster, self.before), rules, owner)

    def named(self, where: str) -> BoolArray:
        return np.array([operator_rules.matches(member, where) for member in self.group.members], dtype=np.bool_)

    def find(self, text: str) -> list[int]:
        if text in self.group.members.ids:
            return [int(flat) for flat in np.flatnonzero(self.owner == self.group.members.ids.index(text))]
        flats = self.cluster.flats_of(text)
        if not len(flats):
            partitions = f"a partition (TOPIC-N of {', '.join(self.cluster.topics)})"
            raise shared.UnknownItemError(f"{text} is neither a topic nor {partitions} nor a member of the group.")
        return [int(flat) for flat in flats]


def _partitions(cluster: ClusterView, topic: str) -> int:
    return int(cluster.counts[cluster.index[topic]]) if topic in cluster.index else 0
