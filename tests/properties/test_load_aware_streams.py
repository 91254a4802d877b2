"""`load-aware` for Streams tasks: never worse than count balance by its own score, bounded, and deaf to noise."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bellwether_kafka.assignors.consumer.load_aware import LoadAware
from bellwether_kafka.assignors.shared.dense_views import NOBODY, ClusterView
from bellwether_kafka.assignors.shared.weights import Weights
from bellwether_kafka.assignors.streams.application.task_views import AssignmentConfigs, StreamsPlan, StreamsView
from bellwether_kafka.assignors.streams.placing.sticky_task import previous_owners
from bellwether_kafka.assignors.streams.policies.assign import assign_streams
from bellwether_kafka.assignors.streams.policies.load_aware import Items, cores, task_weights, terms_of
from bellwether_kafka.assignors.streams.sending.validate import validate_plan
from bellwether_kafka.protocol.primitives.types import TopicPartition
from tests.unit.assignors.streams.scenes import Application, Instance, process_id

CONFIGS = AssignmentConfigs(max_warmup_replicas=100)


def viewed(application: Application) -> StreamsView:
    """With partitions, without which no task has a weight."""
    counts = {f"t{g}": [[None]] * count for g, (count, _) in enumerate(application.subtopologies)}
    return replace(application.view(), cluster=ClusterView.of(counts))


def weighed(application: Application, sizes: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> LoadAware:
    names = [TopicPartition(f"t{g}", p) for g, (n, _) in enumerate(application.subtopologies) for p in range(n)]
    return LoadAware(Weights(dict(zip(names, sizes.tolist(), strict=True))))


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_tasks_are_placed_no_worse_than_by_counts(seed: int, cored: bool) -> None:
    rng = np.random.default_rng(seed)
    processes, tasks = int(rng.integers(1, 6)), int(rng.integers(1, 40))
    held = rng.integers(-1, processes, tasks)
    instances = [
        Instance(
            process_id(n),
            capacity=int(rng.integers(1, 4)),
            tags={"cores": str(int(rng.integers(1, 5)))} if cored else {},
            active=np.flatnonzero(held == n).tolist(),
        )
        for n in range(processes)
    ]
    application = Application([(tasks, None)], instances)
    view = viewed(application)
    load = weighed(application, np.exp(rng.normal(0, rng.uniform(0, 2), tasks)))
    plan = assign_streams(view, CONFIGS, "load-aware", load=load)
    counted = assign_streams(view, CONFIGS, "streams-ha")
    assert validate_plan(view, plan) == ()
    weight, reason = task_weights(view, load)
    assert weight is not None, reason
    before = previous_owners(view)
    items = Items(
        weight, cores(view), np.zeros(processes), load.rules, terms_of(view, np.arange(tasks, dtype=np.int32))
    )
    assert items.score(before, plan.active)[0] <= items.score(before, counted.active)[0] + 1e-9

    def moved(plan: StreamsPlan) -> int:
        return int(((before != NOBODY) & (before != plan.active)).sum())

    assert moved(plan) <= moved(counted) + load.rules.limit(int((before != NOBODY).sum()))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([None, 1_000]))
def test_ten_rebalances_of_noise_move_no_task(seed: int, end_sum: int | None) -> None:
    """A settled application, stateless or stateful, whose tasks' loads each wander by up to a tenth either way."""
    rng = np.random.default_rng(seed)
    processes = int(rng.integers(2, 6))
    tasks = int(rng.integers(8 * processes, 16 * processes))
    application = Application([(tasks, end_sum)], [Instance(process_id(n)) for n in range(processes)])
    loads = np.exp(rng.normal(0, rng.uniform(0, 1.5), tasks))

    def plan(noise: float) -> StreamsPlan:
        seen = loads * (1 + rng.uniform(-noise, noise, tasks))
        found = assign_streams(viewed(application), CONFIGS, "load-aware", load=weighed(application, seen))
        application.settle(found)
        return found

    for _ in range(12):
        settled = plan(0.0)
    assert not settled.probing
    for _ in range(10):
        found = plan(0.1)
        assert found.active.tolist() == settled.active.tolist()
        assert not found.probing
