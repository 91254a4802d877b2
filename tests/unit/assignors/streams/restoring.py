"""A Streams application whose processes restore at a finite rate, round after round, with the leader's own probes.

Time passes between rounds: changelogs grow, copies are restored, a thread that gave up a task joins again at once, all
join when their deadline has come, and the leader asks for a round when its prober says so. A process that restarted
reports nothing of what is on its disk until it is given the task, as Kafka Streams 4.3 does.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from bellwether_kafka.assignors.shared.decision import Decision
from bellwether_kafka.assignors.streams.application.model import AssignmentConfigs, Subtopology
from bellwether_kafka.assignors.streams.application.offsets import EndOffsets
from bellwether_kafka.assignors.streams.application.topology import Topology
from bellwether_kafka.assignors.streams.decide import STOCK
from bellwether_kafka.assignors.streams.members.memory import StreamsMemory
from bellwether_kafka.assignors.streams.plan import TaskPlan
from bellwether_kafka.coordinator.triggers.probing import Prober, ProbingFacts
from bellwether_kafka.protocol.messages.streams_subscription import LATEST_OFFSET
from bellwether_kafka.protocol.primitives.types import TaskId
from tests.unit.assignors.streams.world import NOW_MS, Thread, group, led, sent

TICK_MS = 50
ROUND_MS = 50  # from a JoinGroup of the first member until all have their assignment
ROUNDS_MAX = 80


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
class Round:
    """One decision: when, how many tasks changed their intended owner in it, and who runs each task after it."""

    at_ms: int
    moved: int
    probing: bool
    running: Mapping[TaskId, int]
    intended: Mapping[TaskId, int]
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
        self.rounds: list[Round] = []
        self.asked_ms: int | None = None
        self.unowned_ms: Counter[TaskId] = Counter()

    # ---- what happens ----------------------------------------------------------------------------------------------

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

    def stop(self, number: int) -> None:
        """The broker has removed its threads."""
        for name in self.processes[number].names:
            del self.threads[name]
        self.asked_ms = self.now_ms

    def end_of(self, task: TaskId) -> float:
        end = self.first_ends[f"shop-{self.store_of[task.subtopology]}-changelog"]
        return end + self.growth * (self.now_ms - NOW_MS) / 1000

    def rest(self, most_ms: int = 3_600_000) -> list[Round]:
        """Lives on until no round is asked for or expected; returns the rounds that this took."""
        begun, until_ms = len(self.rounds), self.now_ms + most_ms
        while self.now_ms < until_ms:
            if self.asked_ms is not None and self.now_ms >= self.asked_ms:
                self._round()
            elif self.prober.due(self.now_ms):
                self.asked_ms = self.now_ms
            elif self.asked_ms is None and self.prober.next_at_ms is None:
                return self.rounds[begun:]
            else:
                self._pass(TICK_MS)
        raise AssertionError("it never comes to rest")

    # ---- how it goes -----------------------------------------------------------------------------------------------

    def _pass(self, passed_ms: int) -> None:
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
        behind = sorted(self._copies(process.number) - process.running, key=lambda task: self.end_of(task) - position.get(task, 0.0))
        for left, task in zip(range(len(behind), 0, -1), behind, strict=True):
            gained = min(self.end_of(task) - position.get(task, 0.0), records / left)
            position[task] = position.get(task, 0.0) + gained
            records -= gained
        process.running |= {task for task in mine if position[task] >= self.end_of(task)}

    def _tasks(self) -> list[TaskId]:
        return [TaskId(s.id, p) for s in self.topology.subtopologies for p in range(self.partitions)]

    def _copies(self, number: int) -> set[TaskId]:
        """The stateful tasks of which the process was sent a copy of any kind."""
        found: set[TaskId] = set()
        for name in self.processes[number].names:
            if name in self.threads and self.decision is not None and name in dict(self.decision.assignments):
                info = sent(self.decision, name)[1]
                found |= {t for t in info.active_tasks if t.subtopology in self.store_of}
                found |= {t for t, _ in info.standby_tasks}
        return found

    def running(self) -> dict[TaskId, int]:
        """The process of each task that was sent to anybody who is still here and has restored it."""
        found = {}
        for name, thread in self.threads.items():
            if self.decision is None or name not in dict(self.decision.assignments):
                continue
            for task in sent(self.decision, name)[1].active_tasks:
                found[task] = thread.process
        return found

    def _report(self, name: str, thread: Thread) -> Thread:
        """The thread as it joins: what it was sent, and the first one of its process what else is on the disk."""
        process = self.processes[thread.process]
        if self.decision is None or name not in dict(self.decision.assignments):
            partitions, active, standby, generation = thread.owned, set(), set(), thread.generation
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
        return replace(
            thread, owned=partitions, sums=sums, generation=generation, unique=(thread.unique + 1) % 128
        )

    def _round(self) -> None:
        assert len(self.rounds) < ROUNDS_MAX, "it never comes to rest"
        self._pass(ROUND_MS)
        self.threads = {name: self._report(name, thread) for name, thread in self.threads.items()}
        ends = {
            topic: [int(self._end(topic))] * self.partitions for topic in self.topology.changelogs
        }
        last, generation = self.decision, len(self.rounds) + 1
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
        view = decision.plan.view
        names = [self.threads[p.members[0]].process for p in view.processes]
        intended = {view.tasks.task_id(t): names[p] for t, p in enumerate(decision.plan.target.active.tolist())}
        running, plan = self.running(), decision.plan.target
        self.rounds.append(
            Round(self.now_ms, decision.moves.moved, plan.probing, running, intended, int(plan.warmup.sum()))
        )

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


def moved_twice(rounds: list[Round], before: Mapping[TaskId, int]) -> dict[TaskId, list[int]]:
    """Tasks whose intended owner changed more than once, with all of them in order."""
    found: dict[TaskId, list[int]] = {}
    for task, owner in before.items():
        path = [owner]
        for r in rounds:
            if r.intended[task] != path[-1]:
                path.append(r.intended[task])
        if len(path) > 2:
            found[task] = path
    return found


def shown(rounds: list[Round]) -> str:
    first = rounds[0].at_ms if rounds else 0
    return ", ".join(f"{r.at_ms - first}:{r.moved}{'p' if r.probing else ''}{'w' * r.warmups}" for r in rounds)
