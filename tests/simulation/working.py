"""What the members of an application read and commit, and the product's watch on it beside the instance that leads.

Every source partition gets records while there is input. A thread reads those of its tasks once their state is
restored, no faster than its process can, and commits from time to time; the next owner begins where it committed.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from bellwether_kafka.assignors.shared import Decision, LongArray
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.membership import PROGRESS, State
from bellwether_kafka.coordinator.planning import TASK_STALL_MS
from bellwether_kafka.coordinator.triggers.work import NOTHING_COMMITTED, HandBack, Verdict, WorkWatch
from bellwether_kafka.protocol.primitives import TaskId, TopicPartition
from tests.simulation.applications import RECORDS
from tests.simulation.instance import Instance
from tests.simulation.streams import Process, Thread

if TYPE_CHECKING:
    from tests.simulation.world import World

TICK_S = 5.0
INPUT_PER_S = 10.0  # of each partition
COMMIT_S = 30.0


@dataclass(slots=True)
class Pace:
    """Of a process: records a second of each task, seconds between commits; `works` is False where none ever comes."""

    per_s: float = 100.0
    commit_s: float = COMMIT_S
    works: bool = True


@dataclass(slots=True)
class Log:
    """A source partition. `read` is how far its present owner has come."""

    end: float = 0.0
    read: float = 0.0
    committed: float = NOTHING_COMMITTED
    owner: tuple[str, int] = ("", 0)  # a thread, in one of its lives


@dataclass(slots=True)
class Work:
    """`flows`: whether there is input. `message` are the verdicts of the watch, `asked` counts its probes."""

    world: "World"
    instance: Instance
    paces: dict[str, Pace] = field(default_factory=dict)
    idle: frozenset[TopicPartition] = frozenset()  # partitions that never get a record
    flows: bool = True
    watch: WorkWatch = field(default_factory=lambda: WorkWatch(TASK_STALL_MS))
    message: list[Verdict] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)
    commits: int = 0
    _logs: dict[TopicPartition, Log] = field(default_factory=dict)
    _commit_at: dict[str, float] = field(default_factory=dict)
    _decision: Decision[TaskPlan] | None = None
    _refresh_at: float = 0.0

    def begin(self) -> None:
        self.world.work = self
        for topic in self.world.application.topology.source_topics:
            for partition in range(self.world.topics.sizes[topic]):
                self._logs[TopicPartition(topic, partition)] = Log()
        self._tick()

    def planned(self, decision: Decision[TaskPlan]) -> None:
        """The broker has this plan of the instance's."""
        self._decision = decision
        self._conclude(self.watch.planned(decision))

    def forget(self) -> None:
        self._decision = None
        self.watch.forget()

    # ---- members ---------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        self.world.clock.after(TICK_S, self._tick)
        for at, log in self._logs.items():
            if self.flows and at not in self.idle:
                log.end += INPUT_PER_S * TICK_S
        for process in self.world.processes:
            self._work(process)
        self._refresh()

    def _work(self, process: Process) -> None:
        pace = self.paces.get(process.name, Pace())
        process.restore()
        for thread in process.threads:
            if not thread.running or self.world.clock.now < thread.paused_until:
                continue
            due = self.world.clock.now >= self._commit_at.setdefault(
                thread.client, self.world.clock.now + pace.commit_s
            )
            for at in thread.owned:
                if pace.works and self._restored(thread, at):
                    self._read(self._logs[at], thread, pace, commits=due)
            if due:
                self._commit_at[thread.client] = self.world.clock.now + pace.commit_s

    def _read(self, log: Log, thread: Thread, pace: Pace, *, commits: bool) -> None:
        me = thread.name, thread.process
        if log.owner != me:
            log.owner, log.read = me, max(0.0, log.committed)
        log.read = min(log.end, log.read + pace.per_s * TICK_S)
        if commits and log.read > log.committed:
            log.committed, self.commits = log.read, self.commits + 1

    def _restored(self, thread: Thread, at: TopicPartition) -> bool:
        topology = self.world.application.topology
        return thread.of.state.get(TaskId(topology.subtopology_of[at.topic], at.partition), RECORDS) >= RECORDS

    # ---- the watch -------------------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        """As `coordinator/triggers/streams_watch.py` does."""
        machine, now_ms = self.instance.machine, self.world.own_wall_ms()
        if machine is None or machine.state is not State.STABLE:
            return
        if machine.alone:
            self._conclude(self.watch.alone(now_ms))
            return
        if self._decision is None or self.world.clock.now < self._refresh_at:
            return
        self._refresh_at = self.world.clock.now + self.watch.interval_ms / 1000
        answer = self.watch.refresh(self._decision, *self._offsets(self._decision), now_ms)
        self._conclude(answer.verdict)
        if answer.ask:
            self.asked[answer.ask.partition(":")[2]] += 1
            self.instance.post(membership.RebalanceWanted(answer.ask, PROGRESS))

    def _offsets(self, decision: Decision[TaskPlan]) -> tuple[LongArray, LongArray]:
        """What is committed and the ends, by flat partition."""
        cluster = decision.cluster
        done = np.full(cluster.partition_total, NOTHING_COMMITTED, dtype=np.int64)
        ends = np.full(cluster.partition_total, NOTHING_COMMITTED, dtype=np.int64)
        for at, log in self._logs.items():
            flat = cluster.flat(at.topic, at.partition)
            assert flat is not None
            done[flat], ends[flat] = int(log.committed), int(log.end)
        return done, ends

    def _conclude(self, verdict: Verdict | None) -> None:
        if verdict is None:
            return
        self.message.append(verdict)
        harm = isinstance(verdict, HandBack)
        self.instance.post(
            membership.StepAsideWanted(verdict.reason) if harm else membership.WorkSuspected(verdict.reason)
        )
