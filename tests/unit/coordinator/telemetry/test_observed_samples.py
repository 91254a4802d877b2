"""What looks at an observed group become as events, in the schemas that the pipeline reads."""

from dataclasses import replace

import pytest

from bellwether_kafka.coordinator.observation import Observation
from bellwether_kafka.coordinator.telemetry import ObservedSamples
from tests.kit.observed import SKEWED, group_lag, member, observed_group, sample
from tests.kit.plans import KeptEvents

UNKNOWN = -1

INTERVAL_MS = 30_000


def refresh(at_ms: int, committed: list[int], ends: list[int], seen: Observation = SKEWED) -> Observation:
    """What is committed and written, of a topic beside those of the group, too."""
    lag = group_lag(sample(0, {"clicks": [1], "orders": committed}, {"clicks": [2], "orders": ends}))
    return replace(seen, seen_at_ms=at_ms, group_lag=lag)


def published(*refreshes: Observation) -> KeptEvents:
    kept = KeptEvents()
    samples = ObservedSamples(kept, INTERVAL_MS)
    for seen in refreshes:
        samples.on_observation(seen)
    return kept


def test_lag_names_who_has_each_partition_now_and_not_by_bellwethers_plan() -> None:
    ((event, record),) = published(refresh(5, [3, UNKNOWN, 30, 40], [10, 20, 30, 12_040])).events
    assert (event, record["group"], record["sampled_at_ms"]) == ("lag", "g", 5)
    assert [(e["partition"], e["member"], e["committed"], e["end"], e["lag"]) for e in record["entries"]] == [
        (0, "b-1", 3, 10, 7), (1, "a-1", UNKNOWN, 20, UNKNOWN), (2, "b-1", 30, 30, 0), (3, "b-1", 40, 12_040, 12_000),
    ]  # fmt: skip


def test_traffic_is_what_was_written_between_two_refreshes_in_unknown_bytes() -> None:
    first, second = refresh(0, [0] * 4, [10] * 4), refresh(INTERVAL_MS, [0] * 4, [10, 15, 20, UNKNOWN])
    (*_, (event, record)) = published(first, second).events
    assert (event, record["since_ms"], record["sampled_at_ms"]) == ("traffic", 0, INTERVAL_MS)
    assert [(e["member"], e["rack"], e["records"], e["bytes"]) for e in record["entries"]] == [
        ("b-1", "az2", 0, UNKNOWN), ("a-1", "az1", 5, UNKNOWN), ("b-1", "az2", 10, UNKNOWN),
        ("b-1", "az2", UNKNOWN, UNKNOWN),
    ]  # fmt: skip


@pytest.mark.slow
def test_refreshes_more_frequent_than_samples_are_left_out() -> None:
    refreshes = (refresh(at, [0] * 4, [at] * 4) for at in range(0, 3 * INTERVAL_MS, 10_000))
    assert [record["sampled_at_ms"] for event, record in published(*refreshes).events if event == "lag"] == [
        0, INTERVAL_MS, 2 * INTERVAL_MS,
    ]  # fmt: skip


def test_members_that_come_and_go_are_reported_but_not_those_of_the_first_refresh() -> None:
    others = observed_group(member("a-1", "az1", "orders-0", "orders-1"), member("d-1", "az2", "orders-2", "orders-3"))
    events = published(refresh(0, [0] * 4, [9] * 4), refresh(INTERVAL_MS, [0] * 4, [9] * 4, others)).events
    changes = [record for event, record in events if event == "membership"]
    assert sorted((change_["change"], change_["member"]) for change_ in changes) == [
        ("joined", "d-1"), ("left", "b-1"), ("left", "c-1"),
    ]  # fmt: skip
    assert {(change_["generation"], change_["changed_at_ms"]) for change_ in changes} == {(UNKNOWN, INTERVAL_MS)}


def test_nothing_is_reported_of_what_a_refresh_does_not_show_or_another_process_of_bellwethers_leads() -> None:
    seen = refresh(0, [0] * 4, [9] * 4)
    silent = (
        replace(seen, shadow=None),
        replace(seen, group_lag=None),
        replace(seen, bellwether_members=seen.members[:1]),
    )
    assert published(*silent).events == []


def test_a_group_that_is_gone_begins_anew() -> None:
    kept = KeptEvents()
    samples = ObservedSamples(kept, INTERVAL_MS)
    samples.on_observation(refresh(0, [0] * 4, [9] * 4))
    samples.on_gone("g")
    samples.on_observation(refresh(1, [0] * 4, [9] * 4))
    assert [event for event, _ in kept.events] == ["lag", "lag"]
