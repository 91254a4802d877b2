"""`load-aware` for Streams tasks: even load per core, nothing moves within the band, `streams-ha` without weights."""

from dataclasses import replace

import numpy as np

from bellwether_kafka.assignors.consumer import LoadAware
from bellwether_kafka.assignors.shared import ClusterView, IntArray, Weights
from bellwether_kafka.assignors.streams.application import AssignmentConfigs, StreamsView
from bellwether_kafka.assignors.streams.policies import assign_streams
from bellwether_kafka.assignors.streams.policies.load_aware import cores, task_weights
from bellwether_kafka.assignors.streams.sending import validate_plan
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.streams_views import RACKS, Application, Instance, process_id

CONFIGS = AssignmentConfigs(max_warmup_replicas=100)
SIZES = [900.0, 800, 100, 100, 100, 100, 500, 400, 100, 100, 100, 100]


def view_of(instances: list[Instance], end_sum: int | None = None) -> StreamsView:
    view = Application([(12, end_sum)], instances).view()
    return replace(view, cluster=ClusterView.of({"t0": [[None]] * 12}))


def load_of(sizes: list[float]) -> LoadAware:
    return LoadAware(Weights({TopicPartition("t0", p): size for p, size in enumerate(sizes)}))


def imbalance(owner: IntArray, sizes: list[float], capacity: list[float]) -> float:
    load = np.bincount(owner, sizes, len(capacity)) / np.array(capacity)
    return float(load.max() / (sum(sizes) / sum(capacity)))


def test_stateless_tasks_are_levelled_by_load() -> None:
    instances = [Instance(process_id(n), active=list(range(4 * n, 4 * n + 4))) for n in range(3)]
    view = view_of(instances)
    plan = assign_streams(view, CONFIGS, "load-aware", load=load_of(SIZES))
    assert validate_plan(view, plan) == ()
    assert imbalance(plan.active, SIZES, [1, 1, 1]) < 1.1
    counted = assign_streams(view, CONFIGS, "streams-ha")
    assert imbalance(counted.active, SIZES, [1, 1, 1]) > 1.3


def test_tasks_are_evened_out_further_where_errors_of_weights_are_small() -> None:
    sizes = [107.0, 95, 10, 1, 98, 91, 8, 1, 100, 89, 1, 1]
    instances = [Instance(process_id(n), active=list(range(4 * n, 4 * n + 4))) for n in range(3)]
    view, load = view_of(instances), load_of(sizes)
    kept = assign_streams(view, CONFIGS, "load-aware", load=load)
    certain = replace(load, weights=replace(load.weights, errors=dict.fromkeys(load.weights.of, 0.1)))
    plan = assign_streams(view, CONFIGS, "load-aware", load=certain)
    assert imbalance(kept.active, sizes, [1, 1, 1]) > 1.05
    assert imbalance(plan.active, sizes, [1, 1, 1]) < 1.02


def test_a_process_gets_load_by_its_cores() -> None:
    tags = [{"cores": "2"}, {"cores": "many"}, {}]
    instances = [Instance(process_id(n), tags=tags[n]) for n in range(3)]
    view = view_of(instances)
    plan = assign_streams(view, CONFIGS, "load-aware", load=load_of([100.0] * 12))
    assert np.bincount(plan.active).tolist() == [6, 3, 3]


def test_stateful_tasks_stay_within_the_band_and_move_through_warmups_beyond_it() -> None:
    tasks = [[0, 3, 6, 9], [1, 4, 7, 10], [2, 5, 8, 11]]
    instances = [Instance(process_id(n), active=mine, lags=dict.fromkeys(mine, -2)) for n, mine in enumerate(tasks)]
    view = view_of(instances, end_sum=100_000)
    still = assign_streams(view, CONFIGS, "load-aware", load=load_of([100.0 + n % 5 for n in range(12)]))
    assert still.active.tolist() == [0, 1, 2] * 4
    assert not still.probing
    sizes = [1_000.0 if t in (0, 3) else 100.0 for t in range(12)]
    moving = assign_streams(view, CONFIGS, "load-aware", load=load_of(sizes))
    assert moving.active.tolist() == [0, 1, 2] * 4
    assert moving.probing
    assert moving.warmup.any()


def test_without_weights_it_is_streams_ha() -> None:
    instances = [Instance(process_id(n)) for n in range(3)]
    view = view_of(instances, end_sum=10)
    plain = assign_streams(view, CONFIGS, "streams-ha")
    assert assign_streams(view, CONFIGS, "load-aware").active.tolist() == plain.active.tolist()
    assert task_weights(view, LoadAware()).reason.startswith("weights of 0 of 12")
    assert task_weights(replace(view, cluster=None), load_of(SIZES)).of is None


def test_load_is_levelled_inside_racks_and_stateless_tasks_beside_stateful_ones() -> None:
    instances = [Instance(process_id(n), rack=RACKS[n % 2], tags={"cores": "0"}) for n in range(4)]
    away = [p % 2 for p in range(12)] * 2  # tasks without a replica in rack a, then in rack b, in turn
    app = Application([(12, 10), (12, None)], instances, away)
    view = replace(app.view(), cluster=ClusterView.of({"t0": [[None]] * 12, "t1": [[None]] * 12}))
    assert cores(view).tolist() == [1, 1, 1, 1], "no cores are no statement"
    sizes = {TopicPartition(f"t{g}", p): 300.0 if p < 4 else 100.0 for g in range(2) for p in range(12)}
    load = LoadAware(Weights(sizes))
    plan = assign_streams(view, AssignmentConfigs(), "load-aware", load=load)
    assert validate_plan(view, plan) == ()
    rack = view.rack[plan.active]
    assert (view.tasks.source_remote[view.tasks.source_signature, rack] == 0).all(), "every task is near its replica"
    weight = task_weights(view, load).of
    assert weight is not None
    full = np.bincount(plan.active, weight, 4)
    assert full.max() / full.mean() < 1.15


def test_topics_that_are_not_known_weigh_nothing() -> None:
    view = Application([(2, None), (2, None)], [Instance(process_id(1))]).view()
    view = replace(view, cluster=ClusterView.of({"t0": [[None]] * 2}))
    weights = task_weights(view, LoadAware(Weights({TopicPartition("t0", p): 5.0 for p in range(2)})))
    assert weights.reason == ""
    assert weights.of is not None
    assert weights.of.tolist() == [1, 1, 0, 0]
