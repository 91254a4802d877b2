"""A Streams application whose processes restore at a finite rate, rebalance after rebalance, with the leader's own
probes.

Time passes between rebalances: changelogs grow, copies are restored, a thread that gave up a task joins again at once,
all join when their deadline has come, and the leader asks for a rebalance when its prober says so. A process that
restarted reports nothing of what is on its disk until it is given the task, as Kafka Streams 4.3 does.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from bellwether_kafka.assignors.shared import Decision
from bellwether_kafka.assignors.streams import STOCK, TaskPlan
from bellwether_kafka.assignors.streams.application import AssignmentConfigs, EndOffsets, Subtopology, Topology
from bellwether_kafka.assignors.streams.members import StreamsMemory
from bellwether_kafka.coordinator.triggers import Prober, ProbingFacts
from bellwether_kafka.protocol.messages import LATEST_OFFSET
from bellwether_kafka.protocol.primitives import TaskId
from tests.kit.streams import NOW_MS, Thread, group, led, sent

TICK_MS = 50
REBALANCE_MS = 50  # from a JoinGroup of the first member until all have their assignment
REBALANCES_MAX = 2_000


@dataclass
class Process:
    """`position[task]` is how far its store is; those in `running` have been restored and follow their changelog.
    `hidden` are stores on its disk that it does not report yet."""

    number: int
    threads: int
    rate: float  # records a second, of all tasks that it restores together
    rack: str | None = None
    life: int = 1
    position: dict[TaskId, float] = field(default_factory=dict)
    running: set[TaskId] = field(default_factory=set)
    hidden: set[TaskId] = field(default_factory=set)

    @property
    def names(self) -> list[str]:
        return [f"{self.number}-{self.life}-{n}" for n in range(self.threads)]


@dataclass(frozen=True)
class Rebalance:
    """One decision. `moved` tasks were given to another process that those before had not announced. `owner` has the
    process that each task is given to now or as soon as it is let go of, `destination` the one where it shall end up.
    `hands_over`: tasks that run are taken from their processes."""

    at_ms: int
    moved: int
    probing: bool
    hands_over: bool
    owner: Mapping[TaskId, int]
    destination: Mapping[TaskId, int]
    warmups: int


class RestoringApplication:
    """`ends` are the end offsets of each changelog's partitions at first, and grow by `growth` records a second."""

    def __init__(
        self,
        policy: str,
        configs: AssignmentConfigs,
        *,
        stores: Mapping[str, int],
        stateless: int = 0,
        partitions: int = 6,
        growth: float = 0.0,
        durable: bool = False,
    ) -> None:
        self.policy, self.configs, self.partitions, self.growth = policy, configs, partitions, growth
        subtopologies = [Subtopology(n, (f"plain{n}",)) for n in range(stateless)]
        subtopologies += [
            Subtopology(n, (f"{s}-in",), changelogs=(f"shop-{s}-changelog",)) for n, s in enumerate(stores, stateless)
        ]
        self.topology = Topology("shop", tuple(subtopologies), "file")
        self.first_ends = {f"shop-{s}-changelog": end for s, end in stores.items()}
        self.store_of = dict(enumerate(stores, stateless))
        self.counts = dict.fromkeys((*self.topology.source_topics, *self.topology.changelogs), partitions)
        self.assignors = replace(STOCK, durable=durable)
        self.prober = Prober(configs.acceptable_recovery_lag, configs.probing_rebalance_interval_ms)
        self.memory = StreamsMemory.empty()
        self.now_ms = NOW_MS
        self.processes: dict[int, Process] = {}
        self.threads: dict[str, Thread] = {}
        self.decision: Decision[TaskPlan] | None = None
        self.rebalances: list[Rebalance] = []
        self.asked_ms: int | None = None
        self.unowned_ms: Counter[TaskId] = Counter()

    # ---- what happens ------------------------------------------------------------------------------------------------

    def start(
        self, number: int, *, threads: int = 1, rate: float = 20_000.0, rack: str | None = None, wiped: bool = False
    ) -> None:
        """A new process, or one that comes back on its disk, or on an empty one if it is `wiped`."""
        process = self.processes.get(number)
        if process is None:
            process = self.processes[number] = Process(number, threads, rate, rack)
        else:
            process.life += 1
            if wiped:
                process.position.clear()
            process.running.clear()
            process.hidden = set(process.position)
        for name in process.names:
            self.threads[name] = Thread(name, number, self.topology.source_topics, rack=process.rack)
        self.asked_ms = self.now_ms

    @property
    def here(self) -> set[int]:
        return {thread.process for thread in self.threads.values()}

    def stop(self, number: int) -> None:
        """The broker has removed its threads."""
        for name in self.processes[number].names:
            del self.threads[name]
        self.asked_ms = self.now_ms

    def end_of(self, task: TaskId) -> float:
        return self._end(f"shop-{self.store_of[task.subtopology]}-changelog")

    def rest(self, most_ms: int = 3_600_000) -> list[Rebalance]:
        """Lives on until no rebalance is asked for or expected; returns the rebalances that this took."""
        begun, until_ms = len(self.rebalances), self.now_ms + most_ms
        while self.now_ms < until_ms:
            if self.asked_ms is not None and self.now_ms >= self.asked_ms:
                self.rebalance()
            elif self.prober.due(self.now_ms):
                self.asked_ms = self.now_ms
            elif self.asked_ms is None and self.prober.next_at_ms is None:
                return self.rebalances[begun:]
            else:
                self.idle(TICK_MS)
        raise AssertionError("it never comes to rest")

    # ---- how it goes -------------------------------------------------------------------------------------------------

    def idle(self, passed_ms: int) -> None:
        """Copies are restored; those that run keep up."""
        self.now_ms += passed_ms
        running = self.running()
        for process in self.processes.values():
            self._restore(process, process.rate * passed_ms / 1000)
        for task in self._tasks():
            if task not in running and self.decision is not None:
                self.unowned_ms[task] += passed_ms

    def _restore(self, process: Process, records: float) -> None:
        """Its copies share what it can read; what one does not need is for the others."""
        position, running = process.position, self.running()
        mine = {t for t, p in running.items() if p == process.number and t.subtopology in self.store_of}
        process.running &= mine
        position |= {task: self.end_of(task) for task in process.running}
        behind = sorted(
            self._copies(process.number) - process.running, key=lambda task: self.end_of(task) - position.get(task, 0.0)
        )
        for left, task in zip(range(len(behind), 0, -1), behind, strict=True):
            gained = min(self.end_of(task) - position.get(task, 0.0), records / left)
            position[task] = position.get(task, 0.0) + gained
            records -= gained
        process.running |= {task for task in mine if position[task] >= self.end_of(task)}

    def _tasks(self) -> list[TaskId]:
        return [TaskId(s.id, p) for s in self.topology.subtopologies for p in range(self.partitions)]

    def _copies(self, number: int) -> set[TaskId]:
        """The stateful tasks of which the process was sent a copy of any kind."""
        copies: set[TaskId] = set()
        for name in self.processes[number].names:
            if name in self.threads and self.decision is not None and name in dict(self.decision.assignments):
                info = sent(self.decision, name)[1]
                copies |= {t for t in info.active_tasks if t.subtopology in self.store_of}
                copies |= {t for t, _ in info.standby_tasks}
        return copies

    def running(self) -> dict[TaskId, int]:
        """The process of each task that was sent to anybody who is still here and has restored it."""
        runs = {}
        for name, thread in self.threads.items():
            if self.decision is None or name not in dict(self.decision.assignments):
                continue
            for task in sent(self.decision, name)[1].active_tasks:
                runs[task] = thread.process
        return runs

    def _report(self, name: str, thread: Thread) -> Thread:
        """The thread as it joins: what it was sent, and the first one of its process what else is on the disk."""
        process = self.processes[thread.process]
        if self.decision is None or name not in dict(self.decision.assignments):
            partitions, generation = thread.owned, thread.generation
            active, standby = set[TaskId](), set[TaskId]()
        else:
            partitions, info = sent(self.decision, name)
            active, standby = set(info.active_tasks), {t for t, _ in info.standby_tasks}
            generation = self.decision.raw.generation
        process.hidden -= self._copies(process.number)
        own = {t for t in active | standby if t.subtopology in self.store_of}
        if name == process.names[0]:
            own |= set(process.position) - self._copies(process.number) - process.hidden
        sums = {}
        for task in sorted(own):
            running = task in active & process.running
            position = LATEST_OFFSET if running else int(process.position.get(task, 0.0))
            sums[task.subtopology, task.partition] = position
        return replace(thread, owned=partitions, sums=sums, generation=generation, unique=(thread.unique + 1) % 128)

    def rebalance(self) -> Rebalance:
        assert len(self.rebalances) < REBALANCES_MAX, "it never comes to rest"
        self.idle(REBALANCE_MS)
        self.threads = {name: self._report(name, thread) for name, thread in self.threads.items()}
        ends = {topic: [int(self._end(topic))] * self.partitions for topic in self.topology.changelogs}
        last, generation = self.decision, len(self.rebalances) + 1
        decision = led(
            group(*self.threads.values(), generation=generation),
            topology=self.topology,
            counts=self.counts,
            ends=EndOffsets(ends, self.now_ms),  # type: ignore[arg-type]  # lists will do
            memory=self.memory,
            configs=self.configs,
            assignors=self.assignors,
            policy=self.policy,
            now_ms=self.now_ms,
        )
        if last is not None:
            decision = decision.counted_after(last)
        self.memory, self.decision = decision.plan.memory, decision
        self.prober.planned(ProbingFacts.of(decision))
        self.asked_ms = self._next_ms(decision)
        self.rebalances.append(self._reported(decision))
        return self.rebalances[-1]

    def _reported(self, decision: Decision[TaskPlan]) -> Rebalance:
        view, plan = decision.plan.view, decision.plan.target
        names = [self.threads[process.members[0]].process for process in view.processes]
        tasks = [view.tasks.task_id(task) for task in range(view.tasks.size)]
        further = plan.destination if len(plan.destination) else plan.active
        return Rebalance(
            at_ms=self.now_ms,
            moved=decision.moves.moved,
            probing=plan.probing,
            hands_over=self._takes_running(decision),
            owner={task: names[p] for task, p in zip(tasks, plan.active.tolist(), strict=True)},
            destination={task: names[p] for task, p in zip(tasks, further.tolist(), strict=True)},
            warmups=int(plan.warmup.sum()),
        )

    def _takes_running(self, decision: Decision[TaskPlan]) -> bool:
        view, plan = decision.plan.view, decision.plan
        moving = np.flatnonzero(plan.pending & (plan.before != plan.target.active))
        pairs = zip(moving.tolist(), plan.before[moving].tolist(), strict=True)
        return any(not view.tasks.stateful[task] or view.lag_of(task, p) == LATEST_OFFSET for task, p in pairs)

    def _end(self, topic: str) -> float:
        return self.first_ends[topic] + self.growth * (self.now_ms - NOW_MS) / 1000

    def _next_ms(self, decision: Decision[TaskPlan]) -> int | None:
        """When the first thread joins again by itself."""
        asked = []
        for name, thread in self.threads.items():
            partitions, info = sent(decision, name)
            asked.append(info.next_rebalance_ms)
            if set(thread.owned) - set(partitions):
                asked.append(self.now_ms)
        soonest = min(asked)
        return None if soonest >= 2**62 else max(self.now_ms, soonest)


def path(task: TaskId, rebalances: Sequence[Rebalance]) -> list[int]:
    """The processes that were given the task one after the other."""
    owners = [r.owner[task] for r in rebalances]
    return [p for n, p in enumerate(owners) if n == 0 or owners[n - 1] != p]


def shown(rebalances: Sequence[Rebalance]) -> str:
    """Milliseconds after the first and moves of each rebalance, for messages of tests."""
    return ", ".join(f"{r.at_ms - rebalances[0].at_ms}:{r.moved}" for r in rebalances)
