"""What the leader of a Streams application does between rebalances: probing rebalances, checks of lagging standbys, of
tasks without progress and of uneven load, and the creation of internal topics before they are needed.

`probing` and `work` have the rules; this module reads offsets, keeps time and posts events. It acts only while the
group is stable.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Protocol

import numpy as np
import structlog

from bellwether_kafka.assignors.shared import Decision, LongArray
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.assignors.streams.application import end_sums, wanted_offsets
from bellwether_kafka.assignors.streams.policies import LOAD_AWARE
from bellwether_kafka.coordinator import clocks
from bellwether_kafka.coordinator.kafka.client import ClusterUnreachableError, OffsetReader, Offsets, OffsetsError
from bellwether_kafka.coordinator.membership import (
    PROGRESS,
    Event,
    MembershipView,
    RebalanceWanted,
    State,
    StepAsideWanted,
    WorkSuspected,
)
from bellwether_kafka.coordinator.planning import Planned, StreamsKind
from bellwether_kafka.coordinator.topology import TopicCreationError
from bellwether_kafka.coordinator.triggers.load_requests import LoadRequests
from bellwether_kafka.coordinator.triggers.load_watch import task_owners, tasks_to_move
from bellwether_kafka.coordinator.triggers.probing import Prober, ProbingFacts
from bellwether_kafka.coordinator.triggers.work import NOTHING_COMMITTED, HandBack, Verdict, WorkWatch
from bellwether_kafka.protocol.primitives import TaskId

TICK_S = 0.5
ENDS_INTERVAL_S = 30.0
PREPARE_INTERVAL_S = 30.0
HELD_BACK_S = 30.0  # how long a request that would stop the application is held back
LIMIT_S = 5.0

log = structlog.get_logger(__name__)


class LedApplication(Protocol):
    """The part of `runtime.GroupRunner` that this module uses."""

    @property
    def membership(self) -> MembershipView: ...
    def post(self, event: Event) -> None: ...


class StreamsWatch:
    """Watches one application. For one event loop."""

    def __init__(
        self,
        kind: StreamsKind,
        offsets: OffsetReader,
        *,
        clock: Callable[[], float] = clocks.monotonic,
        wall_clock: Callable[[], float] = clocks.wall,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        config, configs = kind.config, kind.config.configs
        self.group_id = kind.group_id
        self._kind = kind
        self._offsets = offsets
        self._clock = clock
        self._wall_clock = wall_clock
        self._sleep = sleep
        interval_ms = configs.probing_rebalance_interval_ms
        self._prober = Prober(configs.acceptable_recovery_lag, interval_ms, config.standby_lag_max)
        self._work = WorkWatch(config.task_stall_ms, reports=not config.stateful)
        self._pending: Verdict | None = None  # the verdict after the last plan
        self._ends_at = self._progress_at = self._prepare_at = self._held_back_at = float("-inf")
        self._load_at = float("-inf")
        self._load = LoadRequests()
        self._ends: dict[TaskId, int] = {}
        self._ordered = False  # an operator ordered what is planned but not reached yet

    def on_decision(self, planned: Planned[TaskPlan]) -> None:
        """Takes a delivered plan; an observer of decisions for the runtime."""
        decision = planned.decision
        self._ends = {}
        if decision.plan.shutdown:
            self._forget()
            return
        self._ordered = bool(planned.ordered) or (self._ordered and decision.probing_at_ms is not None)
        self._prober.planned(ProbingFacts.of(decision, ordered=self._ordered))
        timed = replace(decision, decided_at_ms=self._steady_ms())
        if not decision.followup and decision.probing_at_ms is None:  # otherwise tasks are on their way
            self._load = self._load.planned(task_owners(decision))
        self._pending = self._work.planned(timed)

    async def run(self, led: LedApplication) -> None:
        """Runs until cancelled. Silent brokers and errors of its own are logged and do not end it."""
        while True:
            await self._sleep(TICK_S)
            try:
                await self.tick(led)
            except OffsetsError as error:
                log.warning("offsets_unknown", group=self.group_id, reason=str(error))
            except TopicCreationError as error:
                log.warning("internal_topics_not_created", group=self.group_id, reason=str(error))
            except (TimeoutError, ClusterUnreachableError) as error:
                log.warning("metadata_unknown", group=self.group_id, reason=str(error) or "no answer in time")
            except Exception:
                log.exception("streams_watch_crashed", group=self.group_id)

    async def tick(self, led: LedApplication) -> None:
        """Does everything that is due."""
        membership = led.membership
        if membership.state in (State.WATCHING, State.STOPPED):
            self._forget()
        if membership.state is not State.STABLE:
            return
        if membership.alone:
            for event in self._events(self._work.alone(self._steady_ms())):
                led.post(event)
            await self._prepare()
            return
        async for event in self._due_events():
            if led.membership.generation == membership.generation:
                led.post(event)

    async def _due_events(self) -> AsyncIterator[Event]:
        """Yields what is due, each event before the next await: a verdict is given once, and would be lost if a later
        check raised. Verdicts come first, because a membership that rejoins takes none. A check that raises is raised
        after the others: one for which brokers have no answer must not keep warm-ups waiting for a probe."""
        shown, self._pending = self._pending, None
        for event in self._events(shown):
            yield event
        failed: Exception | None = None
        for check in (self._check_work, self._probe, self._check_load):
            try:
                async for event in check():
                    yield event
            except Exception as error:  # noqa: BLE001 - it is raised below
                failed = failed or error
        if failed is not None:
            raise failed

    async def _prepare(self) -> None:
        if self._due(self._prepare_at, PREPARE_INTERVAL_S):
            self._prepare_at = self._clock()
            await self._kind.prepare(LIMIT_S)

    async def _probe(self) -> AsyncIterator[Event]:
        if self._prober.wants_ends and self._due(self._ends_at, ENDS_INTERVAL_S):
            self._ends_at = self._clock()
            self._ends = await self._task_ends()
        reason = self._prober.due(self._now_ms(), self._ends)
        if reason is not None and not await self._would_stop_application(reason):
            yield RebalanceWanted(reason, PROGRESS)

    async def _would_stop_application(self, reason: str) -> bool:
        """Returns whether any rebalance would stop the application, so that a request for one with this reason must be
        held back. Raises TimeoutError and ClusterUnreachableError."""
        decision = self._work.decision
        if decision is None:
            return False
        if not self._due(self._held_back_at, HELD_BACK_S):
            return True
        objection = await self._kind.objection(decision.plan.topology, LIMIT_S)
        if objection:
            self._held_back_at = self._clock()
            log.warning("request_held_back", group=self.group_id, request=reason, reason=objection)
        return bool(objection)

    async def _check_load(self) -> AsyncIterator[Event]:
        """Yields a request for a rebalance if `load-aware` would now give tasks other destinations."""
        decision = self._work.decision
        if self._kind.policy != LOAD_AWARE or decision is None or not self._due(self._load_at, self._load.interval_s):
            return
        self._load_at = self._clock()
        by = self._kind.policy, self._kind.maker
        moved = await asyncio.to_thread(tasks_to_move, decision, *by, self._now_ms())
        reason = f"the load of processes is uneven, {moved} tasks would move"
        if not moved or self._work.decision is not decision or await self._would_stop_application(reason):
            return
        self._load = self._load.requested(task_owners(decision))
        yield RebalanceWanted(reason, "load")

    async def _check_work(self) -> AsyncIterator[Event]:
        """Yields what members' progress shows, then a request for a rebalance that would show more."""
        decision = self._work.decision
        if decision is None or not self._due(self._progress_at, self._work.interval_ms / 1000):
            return
        self._progress_at = self._clock()
        cluster, of = decision.cluster, self._offsets
        counts = {t: int(cluster.counts[cluster.index[t]]) for t in decision.plan.topology.source_topics}
        asked = of.ends(counts, LIMIT_S), of.committed(self.group_id, counts, LIMIT_S)
        try:
            ends, committed = await asyncio.gather(*asked)
        except Exception:
            self._work.unknown(self._steady_ms())
            raise
        if self._work.decision is not decision:
            return  # a new plan came in between
        finding = self._work.refresh(decision, _flat(decision, committed), _flat(decision, ends), self._steady_ms())
        for event in self._events(finding.verdict):
            yield event
        if finding.ask and not await self._would_stop_application(finding.ask):
            yield RebalanceWanted(finding.ask, PROGRESS)

    @staticmethod
    def _events(verdict: Verdict | None) -> list[Event]:
        if verdict is None:
            return []
        return [StepAsideWanted(verdict.reason) if isinstance(verdict, HandBack) else WorkSuspected(verdict.reason)]

    async def _task_ends(self) -> dict[TaskId, int]:
        """Returns the present end sums of stateful tasks; those that are not known are left out."""
        decision = self._work.decision
        if decision is None:
            return {}
        counts = dict(zip(decision.cluster.topics, decision.cluster.counts.tolist(), strict=True))
        latest, committed = wanted_offsets(decision.plan.topology, counts)
        ends = await self._offsets.end_offsets(self.group_id, latest, committed, LIMIT_S)
        if ends.failure is not None:
            raise OffsetsError(ends.failure)
        task_ends: dict[TaskId, int] = {}
        for row, subtopology in enumerate(decision.plan.topology.subtopologies):
            first, last = int(decision.plan.tasks.first[row]), int(decision.plan.tasks.first[row + 1])
            sums = end_sums(subtopology, last - first, ends) if subtopology.stateful else ""
            if not isinstance(sums, str):
                task_ends |= {decision.plan.view.tasks.task_id(first + i): end for i, end in enumerate(sums.tolist())}
        return task_ends

    def _forget(self) -> None:
        self._prober.forget()
        self._work.forget()
        self._pending = None
        self._ends = {}
        self._ordered = False
        self._load = LoadRequests()

    def _due(self, last: float, interval_s: float) -> bool:
        return self._clock() - last >= interval_s

    def _steady_ms(self) -> int:
        """Returns the time for comparisons within this process: when the clock is set, or the machine was suspended,
        members have not stood still meanwhile."""
        return int(self._clock() * 1000)

    def _now_ms(self) -> int:
        return int(self._wall_clock() * 1000)


def _flat(decision: Decision[TaskPlan], offsets: Offsets) -> LongArray:
    """Returns offsets by flat partition of the decision's cluster; NOTHING_COMMITTED where none were read."""
    cluster = decision.cluster
    flat = np.full(cluster.partition_total, NOTHING_COMMITTED, dtype=np.int64)
    for topic, values in offsets.items():
        first = int(cluster.first[cluster.index[topic]])
        flat[first : first + len(values)] = values
    return flat
