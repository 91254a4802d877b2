"""Applications written down in a few lines: tasks, processes and what these report, as StreamsViews; and random
histories of them."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np
import pytest

from bellwether_kafka.assignors.shared import NO_RACK, Ragged
from bellwether_kafka.assignors.streams.application import (
    BALANCE_SUBTOPOLOGY,
    LATEST_OFFSET,
    NO_STRATEGY,
    AssignmentConfigs,
    ProcessView,
    StreamsPlan,
    StreamsView,
    Subtopology,
    TaskTable,
)
from bellwether_kafka.assignors.streams.policies import STREAMS_HA, assign_streams
from bellwether_kafka.assignors.streams.sending import validate_plan
from bellwether_kafka.protocol.primitives import ProcessId

RACKS = ("a", "b", "c", "d")


def process_id(number: int) -> ProcessId:
    """The id that Kafka's own tests call processIdForInt."""
    return ProcessId(0, number)


def random_process_id(random: Random) -> ProcessId:
    return ProcessId(random.getrandbits(64) - 2**63, random.getrandbits(64) - 2**63)


@dataclass(slots=True)
class Instance:
    """One KafkaStreams instance. `lags` holds what it reports: task index to lag."""

    id: ProcessId
    capacity: int = 1
    rack: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    lags: dict[int, int] = field(default_factory=dict)
    active: list[int] = field(default_factory=list)
    standby: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Application:
    """Subtopologies as (tasks, end sum of each); an end sum of None makes the subtopology stateless."""

    subtopologies: Sequence[tuple[int, int | None]]
    instances: list[Instance] = field(default_factory=list)
    replicas: list[int] | None = None
    """For each task the rack (index) that has no replica of its partitions; None: racks are not known."""

    def table(self) -> TaskTable:
        subtopology: list[int] = []
        partition: list[int] = []
        end: list[int | None] = []
        for number, (count, end_sum) in enumerate(self.subtopologies):
            subtopology += [number] * count
            partition += range(count)
            end += [end_sum] * count
        signature = np.array(self.replicas or [0] * len(end), dtype=np.int32)
        return TaskTable(
            subtopologies=tuple(
                Subtopology(g, (f"t{g}",), changelogs=() if e is None else (f"c{g}",))
                for g, (_, e) in enumerate(self.subtopologies)
            ),
            subtopology=np.array(subtopology, dtype=np.int32),
            partition=np.array(partition, dtype=np.int32),
            stateful=np.array([e is not None for e in end], dtype=np.bool_),
            end_sum=np.array([e or 0 for e in end], dtype=np.int64),
            racks=RACKS,
            source_signature=signature,
            source_remote=np.eye(len(RACKS), dtype=np.int32),
            changelog_signature=signature,
            changelog_remote=np.eye(len(RACKS), dtype=np.int32),
            racks_known=self.replicas is not None,
            changelog_racks_known=self.replicas is not None,
        )

    def view(self) -> StreamsView:
        """Instances in Java's order of process ids."""
        self.instances.sort(key=lambda instance: instance.id)
        lags = [i.lags[t] for i in self.instances for t in sorted(i.lags)]
        return StreamsView(
            group_id="app",
            generation=1,
            tasks=self.table(),
            processes=tuple(
                ProcessView(i.id, tuple(f"{i.id}-{n}" for n in range(i.capacity)), i.rack, tuple(i.tags.items()))
                for i in self.instances
            ),
            capacity=np.array([i.capacity for i in self.instances], dtype=np.int32),
            rack=np.array([RACKS.index(i.rack) if i.rack else NO_RACK for i in self.instances], dtype=np.int32),
            report=Ragged.of_rows([sorted(i.lags) for i in self.instances]),
            report_lag=np.array(lags, dtype=np.int64),
            previous_active=Ragged.of_rows([sorted(i.active) for i in self.instances]),
            previous_standby=Ragged.of_rows([sorted(i.standby) for i in self.instances]),
        )

    def settle(self, plan: StreamsPlan, *, caught_up: bool = True) -> None:
        """Everybody runs the plan: actives report -2, copies report lag 0 (or, if not caught up, what they had)."""
        ends = self.table().end_sum
        stateful = self.table().stateful
        for p, instance in enumerate(self.instances):
            had = instance.lags
            instance.active = np.flatnonzero(plan.active == p).tolist()
            instance.standby = plan.standby_task[plan.standby_process == p].tolist()
            instance.lags = {t: LATEST_OFFSET for t in instance.active if stateful[t]}
            for task in instance.standby:
                instance.lags[task] = 0 if caught_up else max(0, had.get(task, int(ends[task])))


def actives(plan: StreamsPlan, processes: int) -> list[list[int]]:
    return [np.flatnonzero(plan.active == p).tolist() for p in range(processes)]


def standbys(plan: StreamsPlan, processes: int) -> list[list[int]]:
    return [plan.standby_task[plan.standby_process == p].tolist() for p in range(processes)]


def random_application(random: Random, *, tags: bool = False, most: int = 10) -> tuple[Application, AssignmentConfigs]:
    """Any small application in any state: fresh, warm, half warm, with unknown lags and odd ids."""
    subtopologies = [
        (random.randint(1, 7), random.choice([None, 0, 50, 1000, 1000])) for _ in range(random.randint(1, 6))
    ]
    application = Application(subtopologies)
    ends = application.table()
    threads = random.choice([1, 1, 2, 5])
    warmth = random.choice([0.0, 0.2, 0.5, 0.9])
    running = np.full(ends.size, -1)
    instances = random.randint(1, most)
    for number in range(instances):
        chosen = random_process_id(random) if random.random() < 0.8 else process_id(number + 1)
        application.instances.append(Instance(chosen, random.randint(1, threads)))
    for task in range(ends.size):
        if random.random() < warmth + 0.1:
            running[task] = random.randrange(instances)
    levels = random.choice([[0, 5, 10], [0, 100, 500, 1000], [0, -3, 11, 900], [0]])
    for number, instance in enumerate(application.instances):
        if tags:
            instance.tags = {
                key: random.choice(values)
                for key, values in (("zone", ("a", "b", "c")), ("cluster", ("x", "y")), ("other", ("1", "2")))
                if random.random() < 0.9
            }
        for task in range(ends.size):
            if running[task] == number:
                instance.active.append(task)
                if ends.stateful[task]:
                    instance.lags[task] = LATEST_OFFSET
            elif ends.stateful[task] and random.random() < warmth:
                instance.standby.append(task)
                instance.lags[task] = min(random.choice(levels), int(ends.end_sum[task]))
    configs = AssignmentConfigs(
        acceptable_recovery_lag=random.choice([0, 10, 10, 100, 2**63 - 1]),
        max_warmup_replicas=random.choice([1, 2, 2, 5, 100]),
        num_standby_replicas=random.choice([0, 1, 1, 2, 3]),
        rack_aware_assignment_tags=random.choice([("zone",), ("zone", "cluster"), ("absent",)]) if tags else (),
    )
    return application, configs


SEEDS = int(os.environ.get("BELLWETHER_SEEDS", "200"))
ACCEPTABLE_LAG = 100
END_SUM = 150_000
STRATEGIES = (NO_STRATEGY, "min_traffic", BALANCE_SUBTOPOLOGY)


class History:
    """An application whose processes come and go."""

    def __init__(
        self, random: Random, stateful: int, stateless: int, warmups: int, standbys: int, policy: str, strategy: str
    ) -> None:
        self.random = random
        self.policy = policy
        self.configs = AssignmentConfigs(
            acceptable_recovery_lag=ACCEPTABLE_LAG,
            max_warmup_replicas=warmups,
            num_standby_replicas=standbys,
            rack_aware_assignment_strategy=strategy,
        )
        totals = ((stateless, None), (stateful, END_SUM))
        sizes = [(count, end) for total, end in totals for count in split(random, total)]
        replicas = [random.randrange(len(RACKS)) for _ in range(stateful + stateless)]
        self.application = Application(sizes, replicas=replicas)

    def add(self) -> None:
        instance = Instance(random_process_id(self.random), rack=self.random.choice(RACKS))
        self.application.instances.append(instance)

    def drop(self) -> None:
        instances = self.application.instances
        instances.pop(self.random.randrange(len(instances)))

    def rebalance(self) -> StreamsPlan:
        view = self.application.view()
        plan = assign_streams(view, self.configs, self.policy)
        assert validate_plan(view, plan) == ()
        assert np.count_nonzero(plan.warmup) <= self.configs.max_warmup_replicas
        self.application.settle(plan)
        return plan

    def converge(self, most: int) -> int:
        """Rebalances until no probing rebalance is wanted; then one more, which must change nothing."""
        for rebalances in range(1, most + 1):
            plan = self.rebalance()
            if not plan.probing:
                self.check(plan)
                again = self.rebalance()
                assert not again.probing
                assert (again.active == plan.active).all()
                assert (again.standby_task == plan.standby_task).all()
                assert (again.standby_process == plan.standby_process).all()
                return rebalances
        pytest.fail(f"not settled after {most} rounds")

    def check(self, plan: StreamsPlan) -> None:
        table = self.application.table()
        size = len(self.application.instances)
        stateful = np.flatnonzero(table.stateful)
        copies = 1 + np.bincount(plan.standby_task, minlength=table.size)
        assert not plan.warmup.any()
        assert (copies[stateful] == min(size, 1 + self.configs.num_standby_replicas)).all()
        assert skew(plan.active, size) <= 1
        assert skew(plan.active[stateful], size) <= 1
        if self.policy == STREAMS_HA and self.configs.rack_aware_assignment_strategy == NO_STRATEGY:
            assert self.movable(plan) == []
        if self.configs.rack_aware_assignment_strategy == "min_traffic":
            return
        most = 1 if self.configs.rack_aware_assignment_strategy == NO_STRATEGY else 4
        for number in np.unique(table.subtopology[stateful]):
            assert skew(plan.active[table.subtopology == number], size) <= most

    def movable(self, plan: StreamsPlan) -> list[tuple[int, int, int]]:
        """(task, from, to) of standbys that could go to a process with two copies less, while the copies of the task
        stay on as many racks: docs/guides/policies.md says that nothing else keeps copies uneven."""
        stateful, racks = self.application.table().stateful, [i.rack for i in self.application.instances]
        size = len(racks)
        load = np.bincount(plan.active[stateful], minlength=size) + np.bincount(plan.standby_process, minlength=size)
        moves: list[tuple[int, int, int]] = []
        for task, source in zip(plan.standby_task.tolist(), plan.standby_process.tolist(), strict=True):
            holders = {int(plan.active[task]), *plan.standby_process[plan.standby_task == task].tolist()}
            used, others = {racks[p] for p in holders}, {racks[p] for p in holders - {source}}
            room = set(np.flatnonzero(load + 2 <= load[source]).tolist()) - holders
            moves += [(task, source, p) for p in room if len(others | {racks[p]}) >= len(used)]
        return moves


def skew(owners: np.ndarray, size: int) -> int:
    counts = np.bincount(owners, minlength=size)
    return int(counts.max() - counts.min())


def split(random: Random, total: int) -> list[int]:
    """Tasks of several subtopologies."""
    counts = []
    while total > 0:
        counts.append(random.randint(1, min(3, total)))
        total -= counts[-1]
    return counts
