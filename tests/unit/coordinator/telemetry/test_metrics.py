"""Metrics: what one decision leaves in the registry."""

import math
import time
from dataclasses import replace

from bellwether_kafka.assignors.consumer import PartitionPlan, Policy, decide
from bellwether_kafka.assignors.shared import ClusterView, Decision, Memory, RawGroup, RawMember
from bellwether_kafka.coordinator.ghosts import Conversion, Proof
from bellwether_kafka.coordinator.membership import Note, NoteKind, NotLeading, Role
from bellwether_kafka.coordinator.observation import FindingKind, Observation, Unknown, group_values, of_kind
from bellwether_kafka.coordinator.planning import (
    Cause,
    CauseKind,
    Planned,
    Source,
    Timings,
    WatchedTopics,
    cause,
)
from bellwether_kafka.coordinator.telemetry import Metrics
from bellwether_kafka.coordinator.telemetry.metrics import SeriesLabels
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription
from tests.kit.observed import RACKLESS, SKEWED

REASONS_MAX = 30


def decided() -> Decision[PartitionPlan]:
    cluster = ClusterView.of({"orders": [["az1"], ["az2"], ["az3"], ["az3"]]})
    blob = ConsumerProtocolSubscription(version=3, topics=("orders",), rack_id="az1").encode()
    members = (RawMember("a", None, blob), RawMember("b", None, blob), RawMember("broken", None, b"\x00"))
    raw = RawGroup(group_id="g", generation=5, protocol="range", members=members, own_member_ids=frozenset())
    return decide(raw, cluster, Memory.empty(), Policy(), now_ms=0)


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"bellwether_{name}", {"group": "g", **labels})


def test_what_brokers_show_of_a_group_to_lead_has_the_same_series() -> None:
    """After a restart without a rebalance, and while a member leads: alerts on these series must be able to fire."""
    metrics, shadow = Metrics(), SKEWED.shadow
    assert shadow is not None
    metrics.on_led_seen(SKEWED)
    assert value(metrics, "members") == 3
    assert value(metrics, "partitions") == 4
    assert value(metrics, "unowned_partitions") == shadow.current.unowned
    assert value(metrics, "cross_rack_partitions") == shadow.current.cross_rack > 0
    assert value(metrics, "partition_spread") == shadow.current.spread
    assert math.isnan(value(metrics, "pending_partitions") or 0)


def test_figures_of_a_group_to_lead_are_reported_to_be_old_while_no_broker_answers() -> None:
    metrics, silent = Metrics(), Unknown("the group's coordinator node does not answer", 1_000)
    nothing = Observation("g", "unknown", "", "", 1_000, unknown=silent)
    metrics.on_led_seen(nothing)
    assert value(metrics, "observed_unknown") == 1
    assert math.isnan(value(metrics, "members") or 0), "unknown is not 0"
    metrics.on_led_seen(SKEWED)
    assert (value(metrics, "observed_unknown"), value(metrics, "members")) == (0, 3)
    metrics.on_led_seen(replace(SKEWED, unknown=silent))
    assert (value(metrics, "observed_unknown"), value(metrics, "members")) == (1, 3)


def test_what_is_read_across_racks_is_not_zero_where_no_rack_is_known() -> None:
    assert RACKLESS.shadow is not None
    metrics = Metrics()
    metrics.record(replace(RACKLESS.shadow.decision, raw=replace(RACKLESS.shadow.decision.raw, group_id="g")))
    assert math.isnan(value(metrics, "cross_rack_partitions") or 0)
    assert value(metrics, "unowned_partitions") == 0


def test_of_a_group_in_a_rebalance_only_members_are_known() -> None:
    metrics = Metrics()
    metrics.on_decision(planned())
    metrics.on_led_seen(replace(SKEWED, shadow=None, trouble="it is PreparingRebalance"))
    assert value(metrics, "members") == 3
    assert math.isnan(value(metrics, "unowned_partitions") or 0)
    assert all(math.isnan(value(metrics, name) or 0) for name in ("partitions", "pending_partitions")), "none vanishes"


def test_findings_are_not_known_while_a_group_rebalances() -> None:
    """Brokers show no assignments then: an alert on a finding must not take that for its end."""
    metrics = Metrics()
    metrics.on_led_seen(replace(SKEWED, anomalies=(of_kind(FindingKind.TWO_OWNERS, "message", "remedy", count=2),)))
    assert value(metrics, "anomalies", kind="two_owners") == 2
    assert value(metrics, "anomalies", kind="not_subscribed") == 0
    moving = replace(SKEWED, state="PreparingRebalance", shadow=None)
    metrics.on_led_seen(moving)
    assert math.isnan(value(metrics, "anomalies", kind="two_owners") or 0)
    assert value(metrics, "anomalies", kind="self_assigned") == 0
    assert "two_owners" in group_values(moving)["anomalies_unknown"]
    assert FindingKind.UNEVEN_TOPIC in replace(SKEWED, shadow=None).unjudged


def planned(source: Source = Source.PLAN, previous: Decision[PartitionPlan] | None = None) -> Planned[PartitionPlan]:
    decision, timings = decided(), Timings(3.0, metadata_s=0.2, plan_s=0.004, sync_s=0.01, join_s=2.0)
    why = cause(previous, decision)
    return Planned(decision, WatchedTopics(("orders",)), timings, source, previous=previous, cause=why)


def test_a_rebalance_fills_the_metrics() -> None:
    metrics = Metrics()
    metrics.on_decision(planned())
    assert value(metrics, "rebalances_total", reason="first plan", outcome="led") == 1
    assert value(metrics, "generation") == 5
    assert value(metrics, "members") == 3
    assert value(metrics, "degraded_members") == 1
    assert value(metrics, "partitions") == 4
    assert value(metrics, "cross_rack_partitions") == 3
    assert value(metrics, "partition_moves_total", kind="new") == 4
    assert value(metrics, "partition_moves_total", kind="moved") == 0
    assert value(metrics, "pending_partitions") == 0
    assert value(metrics, "metadata_age_seconds") == 3.0
    assert value(metrics, "decision_seconds_count") == 1
    assert value(metrics, "decision_seconds_bucket", le="0.005") == 1
    assert value(metrics, "decision_seconds_bucket", le="0.0025") == 0
    assert value(metrics, "sync_seconds_sum") == 0.01
    assert value(metrics, "join_seconds_sum") == 2.0
    assert value(metrics, "stage_seconds_count", stage="placement by range") == 1
    assert time.time() - 60 < (value(metrics, "led_timestamp_seconds") or 0) <= time.time()
    assert value(metrics, "fallbacks_total", reason="cheaper plan") is None


def test_the_size_of_the_group_record_is_reported() -> None:
    metrics, rebalance = Metrics(), planned()
    metrics.on_decision(rebalance)
    decision = rebalance.decision
    blobs = sum(len(m.metadata) for m in decision.raw.members) + sum(len(blob) for _, blob in decision.assignments)
    size = value(metrics, "group_record_bytes")
    assert size is not None
    assert blobs < size < blobs + 1_000


def test_the_second_rebalance_is_compared_with_the_first() -> None:
    metrics = Metrics()
    metrics.on_decision(planned())
    metrics.on_decision(planned(Source.CHEAP, decided()))
    assert value(metrics, "rebalances_total", reason="nothing changed", outcome="led") == 1
    assert value(metrics, "fallbacks_total", reason="cheaper plan") == 1


def test_notes_count_refusals_and_step_asides() -> None:
    metrics = Metrics()
    metrics.on_note("g", Note(NoteKind.LEADING, "3 members beside Bellwether"))
    metrics.on_note("g", Note(NoteKind.REFUSED, "no plan before the decision deadline", 3, NotLeading.NO_PLAN))
    metrics.on_note("g", Note(NoteKind.ALERT, "look"))
    metrics.on_note("g", Note(NoteKind.LEFT, "m-1 leads the group", 3, NotLeading.SET_BACK))
    assert value(metrics, "rebalances_total", reason="no_plan", outcome="refused") == 1
    assert value(metrics, "step_asides_total", reason="set_back") == 1
    assert value(metrics, "alerts_total") == 1


def test_rebalances_that_orders_cause_are_counted_apart() -> None:
    metrics, ordered = Metrics(), planned()
    metrics.on_decision(replace(ordered, cause=Cause(CauseKind.ORDERED, "evacuate a", by_order=True)))
    metrics.on_decision(replace(ordered, cause=Cause(CauseKind.ORDERED, "evacuate a", by_order=False)))
    assert value(metrics, "rebalances_total", reason="ordered", outcome="ordered") == 1
    assert value(metrics, "rebalances_total", reason="ordered", outcome="led") == 1


def test_a_group_that_is_not_led_has_one_reason_at_a_time() -> None:
    metrics = Metrics()
    metrics.expect("g", lead=True, ghosts=False)
    assert value(metrics, "group_leading") == 0
    assert value(metrics, "group_not_leading", reason="starting") == 1
    metrics.on_role("g", Role(NotLeading.EMPTY, ""))
    assert value(metrics, "group_not_leading", reason="starting") is None
    assert value(metrics, "group_not_leading", reason="empty") == 1
    metrics.on_role("g", Role(None))
    assert value(metrics, "group_leading") == 1
    assert value(metrics, "group_not_leading", reason="empty") is None


def test_a_group_that_is_only_observed_has_no_role() -> None:
    metrics = Metrics()
    metrics.expect("g", lead=False, ghosts=False)
    assert value(metrics, "group_leading") is None


def test_members_that_come_and_go_are_counted_by_client() -> None:
    metrics, uuid = Metrics(), "6f0bb3f0-0c6c-4c49-9f0b-1f1c3a1d2e3f"
    metrics.changed("g", Cause(CauseKind.JOINED, "", (f"shop-1-{uuid}",)))
    metrics.changed("g", Cause(CauseKind.EXCHANGED, "", (f"shop-1-{uuid}", f"shop-1-{uuid[::-1]}", "by-hand")))
    assert value(metrics, "member_changes_total", client="shop-1") == 3
    assert value(metrics, "member_changes_total", client="by-hand") == 1
    for i in range(100):
        metrics.changed("g", Cause(CauseKind.JOINED, "", (f"shop-{i + 2}-{uuid}",)))
    assert value(metrics, "member_changes_total", client="other") == 100 - (REASONS_MAX - 2)


def test_ghosts_are_counted_by_proof_and_convertible_groups_shown() -> None:
    metrics = Metrics()
    metrics.on_ghost("g", Proof.PROCESS_ID)
    metrics.on_ghost("g", Proof.PROCESS_ID)
    assert value(metrics, "ghosts_removed_total", proof="process_id") == 2
    assert value(metrics, "ghosts_removed_total", proof="client_id") is None
    metrics.on_conversion("g", Conversion(()))
    assert value(metrics, "convertible") == 1
    metrics.on_conversion("g", Conversion(("a carries userData",)))
    assert value(metrics, "convertible") == 0


def test_counters_of_a_group_begin_at_zero() -> None:
    metrics = Metrics()
    metrics.expect("g", lead=True, ghosts=True)
    assert value(metrics, "alerts_total") == 0
    assert value(metrics, "fallbacks_total", reason="cheaper plan") == 0
    assert value(metrics, "ghosts_removed_total", proof="client_id") == 0


def test_reasons_are_capped() -> None:
    labels = SeriesLabels(most=2)
    assert [labels(x) for x in ("a", "b", "c", "a", "d")] == ["a", "b", "other", "a", "other"]


def test_two_sets_of_metrics_do_not_meet() -> None:
    first, second = Metrics(), Metrics()
    first.on_role("g", Role(None))
    assert value(second, "group_leading") is None


def test_when_a_series_was_made_is_no_series() -> None:
    """It was 17 of 137 series."""
    metrics = Metrics()
    metrics.on_conversion("g", Conversion(()))
    names = {sample.name for family in metrics.registry.collect() for sample in family.samples}
    assert names
    assert not [name for name in names if name.endswith("_created")]
