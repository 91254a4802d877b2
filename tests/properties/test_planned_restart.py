"""Planned restarts of random applications, in virtual time: orders, what the group shows, the judgement of absences and
the plans are the product's. An emptied task always has a caught-up copy, nothing goes to an instance that is away, and
what is back gets its share again.

BELLWETHER_SEEDS raises the number of random applications.
"""

import os
from random import Random

import numpy as np
import pytest

from bellwether_kafka.assignors.streams.application import AssignmentConfigs, StreamsPlan, is_caught_up
from bellwether_kafka.assignors.streams.policies import STREAMS_HA, assign_streams
from bellwether_kafka.assignors.streams.sending import validate_plan
from bellwether_kafka.assignors.streams.stages import StageConfigs, last_copies
from bellwether_kafka.coordinator.control import (
    Absence,
    AbsenceUpdate,
    OrderKind,
    PlacementOrder,
    Stage,
    Until,
    absence_update,
)
from bellwether_kafka.coordinator.membership import DescribeAnswer, DescribedMember
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.streams_views import Application, Instance, random_process_id

SEEDS = int(os.environ.get("BELLWETHER_SEEDS", "200"))
ACCEPTABLE_LAG = 100
END_SUM = 150_000
EXPIRES_MS = 10_000_000


class Group:
    """An application, the orders on it and the one who leads it. A rebalance takes a second, and so does a refresh."""

    def __init__(self, random: Random) -> None:
        self.random = random
        stateful, stateless = random.randint(1, 8), random.randint(0, 4)
        standbys = random.randint(0, 2)
        self.application = Application([(stateful, END_SUM), (stateless, None)])
        self.configs = AssignmentConfigs(
            acceptable_recovery_lag=ACCEPTABLE_LAG,
            max_warmup_replicas=random.randint(1, 3),
            num_standby_replicas=standbys,
        )
        for _ in range(random.randint(2, 5)):
            self.application.instances.append(Instance(random_process_id(random)))
        self.lives: dict[str, int] = {}
        self.ghosts: list[str] = []  # ids of members that are still counted
        self.orders: dict[PlacementOrder, Absence | None] = {}
        self.now_ms = 0
        self.most = 4 * (stateful + 1) * (standbys + 1)

    @property
    def away(self) -> set[str]:
        return {ghost.rpartition("/")[0] for ghost in self.ghosts}

    def evacuate(self, instance: Instance) -> PlacementOrder:
        where = f"member:{instance.id}"
        order = PlacementOrder(OrderKind.EVACUATE, "app", "*", where, "eve", self.now_ms, EXPIRES_MS, until=Until.BACK)
        self.orders[order] = None
        return order

    def rebalance(self) -> StreamsPlan:
        self.now_ms += 1_000
        view = self.application.view()
        stages = StageConfigs(rules=tuple(order.rule for order in self.orders))
        plan = assign_streams(view, self.configs, STREAMS_HA, stages)
        assert validate_plan(view, plan) == ()
        self.check(plan)
        self.application.settle(plan)
        self.refresh()
        return plan

    def check(self, plan: StreamsPlan) -> None:
        instances = self.application.instances
        for source, instance in enumerate(instances):
            for task in [t for t, lag in instance.lags.items() if t in instance.active and lag < 0]:
                target = instances[int(plan.active[task])]
                lag = target.lags.get(task, END_SUM)
                assert int(plan.active[task]) == source or is_caught_up(np.array([lag]), ACCEPTABLE_LAG)[0], (
                    f"{task} has been taken from where it runs to where it has to be restored"
                )
        for process, instance in enumerate(instances):
            assert str(instance.id) not in self.away or process not in plan.active, "given to one that is away"

    def refresh(self) -> dict[PlacementOrder, AbsenceUpdate]:
        answer, seen = self.described(), {}
        for order, before in list(self.orders.items()):
            seen[order] = update = absence_update(order, before, answer, self.now_ms)
            self.orders[order] = update.absence
            if update.ended:
                del self.orders[order]
        return seen

    def described(self) -> DescribeAnswer:
        table = self.application.table()
        members = []
        for instance in self.application.instances:
            owned = tuple(TopicPartition(f"t{table.subtopology[t]}", int(table.partition[t])) for t in instance.active)
            name, life = str(instance.id), self.lives.get(str(instance.id), 0)
            if f"{name}/{life}" not in self.ghosts:
                members.append(member(name, life, owned))
        members += [member(ghost.rpartition("/")[0], int(ghost.rpartition("/")[2]), ()) for ghost in self.ghosts]
        return DescribeAnswer(0, 0, "Stable", "consumer", "stream", tuple(members))

    def settle(self) -> StreamsPlan:
        for _ in range(self.most):
            plan = self.rebalance()
            if not plan.probing:
                return plan
        pytest.fail(f"not settled after {self.most} rounds")

    def empty(self, order: PlacementOrder) -> None:
        for _ in range(self.most):
            self.rebalance()
            absence = self.orders[order]
            if absence is not None and absence.stage is Stage.EMPTY:
                return
        pytest.fail(f"not empty after {self.most} rounds")

    def stop(self, instance: Instance) -> None:
        """It leaves the group, or stays in it as a ghost, with the state that it had."""
        name = str(instance.id)
        if self.random.random() < 0.5:
            self.ghosts.append(f"{name}/{self.lives.get(name, 0)}")
        else:
            self.application.instances.remove(instance)

    def start(self, instance: Instance) -> None:
        name = str(instance.id)
        self.lives[name] = self.lives.get(name, 0) + 1
        if instance not in self.application.instances:
            instance.standby, instance.lags = [], {task: lag for task, lag in instance.lags.items() if lag >= 0}
            self.application.instances.append(instance)
        else:
            self.ghosts = [
                ghost for ghost in self.ghosts if not ghost.startswith(f"{name}/") or self.random.random() < 0.5
            ]


def member(name: str, life: int, owned: tuple[TopicPartition, ...]) -> DescribedMember:
    client = f"app-{name}-StreamThread-1-consumer"
    given = ConsumerProtocolAssignment(0, owned).encode()
    return DescribedMember(f"{client}-{life}", None, b"", given, client, "/10.0.0.1")


def even(group: Group, plan: StreamsPlan) -> bool:
    counts = np.bincount(plan.active, minlength=len(group.application.instances))
    return int(counts.max() - counts.min()) <= 2


@pytest.mark.timeout(300 + 10 * SEEDS)
def test_each_instance_in_turn_is_evacuated_restarted_and_gets_its_share_back() -> None:
    for seed in range(SEEDS):
        random = Random(seed)
        group = Group(random)
        group.settle()
        for instance in random.sample(group.application.instances, random.randint(1, 2)):
            order = group.evacuate(instance)
            group.empty(order)
            assert instance.active == [], seed
            group.stop(instance)
            for _ in range(random.randint(1, 4)):
                group.rebalance()
            assert order in group.orders, "it stands while the instance is away"
            group.start(instance)
            group.rebalance()
            assert order not in group.orders, seed
            group.ghosts = []
            assert even(group, group.settle()), seed


@pytest.mark.timeout(300 + 10 * SEEDS)
def test_two_that_may_be_evacuated_together_are_and_stop_together() -> None:
    together = 0
    for seed in range(SEEDS):
        random = Random(seed)
        group = Group(random)
        group.settle()
        if len(group.application.instances) < 3:
            continue
        first, second = random.sample(group.application.instances, 2)
        orders = [group.evacuate(instance) for instance in (first, second)]
        rules = [order.rule for order in orders]
        if len(last_copies(group.application.view(), rules, ACCEPTABLE_LAG)):
            continue  # refused
        together += 1
        for order in orders:
            group.empty(order)
        for instance in (first, second):
            assert instance.active == [], seed
            group.stop(instance)
        group.rebalance()
    assert together > SEEDS // 20
