"""Metrics of traffic between racks: by rack pair, in bytes and money, bounded, and fresh when weights change."""

import asyncio
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from bellwether_kafka.assignors.consumer import Policy, decide
from bellwether_kafka.assignors.explain import Traffic
from bellwether_kafka.assignors.shared import ClusterView, Memory, Weights
from bellwether_kafka.coordinator.membership import Note, NoteKind
from bellwether_kafka.coordinator.observation import Observation, Shadow
from bellwether_kafka.coordinator.settings import CostSettings
from bellwether_kafka.coordinator.telemetry import CostMetrics, Metrics, ObservedMetrics, metrics_cost
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.consumers import LiveMember, live_group

PAIRS_MAX = 100

CLUSTER = ClusterView.of({"t": [["az1"], ["az2"]]})
LIGHT = Weights({TopicPartition("t", 0): 1e6, TopicPartition("t", 1): 1e6})
HEAVY = Weights({TopicPartition("t", 0): 3e6, TopicPartition("t", 1): 3e6})


def seen() -> Observation:
    member = LiveMember("m", ("t",), "az1")
    outcome = decide(live_group([member], 1, "range"), CLUSTER, Memory.empty(), Policy(), 0)
    raw = live_group([member.after(outcome)], 2, "range")
    decision = decide(raw, CLUSTER, outcome.plan.memory, Policy(), 0)
    return Observation("group", "classic", "Stable", "range", 0, shadow=Shadow.of(decision, decision.plan.before))


def samples(metrics: Metrics, name: str) -> dict[tuple[str, ...], float]:
    return {
        tuple(v for k, v in sorted(s.labels.items()) if k != "group"): s.value
        for family in metrics.registry.collect()
        for s in family.samples
        if s.name == f"bellwether_{name}"
    }


class Refusing:
    """Brokers that do not let their configuration be read."""

    def describe_cluster(self, **_: object) -> None:
        raise KafkaException(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED))


class Reported:
    """Weights that may change."""

    def __init__(self) -> None:
        self.now = LIGHT

    def __call__(self) -> Weights:
        return self.now


async def test_bytes_and_money_by_rack_pair() -> None:
    metrics, reported = Metrics(), Reported()
    cost = CostMetrics(metrics, CostSettings(price_per_gb=0.02, currency="EUR", follower_fetching=False), reported)
    cost.on_observation(seen())
    await cost.refresh()
    assert samples(metrics, "cross_rack_bytes_per_second") == {("az2", "az1"): 1e6}
    assert samples(metrics, "cross_rack_cost_per_hour") == pytest.approx({("EUR", "az2", "az1"): 0.072})
    assert samples(metrics, "weighed_partitions") == {(): 2}
    assert samples(metrics, "cross_rack_read_partitions") == {("az2", "az1"): 1}

    reported.now = HEAVY
    await cost.refresh()
    assert samples(metrics, "cross_rack_bytes_per_second") == {("az2", "az1"): 3e6}
    cost.on_note("group", Note(NoteKind.LEFT, "", 1))
    assert samples(metrics, "cross_rack_bytes_per_second") == {}


async def test_without_weights_partitions_are_counted() -> None:
    metrics = Metrics()
    cost = CostMetrics(metrics, None, None)
    cost.on_observation(seen())
    task = asyncio.create_task(cost.beside(None, None, Refusing()))  # type: ignore[arg-type]  # as an admin client
    async with asyncio.timeout(60):
        while not samples(metrics, "cross_rack_read_partitions"):  # noqa: ASYNC110 - a gauge notifies nothing
            await asyncio.sleep(0.01)
    task.cancel()
    assert samples(metrics, "cross_rack_read_partitions") == {("az2", "az1"): 1}
    for name in ("cross_rack_bytes_per_second", "cross_rack_cost_per_hour", "weighed_partitions"):
        assert samples(metrics, name) == {}


@pytest.mark.slow
async def test_a_group_whose_cost_could_not_be_computed_once_is_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_cost, "INTERVAL_S", 0.01)
    metrics = Metrics()
    cost = CostMetrics(metrics, CostSettings(follower_fetching=False), None)
    cost.on_observation(seen())
    failures, traffic = iter([True]), cost._traffic

    def traffic_or_error(*arguments: Any) -> Traffic:
        if next(failures, False):
            raise ValueError("once")
        return traffic(*arguments)

    monkeypatch.setattr(cost, "_traffic", traffic_or_error)
    task = asyncio.create_task(cost.beside(None, None, Refusing()))  # type: ignore[arg-type]  # as an admin client
    async with asyncio.timeout(60):
        while not samples(metrics, "cross_rack_read_partitions"):  # noqa: ASYNC110 - a gauge notifies no task
            await asyncio.sleep(0.01)
    task.cancel()


def test_pairs_are_bounded_and_nothing_is_lost() -> None:
    metrics = Metrics()
    cost = CostMetrics(metrics, CostSettings(price_per_gb=1.0, follower_fetching=False), Weights)
    many: dict[Any, float] = {(f"r{i}", "az1"): float(i + 1) for i in range(PAIRS_MAX + 5)}
    cost._record("group", Traffic(many, {}, 0.0, 0, 0))
    values = samples(metrics, "cross_rack_bytes_per_second")
    assert len(values) == PAIRS_MAX + 1
    assert values["other", "other"] == 1 + 2 + 3 + 4 + 5
    assert sum(values.values()) == sum(many.values())


async def test_a_group_that_is_no_longer_refreshed_shows_nothing_any_more() -> None:
    metrics = Metrics()
    costs, observed = CostMetrics(metrics, None, lambda: LIGHT), ObservedMetrics(metrics)
    for listener in (costs.on_observation, observed.on_observation):
        listener(seen())
    await costs.refresh()
    shown = {s.name for family in metrics.registry.collect() for s in family.samples if "group" in s.labels}
    assert {"bellwether_members", "bellwether_weighed_partitions"} <= shown
    costs.on_gone("group")
    metrics.on_gone("group")
    assert not [s.name for family in metrics.registry.collect() for s in family.samples if "group" in s.labels]
    await costs.refresh()
    assert samples(metrics, "weighed_partitions") == {}


def test_the_same_decision_seen_again_is_not_worked_out_again() -> None:
    costs = CostMetrics(Metrics(), None, lambda: LIGHT)
    observed = seen()
    costs.on_observation(observed)
    assert costs._new == {"group"}
    costs._new.clear()
    costs.on_observation(observed)
    assert costs._new == set()
    costs.on_observation(seen())
    assert costs._new == {"group"}
