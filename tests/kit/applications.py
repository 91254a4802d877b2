"""Where a Streams planner gets its facts from, in tests: a cluster, offsets and a topology that the test holds; and
applications that are led."""

import asyncio
import time
from collections.abc import Coroutine, Mapping
from typing import Any

import numpy as np

from bellwether_kafka.assignors.shared import AssignedMember, ClusterView, RawMember, Rule
from bellwether_kafka.assignors.streams import Assignors, TaskPlan
from bellwether_kafka.assignors.streams.application import AssignmentConfigs, EndOffsets, Topology
from bellwether_kafka.coordinator.kafka.client import Offsets, OffsetsError
from bellwether_kafka.coordinator.membership import Decide, Event, JoinedMember, MembershipView, State
from bellwether_kafka.coordinator.planning import (
    Planned,
    Planner,
    StreamsConfig,
    StreamsKind,
)
from bellwether_kafka.coordinator.runtime import Brokers, GroupReader, GroupWatch
from tests.kit.consumers import cluster_of
from tests.kit.membership import ME, Play, member
from tests.kit.streams import NOW_MS, OWN, SHOP, SHOP_COUNTS, SIMPLE, Thread, group, led

A, B, C = Thread("a", 1), Thread("b", 2), Thread("c", 3)
RETURNED = Thread("b-again", 2)  # b's process, restarted


class Cluster:
    """Topics with partitions. `trouble` is raised instead of an answer."""

    def __init__(self, counts: Mapping[str, int] = SHOP_COUNTS) -> None:
        self.counts = dict(counts)
        self.unreadable: frozenset[str] = frozenset()
        self.trouble: Exception | None = None
        self.fresh_takes_s = 0.0
        self.asked: list[tuple[str, ...]] = []

    async def snapshot(self, topics: tuple[str, ...], age_ms_max: int) -> ClusterView:
        self.asked.append(topics)
        if self.trouble is not None:
            raise self.trouble
        if age_ms_max <= 1_000:
            await asyncio.sleep(self.fresh_takes_s)
        view = cluster_of({t: n for t, n in self.counts.items() if t in topics})
        return ClusterView.of(
            {t: [["a"]] * int(view.counts[i]) for i, t in enumerate(view.topics)}, unreadable=self.unreadable
        )


class Log:
    """Log ends and committed offsets, the same for every partition by default."""

    def __init__(self, end: int = 1000, committed: int = 1000) -> None:
        self.end = end
        self.done = committed
        self.failure: str | None = None
        self.asked: list[tuple[str, ...]] = []

    async def end_offsets(
        self,
        group_id: str,
        latest: Mapping[str, int],
        committed: Mapping[str, int],
        limit_s: float,
    ) -> EndOffsets:
        self.asked.append(tuple(sorted([*latest, *committed])))
        if self.failure is not None:
            return EndOffsets.failed(self.failure)
        return EndOffsets({**await self.ends(latest, limit_s), **await self.ends(committed, limit_s)}, NOW_MS)

    async def ends(self, topics: Mapping[str, int], limit_s: float) -> Offsets:
        if self.failure is not None:
            raise OffsetsError(self.failure)
        return {t: np.full(n, self.end, dtype=np.int64) for t, n in topics.items()}

    async def committed(self, group_id: str, topics: Mapping[str, int], limit_s: float) -> Offsets:
        return {t: np.full(n, self.done, dtype=np.int64) for t, n in topics.items()}


class TopologySource:
    """A topology that is known, and internal topics that `cluster` gets when they are asked for."""

    def __init__(self, topology: Topology | None = SHOP, creates: Mapping[str, int] | None = None) -> None:
        self.topology = topology
        self.creates = dict(creates or {})
        self.mismatch = ""
        self.learned_from_members: frozenset[str] = frozenset()
        self.observed: list[tuple[AssignedMember, ...]] = []
        self.completed: list[Topology] = []
        self.cluster: Cluster | None = None

    async def refresh(self) -> None: ...

    async def observe(self, members: tuple[AssignedMember, ...]) -> None:
        self.observed.append(members)

    def settle(self, topology: Topology) -> None:
        self.topology = topology

    async def complete(self, topology: Topology, cluster: ClusterView, limit_s: float) -> frozenset[str] | None:
        self.completed.append(topology)
        missing = {t: n for t, n in self.creates.items() if t not in cluster.index}
        if self.cluster is not None:
            self.cluster.counts |= missing
        return frozenset(missing) if missing else None


class App:
    """A planner with everything it asks. Time does not pass until a test moves it (`at_s`)."""

    def __init__(
        self,
        *,
        cluster: Cluster | None = None,
        log: Log | None = None,
        topology_source: TopologySource | None = None,
        attested: bool = False,
        standby_lag_max: int | None = None,
        standbys_unknown: bool = False,
        assignors: Assignors = SIMPLE,
        **configs: Any,
    ) -> None:
        self.cluster, self.log, self.topology_source = (
            cluster or Cluster(),
            log or Log(),
            topology_source or TopologySource(),
        )
        self.topology_source.cluster = self.cluster
        self.at_s = NOW_MS / 1000
        config = StreamsConfig(
            "shop",
            topology_attested=attested,
            configs=AssignmentConfigs(**configs),
            task_stall_ms=60_000,
            standby_lag_max=standby_lag_max,
            standbys_unknown=standbys_unknown,
        )
        reader: Any = self.cluster
        topologies: Any = self.topology_source
        self.kind = StreamsKind("shop", config, reader, self.log, topologies, assignors, wall_clock=lambda: self.at_s)
        self.planner = Planner("shop", self.kind)

    def order(self, generation: int, *threads: Thread | RawMember, deadline: float) -> Decide:
        raw = [t.raw if isinstance(t, Thread) else t for t in threads]
        members = [JoinedMember(m.member_id, m.instance_id, m.metadata) for m in raw]
        return Decide(generation, "stream", (*members, JoinedMember(OWN, None, b"")), OWN, deadline)


def order(app: App, generation: int, *threads: Thread | RawMember, seconds: float = 5.0) -> Decide:
    return app.order(generation, *threads, deadline=time.monotonic() + seconds)


async def lead(app: App, generation: int, *threads: Thread) -> Planned[TaskPlan]:
    planned = await app.planner.plan(order(app, generation, *threads))
    assert (reported := app.planner.delivered(generation)) is not None
    assert reported.decision.plan is planned.decision.plan
    return planned


def after(planned: Planned[TaskPlan], *threads: Thread) -> list[Thread]:
    return [thread.after(planned.decision) for thread in threads]


STARTED_S = 500.0  # by the monotonic clock, which has nothing in common with the wall clock


class Led:
    """An application that is led by a machine at rest, and what its watch says."""

    def __init__(self, app: App | None = None, assignors: Assignors = SIMPLE) -> None:
        self.app = app or App()
        self.app.kind._assignors = assignors
        self.play = Play(protocols=("stream",)).joining().joined(member(ME), member("a"), protocol="stream")
        self.message: list[Event] = []
        self.last: Planned[TaskPlan] | None = None
        self.set_by_s = self.app.at_s - STARTED_S  # by how much the wall clock is ahead of the monotonic one
        log: Any = self.app.log
        nothing: Any = None
        self.reader = GroupReader(
            self.app.planner,
            Brokers(groups=nothing, commits=nothing, offsets=log),
            application=self.app.kind,
            clock=lambda: self.app.at_s - self.set_by_s,
            wall_clock=lambda: self.app.at_s,
        )
        self.watch = GroupWatch(self.reader)

    @property
    def membership(self) -> MembershipView:
        return self.play.machine.view

    def post(self, event: Event) -> None:
        self.message.append(event)

    async def rebalance(self, generation: int, *threads: Thread) -> None:
        command = self.app.order(generation, *threads, deadline=time.monotonic() + 5)
        planned = await self.app.planner.plan(command)
        self.app.planner.delivered(generation)
        self.last = planned
        self.watch.on_decision(planned)
        if self.play.state is State.DECIDING:
            self.play.planned().synced()

    async def later(self, seconds: float) -> list[Event]:
        self.app.at_s += seconds
        self.watch.turn(self)
        while self.watch.tasks:
            await asyncio.gather(*self.watch.tasks)
        message, self.message[:] = list(self.message), []
        return message


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


IN_AZ1, IN_AZ2, WITHOUT_RACK = Thread("a", 1, rack="az1"), Thread("b", 2, rack="az2"), Thread("c", 3)
ONE_STANDBY = AssignmentConfigs(num_standby_replicas=1)
FIRST = led(group(IN_AZ1, IN_AZ2), configs=ONE_STANDBY)
GROWN = led(
    group(IN_AZ1.after(FIRST), IN_AZ2.after(FIRST), WITHOUT_RACK, generation=2),
    configs=ONE_STANDBY,
    memory=FIRST.plan.memory,
    now_ms=NOW_MS + 5,
)


def under(planner: Planner[Any], rules: tuple[Rule, ...]) -> None:
    """All later plans follow these."""

    async def rules_in_force() -> tuple[Rule, ...]:
        return rules

    planner.rules_in_force = rules_in_force
