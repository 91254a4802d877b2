"""An application that grows from two instances to three, stage by stage, under Kafka's policy and under streams-ha.

It is the application of docs/evidence/README.md#assigns: stateless tasks, large stores and small ones, six of each,
one copy of each partition in one of three racks, one standby, two warm-ups at a time.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest

from bellwether_kafka.assignors.streams.application import AssignmentConfigs, StreamsPlan, StreamsView
from bellwether_kafka.assignors.streams.policies import STREAMS_HA, assign_streams
from bellwether_kafka.protocol.primitives import ProcessId
from tests.kit.streams_views import RACKS, Application, Instance, process_id

CONFIGS = AssignmentConfigs(
    acceptable_recovery_lag=1000,
    num_standby_replicas=1,
    max_warmup_replicas=2,
    rack_aware_assignment_strategy="min_traffic",
)
LARGE = range(6, 12)


@dataclass(frozen=True, slots=True)
class Grown:
    """`moves` of active tasks, `rebalances` with those that hand out what was pending, and the active tasks at the
    end."""

    moves: int
    rebalances: int
    tasks_of: list[list[int]]


def view(application: Application) -> StreamsView:
    """Each partition has its only copy in the rack of its number, so it is remote in all others."""
    made = application.view()
    remote = 1 - np.eye(len(RACKS), dtype=np.int32)
    return replace(made, tasks=replace(made.tasks, source_remote=remote, changelog_remote=remote))


def application(instances: int) -> Application:
    made = Application([(6, None), (6, 18_000), (6, 600)], replicas=[p % 3 for p in (*range(6),) * 3])
    made.instances = [Instance(process_id(n + 1), 2, rack=RACKS[n]) for n in range(instances)]
    return made


def plans(scene: Application, policy: str) -> Iterator[StreamsPlan]:
    """Rebalance by rebalance, copies catching up in between, until there is nothing to probe for."""
    for _ in range(10):
        plan = assign_streams(view(scene), CONFIGS, policy)
        yield plan
        if not plan.probing:
            return
        scene.settle(plan)
    raise AssertionError("it never settled")


def grow(policy: str, newcomer: int) -> Grown:
    """`newcomer` decides where the third process comes in Kafka's order of process ids."""
    small = application(2)
    for plan in plans(small, policy):
        small.settle(plan)
    large = application(3)
    for instance, before in zip(large.instances, small.instances, strict=False):
        instance.lags, instance.active, instance.standby = dict(before.lags), before.active, before.standby
    large.instances[2].id = process_id(newcomer)
    owner = {task: instance.id for instance in large.instances for task in instance.active}
    moves = rebalances = 0
    for plan in plans(large, policy):
        now: dict[int, ProcessId] = {t: large.instances[p].id for t, p in enumerate(plan.active.tolist())}
        moved = sum(owner[task] != process for task, process in now.items())
        moves, rebalances, owner = moves + moved, rebalances + 1 + (moved > 0), now
    by_process = [np.flatnonzero(plan.active == process).tolist() for process in range(3)]
    return Grown(moves, rebalances, by_process)


@pytest.mark.parametrize("newcomer", [0, 3])
def test_each_task_moves_once_and_before_the_standbys(newcomer: int) -> None:
    """The six that belong to the third instance: the stateless and small ones at once, the large ones when warm."""
    grown = grow(STREAMS_HA, newcomer)
    assert (grown.moves, grown.rebalances) == (6, 5)
    assert [len(tasks) for tasks in grown.tasks_of] == [6, 6, 6]


@pytest.mark.parametrize("newcomer", [0, 3])
def test_kafkas_policy_moves_more_and_needs_longer(newcomer: int) -> None:
    """What the product is compared with is alive: if this fails, the numbers above prove nothing."""
    kafka, own = grow("kafka", newcomer), grow(STREAMS_HA, newcomer)
    assert kafka.moves > own.moves
    assert kafka.rebalances > own.rebalances


def test_large_stores_warm_up_before_their_tasks_move() -> None:
    scene = application(3)
    small = application(2)
    for plan in plans(small, STREAMS_HA):
        small.settle(plan)
    for instance, before in zip(scene.instances, small.instances, strict=False):
        instance.lags, instance.active, instance.standby = dict(before.lags), before.active, before.standby
    first, *_ = plans(scene, STREAMS_HA)
    assert not set(np.flatnonzero(first.active == 2).tolist()) & set(LARGE)
    assert set(first.standby_task[first.warmup].tolist()) == {8, 11}, "the two that will run there"
