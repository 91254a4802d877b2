"""The readings of one group to lead between rebalances, each made while a trigger wants it."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import structlog

from bellwether_kafka.assignors.consumer import Policy
from bellwether_kafka.assignors.shared import Decision, LongArray, Weights
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.assignors.streams.application import end_sums, wanted_offsets
from bellwether_kafka.coordinator import clocks, membership
from bellwether_kafka.coordinator.kafka.client import OffsetReader, Offsets, OffsetsError
from bellwether_kafka.coordinator.kafka.wire import AnyCommitted, TransportError
from bellwether_kafka.coordinator.observation import MemberlessCommits
from bellwether_kafka.coordinator.planning import Planned, Planner, RackFile, StreamsKind
from bellwether_kafka.coordinator.triggers import NOTHING_COMMITTED, RacksGain, Reading, tasks_to_move, would_move
from bellwether_kafka.coordinator.watching import every
from bellwether_kafka.protocol.primitives import TaskId

LIMIT_S = 5.0
COMPARE_S_MAX = 10.0
RACK_FILE_S = 1.0

Fresh = dict[str, Any]  # fields of `triggers.Picture`

log = structlog.get_logger(__name__)


class DescribesGroups(Protocol):
    """The part of `groups.Describer` that this module uses. It combines simultaneous requests to a node."""

    def describe_group(self, group_id: str) -> Awaitable[membership.DescribeAnswer]: ...


class CommitReader(Protocol):
    """The part of `kafka.Transport` that this module uses."""

    def any_committed(self, group_id: str) -> Awaitable[AnyCommitted]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Brokers:
    """What groups are read from."""

    groups: DescribesGroups
    commits: CommitReader
    offsets: OffsetReader


class GroupReader:
    """Reads one group. `planned` is the last plan that its members have. `policy` and `weights` are those of plain
    consumers, `application` is the kind of an application."""

    def __init__(
        self,
        planner: Planner[Any],
        brokers: Brokers,
        *,
        policy: Policy | None = None,
        weights: Callable[[], Weights] | None = None,
        application: StreamsKind | None = None,
        clock: Callable[[], float] = clocks.monotonic,
        wall_clock: Callable[[], float] = clocks.wall,
    ) -> None:
        self.group_id = planner.group_id
        self.planned: Planned[Any] | None = None
        self.planner, self.application = planner, application
        self.clock, self.wall_clock = clock, wall_clock
        self.described_bytes = 0
        self._brokers = brokers
        self._policy, self._weights = policy, weights
        self._commits: MemberlessCommits | None = None
        self._readers: dict[Reading, Callable[[membership.MembershipView], Awaitable[Fresh]]] = {
            Reading.DESCRIPTION: self._description,
            Reading.HOSTS: self._hosts,
            Reading.OFFSETS: self._offsets,
            Reading.END_SUMS: self._end_sums,
            Reading.MOVED: self._moved,
            Reading.RACKS: self._racks,
            Reading.TOPICS: self._topics,
            Reading.COMMITS: self._committed,
        }

    async def read(self, reading: Reading, member: membership.MembershipView) -> Fresh:
        """Returns what is new for a picture. Raises what brokers and plans raise."""
        return await self._readers[reading](member)

    def forget_commits(self) -> None:
        """Begins the readings of a group without members anew."""
        self._commits = None

    async def objection(self, decision: Decision[TaskPlan]) -> str:
        """Returns why a rebalance would stop the application now, "" for no reason."""
        if self.application is None:
            return ""
        return await self.application.objection(decision.plan.topology, LIMIT_S)

    async def _description(self, _member: membership.MembershipView) -> Fresh:
        described = membership.shown(await self._brokers.groups.describe_group(self.group_id))
        self.planner.racks.observe(described.members)
        self.described_bytes = sum(len(m.metadata) + len(m.assignment) for m in described.members)
        return {"shown": described} if described.state == membership.GroupState.STABLE else {}

    async def _hosts(self, _member: membership.MembershipView) -> Fresh:
        self.planner.racks.observe((await self._brokers.groups.describe_group(self.group_id)).members)
        return {}

    async def _racks(self, member: membership.MembershipView) -> Fresh:
        """Compares a plan by the racks of members that are known now."""
        planner = self.planner
        others = tuple(m for m in member.members if m.member_id != member.member_id)
        if planner.racks.lacks(others):
            try:
                await self._hosts(member)
            except TransportError as error:
                log.debug("hosts_not_read", group=self.group_id, reason=str(error))
        version, changed, reason = planner.racks.version, planner.racks_changed(others), ""
        if changed:
            reason = await planner.gain_of_racks(dry_plan(member, COMPARE_S_MAX))
        if changed is None:
            return {}
        return {"gain": RacksGain(version=version, reason=reason, again=planner.racks.lacks(others))}

    async def _moved(self, _member: membership.MembershipView) -> Fresh:
        planned, kind = self.planned, self.application
        if planned is None:
            return {}
        decision = planned.decision
        if kind is not None:
            now_ms = int(self.wall_clock() * 1000)
            return {"moved": await asyncio.to_thread(tasks_to_move, decision, kind.policy, kind.maker, now_ms)}
        if self._policy is None or self._weights is None:
            return {}
        by = self._policy, self._weights(), planned.rules
        return {"moved": await asyncio.to_thread(would_move, decision, *by)}

    async def _offsets(self, _member: membership.MembershipView) -> Fresh:
        decision = self._task_decision
        if decision is None:
            return {}
        cluster, of = decision.cluster, self._brokers.offsets
        counts = {t: int(cluster.counts[cluster.index[t]]) for t in decision.plan.topology.source_topics}
        committed, ends = await asyncio.gather(of.committed(self.group_id, counts, LIMIT_S), of.ends(counts, LIMIT_S))
        return {"offsets": (_flat(decision, committed), _flat(decision, ends))}

    async def _end_sums(self, _member: membership.MembershipView) -> Fresh:
        """Reads the present end sums of stateful tasks; those that are not known are left out."""
        decision = self._task_decision
        if decision is None:
            return {}
        counts = dict(zip(decision.cluster.topics, decision.cluster.counts.tolist(), strict=True))
        latest, committed = wanted_offsets(decision.plan.topology, counts)
        ends = await self._brokers.offsets.end_offsets(self.group_id, latest, committed, LIMIT_S)
        if ends.failure is not None:
            raise OffsetsError(ends.failure)
        sums: dict[TaskId, int] = {}
        for row, subtopology in enumerate(decision.plan.topology.subtopologies):
            first, last = int(decision.plan.tasks.first[row]), int(decision.plan.tasks.first[row + 1])
            of_tasks = end_sums(subtopology, last - first, ends) if subtopology.stateful else ""
            if not isinstance(of_tasks, str):
                sums |= {decision.plan.view.tasks.task_id(first + i): end for i, end in enumerate(of_tasks.tolist())}
        return {"end_sums": sums}

    @property
    def _task_decision(self) -> Decision[TaskPlan] | None:
        return self.planned.decision if self.planned is not None else None

    async def _topics(self, _member: membership.MembershipView) -> Fresh:
        if self.application is not None:
            await self.application.prepare(LIMIT_S)
        return {}

    async def _committed(self, _member: membership.MembershipView) -> Fresh:
        """Takes one more reading since the group has had no members, unless one may have committed meanwhile.

        Consumers that assign themselves partitions, or a mirror of another cluster, write offsets then."""
        answer = await self._brokers.commits.any_committed(self.group_id)
        if answer.error:
            raise membership.NotShownError(membership.name_of(answer.error))
        at_ms = int(self.clock() * 1000)
        before = self._commits or MemberlessCommits(at_ms)
        after = before.after(answer.offsets, at_ms)
        if after.moves > before.moves and not await self._is_memberless():
            self._commits = None
            return {}
        if after.moves == 1 and not before.moves:
            log.info("offsets_committed_without_members", group=self.group_id)
        self._commits = after
        return {"commits": membership.OffsetsRead(answer.committed, after.moves, after.rest_ms / 1000)}

    async def _is_memberless(self) -> bool:
        described = await self._brokers.groups.describe_group(self.group_id)
        return not described.error and described.state == membership.GroupState.EMPTY and not described.members


def dry_plan(member: membership.MembershipView, limit_s: float) -> membership.Decide:
    """Returns the command for a plan of the present members that is only compared with what they have."""
    deadline = clocks.monotonic() + limit_s
    return membership.Decide(member.generation, member.protocol, member.members, member.member_id, deadline, dry=True)


def _flat(decision: Decision[TaskPlan], offsets: Offsets) -> LongArray:
    """Returns offsets by flat partition of the decision's cluster; NOTHING_COMMITTED where none were read."""
    cluster = decision.cluster
    flat = np.full(cluster.partition_total, NOTHING_COMMITTED, dtype=np.int64)
    for topic, values in offsets.items():
        first = int(cluster.first[cluster.index[topic]])
        flat[first : first + len(values)] = values
    return flat


async def watch_rack_file(file: RackFile) -> None:
    """Reads the file again when it changes, beside the groups, which do not wait for it: its file system may hang. Runs
    until cancelled."""
    await every(RACK_FILE_S, lambda: asyncio.to_thread(file.refresh, clocks.monotonic()), log, "rack_file_not_watched")
