"""Replays recorded rounds of applications: would today's code, or another policy, place tasks as they were placed?

Each round is decided on its own, from exactly what its leader had, memory included; the plan to compare with is the one
that was published beside it. What is not recorded: weights, so `load-aware` may differ for want of them, and what a
custom assignor keeps to itself.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bellwether_kafka.assignors.shared import Decision, RefusalCause, RefusalError, Weights
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.assignors.streams.policies import LOAD_AWARE
from bellwether_kafka.coordinator.planning import (
    ApplicationError,
    TaskRequest,
    UnreadableRoundError,
    load_application,
    make_tasks,
    unpack,
)
from bellwether_kafka.coordinator.telemetry import ACTIVE, assignment_entries
from bellwether_kafka.pipeline.records import DIFFERENCES_MAX, Difference, PlanCost, Replayed

Record = Mapping[str, Any]


@dataclass(slots=True)
class Placed:
    """A plan as its events tell it, by task: who runs it, and who has which kind of copy."""

    active: dict[str, str] = field(default_factory=dict)
    copies: dict[str, set[tuple[str, str]]] = field(default_factory=lambda: defaultdict(set))
    moved: set[str] = field(default_factory=set)
    cross_rack: int = 0

    @classmethod
    def of(cls, entries: Iterable[Record]) -> "Placed":
        found = cls()
        for entry in entries:
            if entry["role"] != ACTIVE:
                found.copies[entry["task"]].add((entry["role"], entry["member"]))
                continue
            found.active[entry["task"]] = entry["member"]
            if entry["previous"] not in (None, entry["member"]):
                found.moved.add(entry["task"])
            racks = entry["replica_racks"]
            found.cross_rack += bool(racks and entry["rack"]) and entry["rack"] not in racks
        return found

    def of_task(self, task: str) -> str | None:
        """In words: `a, standby b`."""
        words = [self.active[task]] if task in self.active else []
        words += [f"{role} {member}" for role, member in sorted(self.copies.get(task, ()))]
        return ", ".join(words) or None

    def cost(self, tasks: int, processes: Sequence[str]) -> PlanCost:
        held = Counter(self.active.values())
        counts = [held[name] for name in processes] or [0]
        return PlanCost(len(self.moved), tasks - len(self.active), self.cross_rack, max(counts) - min(counts))


def replay_tasks(
    rounds: Iterable[Record], assignments: Iterable[Record], policies: Sequence[str], weights: Weights
) -> Iterator[Replayed]:
    """Every recorded round of one application under each of these policies; none: under the one that it was made by.

    Raises ApplicationError for a policy that cannot be used. A round without its plan is left out.
    """
    parts: dict[tuple[int, int], list[Record]] = defaultdict(list)
    for part in assignments:
        parts[part["generation"], part["decided_at_ms"]] += part["entries"]
    for one in sorted(rounds, key=lambda r: (r["decided_at_ms"], r["generation"])):
        entries = parts.get((one["generation"], one["decided_at_ms"]))
        for name in policies or (one["policy"],):
            if entries:
                yield _replayed(one, Placed.of(entries), name, weights)


def _replayed(one: Record, recorded: Placed, policy: str, weights: Weights) -> Replayed:
    head = (one["group"], one["generation"], one["decided_at_ms"], policy, one["policy"])
    count = len(recorded.active)
    try:
        asked = unpack(one["inputs"])
        decision = _decided(asked, policy, weights)
    except (UnreadableRoundError, RefusalError) as error:
        return Replayed(*head, 0, count, count, failed=str(error))
    now, table = Placed.of(assignment_entries(decision.plan)), decision.plan.view.tasks
    names = [str(process.process_id) for process in decision.plan.view.processes]
    tasks = [str(table.task_id(task)) for task in range(table.size)]
    different = [task for task in tasks if recorded.of_task(task) != now.of_task(task)]
    listed = tuple(Difference(t, recorded.of_task(t), now.of_task(t)) for t in different[:DIFFERENCES_MAX])
    return Replayed(
        *head,
        members=len(asked.world.raw.others),
        partitions=len(tasks),
        differs=len(different),
        differences=listed,
        recorded=recorded.cost(len(tasks), names),
        now=now.cost(len(tasks), names),
        doubt="weights are not recorded" if policy == LOAD_AWARE and different else "",
    )


def _decided(asked: TaskRequest, policy: str, weights: Weights) -> Decision[TaskPlan]:
    config = replace(asked.config, policy=policy)
    try:
        assignors = load_application(replace(config, topology=None), lambda: weights).assignors
    except ApplicationError as error:
        raise RefusalError(RefusalCause.CONFIG, str(error)) from error
    return make_tasks(assignors, replace(asked, config=config)).decision
