"""Random rack problems, as JSON for Java's referee and as views for Bellwether."""

from dataclasses import dataclass, field, replace
from random import Random

import numpy as np

from bellwether_kafka.assignors.shared import FOREIGN_RACK, NOBODY, Ragged
from bellwether_kafka.assignors.streams.application import ProcessView, StreamsPlan, StreamsView, Subtopology, TaskTable
from bellwether_kafka.protocol.primitives import ProcessId

Racks = list[list[str]]


@dataclass(frozen=True, slots=True)
class RackProblem:
    """`processes` are racks; per task `sources` and `changelogs` list the replica racks of each partition."""

    processes: list[str]
    tasks: list[tuple[int, int]]
    sources: list[Racks]
    changelogs: list[Racks]
    active: list[int]
    standbys: list[list[int]]
    chosen: list[int]
    kind: str = "active"
    strategy: str = "min_traffic"
    traffic: int = 10
    non_overlap: int = 1
    spread: bool = False
    brokers: list[str] = field(default_factory=list)

    def wire(self) -> dict[str, object]:
        """What the referee reads."""
        names = ("processes", "tasks", "sources", "changelogs", "active", "standbys", "chosen", "kind")
        more = ("strategy", "traffic", "non_overlap", "spread")
        return {name: getattr(self, name) for name in names + more}

    def view(self) -> StreamsView:
        racks = tuple(sorted({r for table in (self.sources, self.changelogs) for t in table for p in t for r in p}))
        numbers = sorted({s for s, _ in self.tasks})
        source_signature, source_remote = remote(self.sources, racks)
        changelog_signature, changelog_remote = remote(self.changelogs, racks)
        size = len(self.processes)
        nothing = Ragged.of_rows([()] * size)
        table = TaskTable(
            subtopologies=tuple(Subtopology(s, (f"t{s}",), changelogs=(f"c{s}",)) for s in numbers),
            subtopology=np.array([s for s, _ in self.tasks], dtype=np.int32),
            partition=np.array([p for _, p in self.tasks], dtype=np.int32),
            stateful=np.ones(len(self.tasks), dtype=np.bool_),
            end_sum=np.zeros(len(self.tasks), dtype=np.int64),
            racks=racks,
            source_signature=source_signature,
            source_remote=source_remote,
            changelog_signature=changelog_signature,
            changelog_remote=changelog_remote,
            racks_known=True,
            changelog_racks_known=True,
        )
        return StreamsView(
            group_id="app",
            generation=1,
            tasks=table,
            processes=tuple(
                ProcessView(ProcessId(0, n + 1), (f"member-{n}",), rack) for n, rack in enumerate(self.processes)
            ),
            capacity=np.ones(size, dtype=np.int32),
            rack=np.array([racks.index(r) if r in racks else FOREIGN_RACK for r in self.processes], dtype=np.int32),
            report=nothing,
            report_lag=np.zeros(0, dtype=np.int64),
            previous_active=nothing,
            previous_standby=nothing,
        )

    def plan(self) -> StreamsPlan:
        pairs = [(t, p) for t, holders in enumerate(self.standbys) for p in sorted(holders)]
        return StreamsPlan(
            np.array(self.active, dtype=np.int32),
            np.array([t for t, _ in pairs], dtype=np.int32),
            np.array([p for _, p in pairs], dtype=np.int32),
            np.zeros(len(pairs), dtype=np.bool_),
        )

    def narrows(self, source: int, destination: int, task: int, holders: list[int]) -> bool:
        """Whether a move would leave the copies of a task in fewer racks."""
        others = {self.processes[p] for p in {*holders, self.active[task]} - {source, destination, NOBODY}}
        return len(others | {self.processes[destination]}) < len(others | {self.processes[source]})


def remote(partitions: list[Racks], racks: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """(signature per task, remote partitions per signature and rack, a rack without a broker last)."""
    rows = [
        [*(sum(r not in racks_of_replica for racks_of_replica in mine) for r in racks), len(mine)]
        for mine in partitions
    ]
    counts = np.array(rows, dtype=np.int32).reshape(len(rows), len(racks) + 1)
    table, signature = np.unique(counts, axis=0, return_inverse=True)
    return signature.reshape(-1).astype(np.int32), table


def random_problem(random: Random, *, most_tasks: int = 18, most_processes: int = 7) -> RackProblem:
    """A placement as an assignor would make it: usually balanced, sometimes anything."""
    brokers = [f"az{n}" for n in range(random.randint(1, 4))]
    size = random.randint(1, most_processes)
    groups = random.randint(1, 3)
    counts = [random.randint(1, max(1, most_tasks // groups)) for _ in range(groups)]
    tasks = [(g, p) for g, count in enumerate(counts) for p in range(count)]
    places = [*brokers, "elsewhere"] if random.random() < 0.2 else brokers
    processes = [random.choice(places) for _ in range(size)]
    balanced = random.random() < 0.7
    active = [n % size if balanced else random.randrange(size) for n in range(len(tasks))]
    replicas = random.randint(0, min(3, size - 1))
    standbys = [_standbys(random, size, owner, replicas, balanced, n) for n, owner in enumerate(active)]
    sources = [_partitions(random, brokers, random.randint(1, 3)) for _ in tasks]
    changelogs = [_partitions(random, brokers, random.randint(1, 2)) for _ in tasks]
    chosen = [t for t in range(len(tasks)) if random.random() < 0.9] or [0]
    traffic, non_overlap = random.choice([(10, 1), (10, 1), (1, 10), (1, 0), (3, 2), (0, 1), (5, 5)])
    return RackProblem(
        processes,
        tasks,
        sources,
        changelogs,
        active,
        standbys,
        chosen if random.random() < 0.3 else list(range(len(tasks))),
        traffic=traffic,
        non_overlap=non_overlap,
        brokers=brokers,
    )


def _standbys(random: Random, size: int, owner: int, replicas: int, balanced: bool, turn: int) -> list[int]:
    others = [p for p in range(size) if p != owner]
    if balanced:
        return sorted(others[(turn + n) % len(others)] for n in range(replicas))
    return sorted(random.sample(others, random.randint(0, replicas)))


def _partitions(random: Random, brokers: list[str], count: int) -> Racks:
    most = min(3, len(brokers))
    return [sorted(random.sample(brokers, random.randint(1, most))) for _ in range(count)]


def as_active(problem: RackProblem, *, strategy: str) -> RackProblem:
    """Without standbys, as where Kafka optimises actives: it refuses to move a task onto its own standby."""
    return replace(problem, strategy=strategy, standbys=[[] for _ in problem.tasks])


def as_standby(problem: RackProblem, *, spread: bool) -> RackProblem:
    return replace(problem, kind="standby", spread=spread)
