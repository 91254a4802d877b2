"""What the members of an application read and commit, which the product watches.

Every source partition gets records while there is input. A thread reads those of its tasks once their state is
restored, no faster than its process can, and commits from time to time; the next owner begins where it committed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bellwether_kafka.protocol.primitives import TaskId, TopicPartition
from tests.simulation.applications import RECORDS
from tests.simulation.streams import Process, Thread

if TYPE_CHECKING:
    from tests.simulation.world import World

TICK_S = 5.0
INPUT_PER_S = 10.0  # of each partition
COMMIT_S = 30.0
NOTHING = -1.0


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
    committed: float = NOTHING
    owner: tuple[str, int] = ("", 0)  # a thread, in one of its lives


@dataclass(slots=True)
class Work:
    """`flows`: whether there is input."""

    world: "World"
    paces: dict[str, Pace] = field(default_factory=dict)
    idle: frozenset[TopicPartition] = frozenset()  # partitions that never get a record
    flows: bool = True
    held: dict[TopicPartition, float] = field(default_factory=dict)  # where an open transaction begins
    commits: int = 0
    _logs: dict[TopicPartition, Log] = field(default_factory=dict)
    _commit_at: dict[str, float] = field(default_factory=dict)

    def begin(self) -> None:
        self.world.work = self
        for topic in self.world.application.topology.source_topics:
            for partition in range(self.world.topics.sizes[topic]):
                self._logs[TopicPartition(topic, partition)] = Log()
        self._tick()

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        return tuple(self._logs)

    def committed_of(self, topics: Mapping[str, int]) -> dict[str, list[int]]:
        """For partitions 0..n-1 of each topic, NOTHING for those without an offset."""
        nothing = Log()
        return {
            topic: [int(self._logs.get(TopicPartition(topic, p), nothing).committed) for p in range(n)]
            for topic, n in topics.items()
        }

    def end_of(self, topic: str, partition: int) -> int:
        log = self._logs.get(TopicPartition(topic, partition))
        return int(log.end) if log is not None else -1

    # ---- members ---------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        self.world.clock.after(TICK_S, self._tick)
        for at, log in self._logs.items():
            if self.flows and at not in self.idle:
                log.end += INPUT_PER_S * TICK_S
        for process in self.world.processes:
            self._work(process)

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
                    self._read(at, thread, pace, commits=due)
            if due:
                self._commit_at[thread.client] = self.world.clock.now + pace.commit_s

    def _read(self, at: TopicPartition, thread: Thread, pace: Pace, *, commits: bool) -> None:
        log, me = self._logs[at], (thread.name, thread.process)
        end = self.held.get(at, log.end)
        if log.owner != me:
            log.owner, log.read = me, max(0.0, log.committed)
        log.read = min(end, log.read + pace.per_s * TICK_S)
        if commits and log.read > log.committed:
            log.committed, self.commits = log.read, self.commits + 1

    def _restored(self, thread: Thread, at: TopicPartition) -> bool:
        topology = self.world.application.topology
        return thread.of.state.get(TaskId(topology.subtopology_of[at.topic], at.partition), RECORDS) >= RECORDS
