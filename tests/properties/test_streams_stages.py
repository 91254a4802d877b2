"""The stages of `streams-ha` on random applications: what each of them promises, that the placement stays whole, and
that a group still settles (as in `test_streams_convergence`)."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from bellwether_kafka.assignors.shared import NOBODY, Rule
from bellwether_kafka.assignors.streams.application import (
    LATEST_OFFSET,
    NO_STRATEGY,
    AssignmentConfigs,
    StreamsPlan,
    StreamsView,
)
from bellwether_kafka.assignors.streams.placing import previous_owners
from bellwether_kafka.assignors.streams.policies import STREAMS_HA, assign_streams
from bellwether_kafka.assignors.streams.sending import validate_plan
from bellwether_kafka.assignors.streams.stages import StageConfigs
from bellwether_kafka.assignors.streams.stages.chain import anchors
from tests.kit.streams_views import SEEDS as MANY
from tests.kit.streams_views import (
    STRATEGIES,
    Application,
    History,
    Instance,
    process_id,
    random_application,
    random_process_id,
)

SEEDS = range(200)
HISTORIES = range(MANY // 5)  # so BELLWETHER_SEEDS raises them too
EVERYTHING = AssignmentConfigs(acceptable_recovery_lag=2**63 - 1)
RULES = (Rule("ban", "*", f"member:{process_id(1)}"), Rule("pin", "0", f"member:{process_id(2)}"))
STAGES = {
    "host affinity": StageConfigs(host_affinity_ms=60_000),
    "co-location": StageConfigs(colocate=((0, 1), (2, 3, 4))),
    "capacity": StageConfigs(capacity_tag="cores"),
    "moves budget": StageConfigs(max_concurrent_moves=1),
    "operator's rules": StageConfigs(rules=RULES),
    "all": StageConfigs(
        host_affinity_ms=60_000, colocate=((0, 2),), capacity_tag="cores", max_concurrent_moves=2, rules=RULES
    ),
}


def random_view(seed: int) -> tuple[StreamsView, AssignmentConfigs]:
    """Any application in any state, with weights and, for some tasks, a home."""
    random = Random(seed)
    application, configs = random_application(random)
    for instance in application.instances:
        instance.tags = {"cores": str(random.choice([1, 2, 3, 8]))}
    view = application.view()
    home = [random.randrange(view.size) if random.random() < 0.3 else NOBODY for _ in range(view.tasks.size)]
    return replace(view, home=np.array(home, dtype=np.int32)), configs


@pytest.mark.parametrize("stages", STAGES.values(), ids=STAGES.keys())
def test_every_task_is_owned_once_and_plans_are_the_same_each_time(stages: StageConfigs) -> None:
    for seed in SEEDS:
        view, configs = random_view(seed)
        plan = assign_streams(view, configs, STREAMS_HA, stages)
        assert validate_plan(view, plan) == ()
        again = assign_streams(view, configs, STREAMS_HA, stages)
        assert (plan.active == again.active).all()
        assert plan.stages == again.stages
        exchanging = [report for report in plan.stages if not report.stage.startswith("capacity")]
        assert all(report.after <= report.before for report in exchanging if report.taken)


def test_without_stages_nothing_is_different() -> None:
    for seed in SEEDS:
        view, configs = random_view(seed)
        plan, plain = (
            assign_streams(view, configs, STREAMS_HA, StageConfigs()),
            assign_streams(view, configs, STREAMS_HA),
        )
        assert (plan.active == plain.active).all()
        assert plan.stages == ()


@pytest.mark.parametrize("most", [1, 2, 5])
def test_the_budget_of_moves_holds(most: int) -> None:
    """Away from live processes, stateful and stateless, tasks that warm up elsewhere included."""
    for seed in SEEDS:
        view, configs = random_view(seed)
        configs = replace(configs, num_standby_replicas=0)
        plan = assign_streams(view, configs, STREAMS_HA, StageConfigs(max_concurrent_moves=most))
        assert on_the_move(view, plan) <= most
        assert plan.probing or not plan.deferred


def on_the_move(view: StreamsView, plan: StreamsPlan) -> int:
    """Tasks that a process runs, whole, and that another gets or warms up for."""
    warming = set(plan.standby_task[plan.warmup].tolist())
    runs = previous_owners(view)
    process = view.report.row
    running = (view.report_lag == LATEST_OFFSET) & (runs[view.report.values] == process)
    whole = set(view.report.values[running].tolist())
    whole |= {int(t) for t in np.flatnonzero(~view.tasks.stateful & (runs != NOBODY))}
    return sum(1 for task in whole if plan.active[task] != runs[task] or task in warming)


def test_capacity_is_balanced_within_one_task_of_the_weighted_share() -> None:
    for seed in SEEDS:
        view, _ = random_view(seed)
        plan = assign_streams(view, EVERYTHING, STREAMS_HA, StageConfigs(capacity_tag="cores"))
        weight = np.array([int(dict(p.tags)["cores"]) for p in view.processes])
        stateful = np.flatnonzero(view.tasks.stateful)
        assert deviation(plan, weight, stateful) < 1
        only = len(stateful) in (0, view.tasks.size)
        assert deviation(plan, weight, np.arange(view.tasks.size)) < (1 if only else 2)


def deviation(plan: StreamsPlan, weight: np.ndarray, tasks: np.ndarray) -> float:
    share = len(tasks) * weight / weight.sum()
    return float(np.abs(np.bincount(plan.active[tasks], minlength=len(weight)) - share).max(initial=0))


def test_tasks_of_a_group_end_up_on_one_process_as_far_as_balance_lets_them() -> None:
    """As many pairs as the smaller of both counts on each process: more there cannot be without moving counts."""
    for seed in SEEDS:
        random = Random(seed)
        tasks = random.randint(1, 12)
        application = Application([(tasks, 100), (tasks, random.choice([100, None])), (random.randint(1, 5), 100)])
        application.instances = [Instance(random_process_id(random)) for _ in range(random.randint(1, 6))]
        view = application.view()
        plan = assign_streams(view, EVERYTHING, STREAMS_HA, StageConfigs(colocate=((0, 1),)))
        anchor = anchors(view.tasks, ((0, 1),))
        following = np.flatnonzero(anchor != NOBODY)
        together = int((plan.active[following] == plan.active[anchor[following]]).sum())
        counts = [np.bincount(plan.active[view.tasks.subtopology == s], minlength=view.size) for s in (0, 1)]
        assert together == int(np.minimum(*counts).sum())


class StagedHistory(History):
    """Processes that go may come back; those that are back are the homes of what they had."""

    def __init__(self, random: Random, strategy: str, stages: StageConfigs) -> None:
        stateful, standbys = random.randint(1, 10), random.randint(0, 2)
        super().__init__(
            random, stateful, random.randint(1, 10), random.randint(1, stateful), standbys, STREAMS_HA, strategy
        )
        self.stages = stages
        self.most = 3 * (stateful * (1 + standbys) + self.application.table().size) + 4
        self.gone: list[Instance] = []
        self.homes: dict[int, Instance] = {}

    def add(self) -> None:
        if self.gone and self.random.random() < 0.7:
            self.application.instances.append(self.gone.pop())
            return
        super().add()
        self.application.instances[-1].tags = {"cores": str(self.random.choice([1, 2, 4]))}

    def drop(self) -> None:
        instances = self.application.instances
        left = instances.pop(self.random.randrange(len(instances)))
        self.homes |= dict.fromkeys(left.active, left)
        left.lags = dict.fromkeys(left.lags, 500)
        left.active, left.standby = [], []
        self.gone.append(left)

    def rebalance(self) -> StreamsPlan:
        view = self.application.view()
        there = {id(instance): p for p, instance in enumerate(self.application.instances)}
        self.homes = {t: i for t, i in self.homes.items() if id(i) not in there or t in i.lags}
        home = np.full(view.tasks.size, NOBODY, dtype=np.int32)
        for task, instance in self.homes.items():
            home[task] = there.get(id(instance), NOBODY)
        plan = assign_streams(replace(view, home=home), self.configs, STREAMS_HA, self.stages)
        assert validate_plan(view, plan) == ()
        assert np.count_nonzero(plan.warmup) <= self.configs.max_warmup_replicas
        self.application.settle(plan)
        return plan

    def check(self, plan: StreamsPlan) -> None:
        assert plan.deferred == 0
        if self.stages.capacity_tag:
            weight = np.array([int(i.tags["cores"]) for i in self.application.instances])
            assert deviation(plan, weight, np.flatnonzero(self.application.table().stateful)) < 1
        elif self.configs.rack_aware_assignment_strategy in (NO_STRATEGY, "min_traffic"):
            counts = np.bincount(plan.active, minlength=len(self.application.instances))
            assert np.ptp(counts) <= 1


@pytest.mark.timeout(300 + 2 * MANY)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("stages", STAGES.values(), ids=STAGES.keys())
def test_any_history_converges_under_each_stage(stages: StageConfigs, strategy: str) -> None:
    for seed in HISTORIES:
        random = Random(seed)
        history = StagedHistory(random, strategy, stages)
        for _ in range(random.randint(1, 8)):
            history.add()
        for _ in range(random.randint(1, 6)):
            history.converge(history.most)
            for _ in range(random.randint(1, 3)):
                if random.random() < 0.5 or len(history.application.instances) == 1:
                    history.add()
                else:
                    history.drop()
        history.converge(history.most)
