"""Random histories of an application, and the plans after each rebalance."""

import os
from random import Random

import numpy as np
import pytest

from bellwether_kafka.assignors.streams.application import (
    BALANCE_SUBTOPOLOGY,
    NO_STRATEGY,
    AssignmentConfigs,
    StreamsPlan,
)
from bellwether_kafka.assignors.streams.policies import STREAMS_HA, assign_streams
from bellwether_kafka.assignors.streams.sending import validate_plan
from tests.unit.assignors.streams.scenes import RACKS, Application, Instance, random_process_id

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
