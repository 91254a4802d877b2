"""Metrics: what one decision leaves in the registry."""

from assignors.decide import Decision, decide
from assignors.memory import Memory
from assignors.model import ClusterView
from assignors.registry import Policy
from assignors.views import RawGroup, RawMember
from coordinator.metrics import OTHER, Labels, Metrics, Timings
from protocol.consumer import ConsumerProtocolSubscription


def decided() -> Decision:
    cluster = ClusterView.of({"orders": [["az1"], ["az2"], ["az3"], ["az3"]]})
    blob = ConsumerProtocolSubscription(version=3, topics=("orders",), rack_id="az1").encode()
    members = (RawMember("a", None, blob), RawMember("b", None, blob), RawMember("broken", None, b"\x00"))
    raw = RawGroup(group_id="g", generation=5, protocol="range", members=members, own_member_ids=frozenset())
    return decide(raw, cluster, Memory.empty(), Policy(), now_ms=0)


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"bellwether_{name}", {"group": "g", **labels})


def test_a_round_fills_the_metrics() -> None:
    metrics = Metrics()
    timings = Timings(join_s=0.2, decide_s=0.004, sync_s=0.01, metadata_age_s=3.0)
    metrics.record(decided(), timings, reason="member joined")
    assert value(metrics, "rebalances_total", reason="member joined", outcome="led") == 1
    assert value(metrics, "generation") == 5
    assert value(metrics, "members") == 3
    assert value(metrics, "degraded_members") == 1
    assert value(metrics, "partitions") == 4
    assert value(metrics, "cross_rack_partitions") == 3
    assert value(metrics, "partition_moves_total", kind="new") == 4
    assert value(metrics, "partition_moves_total", kind="moved") == 0
    assert value(metrics, "withheld_partitions") == 0
    assert value(metrics, "metadata_age_seconds") == 3.0
    assert value(metrics, "decision_seconds_count") == 1
    assert value(metrics, "decision_seconds_bucket", le="0.005") == 1
    assert value(metrics, "decision_seconds_bucket", le="0.0025") == 0


def test_a_step_that_did_not_happen_is_not_timed() -> None:
    metrics = Metrics()
    metrics.record(decided(), Timings(decide_s=0.1), reason="x")
    assert value(metrics, "join_seconds_count") is None
    assert value(metrics, "metadata_age_seconds") is None


def test_refusals_fallbacks_and_step_asides_have_reasons() -> None:
    metrics = Metrics()
    metrics.leading.labels("g").set(1)
    metrics.refused("g", "deadline")
    metrics.fell_back("g", "stage failed")
    metrics.stepped_aside("g", "another leader")
    assert value(metrics, "rebalances_total", reason="deadline", outcome="refused") == 1
    assert value(metrics, "fallbacks_total", reason="stage failed") == 1
    assert value(metrics, "step_asides_total", reason="another leader") == 1
    assert value(metrics, "leading") == 0


def test_reasons_are_capped() -> None:
    labels = Labels(most=2)
    assert [labels(x) for x in ("a", "b", "c", "a", "d")] == ["a", "b", OTHER, "a", OTHER]


def test_two_sets_of_metrics_do_not_meet() -> None:
    first, second = Metrics(), Metrics()
    first.fell_back("g", "x")
    assert value(second, "fallbacks_total", reason="x") is None
