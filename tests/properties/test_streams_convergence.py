"""Convergence (after Kafka's TaskAssignorConvergenceTest): whatever happens to an application, a bounded number of
rebalances brings it to a balanced placement that the next rebalance leaves alone.

After each rebalance each process has caught up on what it was given and forgets the rest. BELLWETHER_SEEDS raises the
number of random histories.
"""

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


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("policy", ["kafka", STREAMS_HA])
class TestKnownHistories:
    def history(self, policy: str, strategy: str, *, stateful: int, stateless: int, processes: int) -> History:
        history = History(Random(7), stateful, stateless, 2, 0, policy, strategy)
        for _ in range(processes):
            history.add()
        return history

    def test_a_static_group_is_settled_at_once(self, policy: str, strategy: str) -> None:
        assert self.history(policy, strategy, stateful=1, stateless=1, processes=1).converge(1) == 1

    def test_a_new_process_is_warmed_up_two_tasks_at_a_time(self, policy: str, strategy: str) -> None:
        history = self.history(policy, strategy, stateful=11, stateless=7, processes=1)
        history.converge(1)
        history.add()
        history.converge(11 // 2 + 1)

    def test_a_lost_process_is_made_up_for(self, policy: str, strategy: str) -> None:
        history = self.history(policy, strategy, stateful=13, stateless=11, processes=7)
        history.converge(1)
        history.drop()
        history.converge(13 // 2 + 2)


@pytest.mark.timeout(300 + 10 * SEEDS)
@pytest.mark.parametrize("policy", ["kafka", STREAMS_HA])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_any_history_converges(policy: str, strategy: str) -> None:
    for seed in range(SEEDS):
        live_through(seed, policy, strategy)


@pytest.mark.parametrize("standbys", [1, 2])
def test_without_racks_copies_are_even(standbys: int) -> None:
    """Active tasks with state and standbys together, as Kafka's TaskAssignorConvergenceTest wants it."""
    for seed in range(min(SEEDS, 50)):
        random = Random(seed)
        history = History(random, random.randint(1, 10), 3, 2, standbys, STREAMS_HA, NO_STRATEGY)
        for change in range(6):
            history.add()
            history.application.instances[-1].rack = None
            if change % 3 == 2:
                history.drop()
            history.converge(80)
            plan, stateful = history.rebalance(), history.application.table().stateful
            copies = np.concatenate([plan.active[stateful], plan.standby_process])
            assert skew(copies, len(history.application.instances)) <= 1, seed


def test_half_an_exchange_is_completed_and_not_undone() -> None:
    """Two tasks were to change places for the sake of racks; one had been warmed up and went ahead, the other was to
    follow. Then the first was sent back for the sake of balance, and so on for ever."""
    live_through(324, STREAMS_HA, BALANCE_SUBTOPOLOGY)


def live_through(seed: int, policy: str, strategy: str) -> None:
    """A random history. Raises AssertionError where it does not come to rest in between."""
    random = Random(seed)
    stateful, processes = random.randint(1, 10), random.randint(1, 10)
    standbys = random.randint(0, processes)
    history = History(random, stateful, random.randint(1, 10), random.randint(1, stateful), standbys, policy, strategy)
    for _ in range(processes):
        history.add()
    most = 2 * (stateful + stateful * standbys)
    for _ in range(random.randint(1, 10)):
        history.converge(most)
        for _ in range(random.randint(1, 3)):
            if random.random() < 0.5 or len(history.application.instances) == 1:
                history.add()
            else:
                history.drop()
    history.converge(most)
