"""Orders on the tasks of random applications: what is carried out moves nothing in the following rebalances, whatever
racks, threads, standbys, warm-ups and stages there are. A process that is evacuated will come back, so the others keep
what they have meanwhile."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from bellwether_kafka.assignors.shared import Rule
from bellwether_kafka.assignors.streams.application import NO_STRATEGY, StreamsPlan
from bellwether_kafka.assignors.streams.policies import STREAMS_HA, assign_streams
from bellwether_kafka.assignors.streams.sending import validate_plan
from bellwether_kafka.assignors.streams.stages import StageConfigs
from bellwether_kafka.protocol.primitives import ProcessId
from tests.kit.streams_views import STRATEGIES, History
from tests.seeds import seeds

STAGES = {
    "no stage": StageConfigs(),
    "co-location": StageConfigs(colocate=((0, 1), (2, 3))),
    "capacity": StageConfigs(capacity_tag="cores"),
    "moves budget": StageConfigs(max_concurrent_moves=2),
}
Owners = Mapping[int, ProcessId]


class Ordered(History):
    """An application under orders, at rest when it is made."""

    def __init__(self, seed: int, strategy: str, stages: StageConfigs = STAGES["no stage"]) -> None:
        random = Random(seed)
        stateful, stateless = random.randint(1, 12), random.randint(1, 10)
        warmups, standbys = random.randint(1, 4), random.randint(0, 2)
        super().__init__(random, stateful, stateless, warmups, standbys, STREAMS_HA, strategy)
        self.stages = stages
        self.owners: Owners = {}
        self.copies: set[tuple[int, ProcessId]] = set()
        self.most = 4 * (stateful * (1 + standbys) + stateless) + 4
        for _ in range(random.randint(2, 7)):
            self.add()
        self.settle()

    def add(self) -> None:
        super().add()
        added = self.application.instances[-1]
        added.capacity, added.tags = self.random.choice([1, 1, 2]), {"cores": str(self.random.choice([1, 2, 4]))}

    def rebalance(self) -> StreamsPlan:
        view = self.application.view()
        plan = assign_streams(view, self.configs, STREAMS_HA, self.stages)
        assert validate_plan(view, plan) == ()
        self.application.settle(plan)
        ids = [instance.id for instance in self.application.instances]
        self.owners = {task: ids[p] for task, p in enumerate(plan.active.tolist())}
        kept = zip(plan.standby_task.tolist(), plan.standby_process.tolist(), strict=True)
        self.copies = {(task, ids[p]) for task, p in kept}
        return plan

    def settle(self) -> None:
        for _ in range(self.most):
            if not self.rebalance().probing:
                return
        pytest.fail("not settled")

    def order(self, *rules: Rule) -> None:
        self.stages = replace(self.stages, rules=rules)
        self.settle()

    def place(self) -> tuple[str, frozenset[ProcessId]]:
        """A rack or a process, and the processes that are there; never all of them."""
        instances = self.application.instances
        chosen = self.random.choice(instances)
        there = frozenset(i.id for i in instances if i.rack == chosen.rack)
        if self.random.random() < 0.5 and len(there) < len(instances):
            return f"rack:{chosen.rack}", there
        return f"member:{chosen.id}", frozenset([chosen.id])

    def counts(self) -> Counter[ProcessId]:
        return Counter(self.owners.values())

    def check_rest(self, times: int = 3) -> None:
        owners, copies = self.owners, self.copies
        for _ in range(times):
            self.settle()
            assert self.owners == owners
            assert self.copies == copies


def evacuation(where: str) -> Rule:
    return Rule("ban", "*", where)


@pytest.mark.parametrize("seed", seeds(60))
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("stages", STAGES.values(), ids=STAGES.keys())
def test_after_an_evacuation_nothing_moves_until_it_ends(stages: StageConfigs, strategy: str, seed: int) -> None:
    """Placement counted the evacuated processes, so one or two tasks of others moved in the next rebalances."""
    application = Ordered(seed, strategy, stages)
    before = application.owners
    where, away = application.place()
    application.order(evacuation(where))
    assert not away & set(application.owners.values())
    if not stages.colocate and not stages.max_concurrent_moves:
        others = {task: owner for task, owner in before.items() if owner not in away}
        assert {task: application.owners[task] for task in others} == others
    application.check_rest()


@pytest.mark.parametrize("seed", seeds(60))
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_when_an_evacuation_ends_only_its_processes_get_more_tasks(strategy: str, seed: int) -> None:
    application = Ordered(seed, strategy)
    where, away = application.place()
    application.order(evacuation(where))
    during = application.counts()
    application.order()
    after = application.counts()
    assert {process for process, count in after.items() if count > during[process]} <= away
    application.check_rest(1)


@pytest.mark.parametrize("seed", seeds(60))
def test_one_that_joins_during_an_evacuation_gets_the_share_that_it_keeps_afterwards(seed: int) -> None:
    application = Ordered(seed, NO_STRATEGY)
    where, away = application.place()
    application.order(evacuation(where))
    application.add()
    added = application.application.instances[-1]
    if where == f"rack:{added.rack}":
        added.rack = None
    application.settle()
    application.check_rest(2)
    during = application.counts()[added.id]
    application.order()
    assert abs(application.counts()[added.id] - during) <= 1
    assert not away - {i.id for i in application.application.instances}


@pytest.mark.parametrize("seed", seeds(60))
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("kind", ["ban of a subtopology", "pin of a subtopology", "pin of a task", "ban and pin"])
def test_bans_and_pins_move_nothing_once_they_are_carried_out(kind: str, strategy: str, seed: int) -> None:
    application = Ordered(seed, strategy, application_stages(seed))
    where, there = application.place()
    rules = {
        "ban of a subtopology": (Rule("ban", "0", where),),
        "pin of a subtopology": (Rule("pin", "1", where),),
        "pin of a task": (Rule("pin", "0_0", where),),
        "ban and pin": (Rule("ban", "1", where), Rule("pin", "0_0", where), Rule("ban", "2_0", where)),
    }[kind]
    application.order(*rules)
    table = application.application.table()
    for task, (part, number) in enumerate(zip(table.subtopology.tolist(), table.partition.tolist(), strict=True)):
        for rule in rules:
            if rule.item in (str(part), f"{part}_{number}"):
                assert (application.owners[task] in there) == (rule.kind == "pin")
    application.check_rest()


def application_stages(seed: int) -> StageConfigs:
    return [*STAGES.values()][seed % len(STAGES)]


@pytest.mark.parametrize("seed", seeds(60))
def test_each_process_in_turn_is_evacuated_and_has_its_share_again(seed: int) -> None:
    application = Ordered(seed, NO_STRATEGY)
    for instance in list(application.application.instances):
        before = application.owners
        application.order(evacuation(f"member:{instance.id}"))
        assert instance.active == []
        assert all(application.owners[task] == owner for task, owner in before.items() if owner != instance.id)
        application.order()
        load = [len(i.active) / i.capacity for i in application.application.instances]
        assert np.ptp(load) <= 2
