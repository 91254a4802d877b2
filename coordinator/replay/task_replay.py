"""Plans recorded rebalances of applications again, from all inputs that their leader had, including its memory. Pure.

The internal state of a custom assignor is not recorded.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bellwether_kafka.assignors import shared
from bellwether_kafka.assignors.streams import Assignors, TaskPlan
from bellwether_kafka.assignors.streams.policies import LOAD_AWARE
from bellwether_kafka.coordinator import planning
from bellwether_kafka.coordinator.events import ACTIVE, OBSERVED, assignment_entries
from bellwether_kafka.coordinator.replay.recorded import (
    ANOTHERS,
    DIFFERENCES_MAX,
    Difference,
    PlanCost,
    Record,
    Replayed,
)


@dataclass(slots=True)
class PlacedTasks:
    """A plan from its events. `active` has the owner of each task, `copies` (role, member) of its standbys and
    warm-ups, and `moved` the tasks that changed owner."""

    active: dict[str, str] = field(default_factory=dict)
    copies: dict[str, set[tuple[str, str]]] = field(default_factory=lambda: defaultdict(set))
    moved: set[str] = field(default_factory=set)
    cross_rack: int = 0

    @classmethod
    def of(cls, entries: Iterable[Record]) -> "PlacedTasks":
        placed = cls()
        for entry in entries:
            if entry["role"] != ACTIVE:
                placed.copies[entry["task"]].add((entry["role"], entry["member"]))
                continue
            placed.active[entry["task"]] = entry["member"]
            if entry["previous"] not in (None, entry["member"]):
                placed.moved.add(entry["task"])
            racks = entry["replica_racks"]
            placed.cross_rack += bool(racks and entry["rack"]) and entry["rack"] not in racks
        return placed

    def of_task(self, task: str) -> str | None:
        """Describes the placement of a task, such as `a, standby b`; None if it has none."""
        words = [self.active[task]] if task in self.active else []
        words += [f"{role} {member}" for role, member in sorted(self.copies.get(task, ()))]
        return ", ".join(words) or None

    def cost(self, tasks: int, processes: Sequence[str]) -> PlanCost:
        task_counts = Counter(self.active.values())
        counts = [task_counts[name] for name in processes] or [0]
        return PlanCost(len(self.moved), tasks - len(self.active), self.cross_rack, max(counts) - min(counts))


def replay_tasks(
    rebalances: Iterable[Record],
    assignments: Iterable[Record],
    policies: Sequence[str],
    weights: shared.Weights,
    sources: Mapping[tuple[str, int, int], str],
) -> Iterator[Replayed]:
    """Yields the results of each recorded rebalance of one application, under each of these policies, or without any
    under the recorded one. `sources` is as in `rebalances_of`. Rebalances whose plan was not recorded are skipped. A
    policy that cannot be used gives a result with `failed`.
    """
    parts: dict[tuple[int, int], list[Record]] = defaultdict(list)
    for part in assignments:
        parts[part["generation"], part["decided_at_ms"]] += part["entries"]
    for rebalance in sorted(rebalances, key=lambda r: (r["decided_at_ms"], r["generation"])):
        entries = parts.get((rebalance["generation"], rebalance["decided_at_ms"]))
        observed = sources.get((rebalance["group"], rebalance["generation"], rebalance["decided_at_ms"])) == OBSERVED
        for name in policies or (rebalance["policy"],):
            if entries:
                replayed = _replayed(rebalance, PlacedTasks.of(entries), name, weights)
                yield _not_led(replayed) if observed else replayed


def _not_led(replayed: Replayed) -> Replayed:
    return replace(replayed, recorded_policy=OBSERVED, caveat="" if replayed.same else ANOTHERS)


def _replayed(rebalance: Record, recorded: PlacedTasks, policy: str, weights: shared.Weights) -> Replayed:
    replayed = Replayed(
        group=rebalance["group"],
        generation=rebalance["generation"],
        decided_at_ms=rebalance["decided_at_ms"],
        policy=policy,
        recorded_policy=rebalance["policy"],
        members=0,
        partitions=len(recorded.active),
        differs=len(recorded.active),
    )
    try:
        decision = decided(asked := planning.unpack(rebalance["inputs"]), policy, weights)
    except (planning.UnreadableRebalanceError, shared.RefusalError) as error:
        return replace(replayed, failed=str(error))
    now, table = PlacedTasks.of(assignment_entries(decision.plan)), decision.plan.view.tasks
    names = [str(process.process_id) for process in decision.plan.view.processes]
    tasks = [str(table.task_id(task)) for task in range(table.size)]
    different = [task for task in tasks if recorded.of_task(task) != now.of_task(task)]
    shown = different[:DIFFERENCES_MAX]
    listed = tuple(Difference(task, recorded.of_task(task), now.of_task(task)) for task in shown)
    return replace(
        replayed,
        members=len(asked.world.raw.others),
        partitions=len(tasks),
        differs=len(different),
        differences=listed,
        recorded=recorded.cost(len(tasks), names),
        now=now.cost(len(tasks), names),
        caveat="weights are not recorded" if policy == LOAD_AWARE and different else "",
    )


def decided(asked: planning.TaskRequest, policy: str, weights: shared.Weights) -> shared.Decision[TaskPlan]:
    """Returns what the policy decides on the inputs of a recorded rebalance. Raises RefusalError."""
    config = replace(asked.config, policy=policy)
    return replace(asked, config=config).planned(assignors_of(config, weights)).decision


def assignors_of(config: planning.StreamsConfig, weights: shared.Weights) -> Assignors:
    """Returns the assignors of a recorded configuration. Raises RefusalError."""
    try:
        return planning.load_application(replace(config, topology=None), lambda: weights).assignors
    except planning.ApplicationError as error:
        raise shared.RefusalError(shared.RefusalCause.CONFIG, str(error)) from error
