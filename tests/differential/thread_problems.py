"""Random tasks and threads of one process, as JSON for Java's referee and as a view for Bellwether."""

from dataclasses import dataclass
from random import Random

import numpy as np

from bellwether_kafka.assignors.shared import NO_RACK, NOBODY, Ragged
from bellwether_kafka.assignors.streams.application import (
    LATEST_OFFSET,
    ProcessView,
    StreamsPlan,
    StreamsView,
    Subtopology,
    TaskTable,
    lags,
)
from bellwether_kafka.assignors.streams.threads.deal import ThreadTasks
from bellwether_kafka.protocol.primitives import ProcessId, java_sorted


@dataclass(frozen=True, slots=True)
class ThreadProblem:
    """`tasks` are (subtopology, partition, end sum or None if stateless), ascending; `members` are (id, reports), in
    the order in which Java adds them, reports (task index, offset sum)."""

    tasks: list[tuple[int, int, int | None]]
    active: list[int]
    standby: list[int]
    members: list[tuple[str, list[tuple[int, int]]]]

    def wire(self) -> dict[str, object]:
        """What the referee reads."""
        return {"tasks": self.tasks, "active": self.active, "standby": self.standby, "members": self.members}

    def plan(self) -> StreamsPlan:
        active = np.full(len(self.tasks), NOBODY, dtype=np.int32)
        active[self.active] = 0
        standby = np.array(sorted(self.standby), dtype=np.int32)
        return StreamsPlan(active, standby, np.zeros_like(standby), np.zeros(len(standby), dtype=np.bool_))

    def view(self) -> StreamsView:
        """The view that these reports make: later members overwrite what earlier ones say of a task."""
        table = self._table()
        merged = {task: total for _, sums in self.members for task, total in sums if table.stateful[task]}
        reported = np.array(sorted(merged), dtype=np.int32)
        totals = np.array([merged[t] for t in reported.tolist()], dtype=np.int64)
        ids = java_sorted([member for member, _ in self.members])
        message = dict(self.members)
        own = [sorted(t for t, _ in message[member] if table.stateful[t]) for member in ids]
        return StreamsView(
            group_id="app",
            generation=1,
            tasks=table,
            processes=(ProcessView(ProcessId(0, 1), tuple(ids)),),
            capacity=np.array([len(ids)], dtype=np.int32),
            rack=np.array([NO_RACK], dtype=np.int32),
            report=Ragged.of_rows([reported]),
            report_lag=lags(totals, table.end_sum[reported], ends_known=True),
            previous_active=Ragged.of_rows([()]),
            previous_standby=Ragged.of_rows([()]),
            thread_tasks=Ragged.of_rows(own),
        )

    def _table(self) -> TaskTable:
        nothing = np.zeros(len(self.tasks), dtype=np.int32)
        ids = sorted({s for s, _, _ in self.tasks})
        return TaskTable(
            subtopologies=tuple(Subtopology(s, (f"t{s}",)) for s in ids),
            subtopology=np.array([s for s, _, _ in self.tasks], dtype=np.int32),
            partition=np.array([p for _, p, _ in self.tasks], dtype=np.int32),
            stateful=np.array([end is not None for _, _, end in self.tasks], dtype=np.bool_),
            end_sum=np.array([end or 0 for _, _, end in self.tasks], dtype=np.int64),
            racks=(),
            source_signature=nothing,
            source_remote=np.zeros((1, 0), dtype=np.int32),
            changelog_signature=nothing,
            changelog_remote=np.zeros((1, 0), dtype=np.int32),
        )


def random_threads(random: Random, *, most_tasks: int = 24) -> ThreadProblem:
    """Tasks as a process gets them: of a few subtopologies, often a power of two apart."""
    stride = random.choice([1, 1, 2, 3, 5, 16, 32, 64, 100, 128, 1024])
    groups = random.randint(1, 3)
    tasks: list[tuple[int, int, int | None]] = []
    for group in range(groups):
        stateful = random.random() < 0.6
        partition = random.randint(0, stride)
        for _ in range(random.randint(1, max(1, most_tasks // groups))):
            tasks.append((group, partition, random.choice([0, 10, 1000]) if stateful else None))
            partition += stride if random.random() < 0.8 else random.randint(1, 2 * stride)
    kind = [random.choice("aaaaasn") for _ in tasks]
    active = [t for t, k in enumerate(kind) if k == "a"]
    standby = [t for t, k in enumerate(kind) if k == "s" and tasks[t][2] is not None]
    threads = random.randint(1, 9)
    ids = [f"app-{random.getrandbits(32):08x}-StreamThread-{n + 1}-consumer-{n}" for n in range(threads)]
    fresh = random.random() < 0.3
    members = [(member, [] if fresh else _reports(random, tasks)) for member in ids]
    return ThreadProblem(tasks, active, standby, members)


def _reports(random: Random, tasks: list[tuple[int, int, int | None]]) -> list[tuple[int, int]]:
    share = random.choice([0.0, 0.1, 0.3, 0.7])
    sums = [LATEST_OFFSET, LATEST_OFFSET, 0, 5, 10, 2000, -3]
    return [(t, random.choice(sums)) for t in range(len(tasks)) if random.random() < share]


def by_member(dealt: ThreadTasks, view: StreamsView) -> dict[str, tuple[list[int], list[int]]]:
    """Member id -> (active tasks, standby tasks)."""
    members = [member for process in view.processes for member in process.members]
    return {m: (dealt.active[n].tolist(), dealt.standby[n].tolist()) for n, m in enumerate(members)}
