"""Kafka's settings of the assignors: names, defaults, bounds, and one sentence for each value that cannot be."""

import pytest

from bellwether_kafka.assignors.streams.application import PINNED, AssignmentConfigError, AssignmentConfigs


def test_defaults_are_kafkas() -> None:
    configs = AssignmentConfigs()
    assert configs.acceptable_recovery_lag == 10_000
    assert configs.max_warmup_replicas == 2
    assert configs.num_standby_replicas == 0
    assert configs.probing_rebalance_interval_ms == 10 * 60 * 1000
    assert configs.rack_aware_assignment_tags == ()
    assert configs.rack_aware_traffic_cost is None
    assert configs.rack_aware_non_overlap_cost is None
    assert configs.rack_aware_assignment_strategy == "none"


def test_the_bounds_themselves_are_fine() -> None:
    least = AssignmentConfigs(0, 1, 0, 60_000, (), 0, 0, "min_traffic")
    most = AssignmentConfigs(
        PINNED, 2**31 - 1, 2**31 - 1, PINNED, ("a", "b", "c", "d", "e" * 20), 10, 1, "balance_subtopology"
    )
    assert least.rack_aware_traffic_cost == 0
    assert len(most.rack_aware_assignment_tags) == 5


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("acceptable_recovery_lag", -1, "acceptable.recovery.lag must be at least 0, but it is -1."),
        ("acceptable_recovery_lag", PINNED + 1, f"acceptable.recovery.lag must be at most {PINNED}, but"),
        ("max_warmup_replicas", 0, "max.warmup.replicas must be at least 1, but it is 0."),
        ("max_warmup_replicas", "2", "max.warmup.replicas must be an integer, but it is '2'."),
        ("num_standby_replicas", -1, "num.standby.replicas must be at least 0, but it is -1."),
        ("num_standby_replicas", True, "num.standby.replicas must be an integer, but it is True."),
        ("num_standby_replicas", 2**31, "num.standby.replicas must be at most 2147483647, but"),
        ("probing_rebalance_interval_ms", 59_999, "probing.rebalance.interval.ms must be at least 60000, but"),
        ("rack_aware_assignment_tags", tuple("abcdef"), "rack.aware.assignment.tags may hold at most 5 client tag"),
        ("rack_aware_assignment_tags", ("x" * 21,), "rack.aware.assignment.tags must hold client tag keys of 1 to 20"),
        ("rack_aware_assignment_tags", ("",), "rack.aware.assignment.tags must hold client tag keys of 1 to 20"),
        ("rack_aware_assignment_tags", "zone", "rack.aware.assignment.tags must be a list of client tag keys, but"),
        ("rack_aware_traffic_cost", -1, "rack.aware.assignment.traffic_cost must be at least 0, but it is -1."),
        ("rack_aware_non_overlap_cost", 1.5, "rack.aware.assignment.non_overlap_cost must be an integer, but"),
        (
            "rack_aware_assignment_strategy",
            "min_cost",
            "rack.aware.assignment.strategy must be one of none, min_traffic, balance_subtopology, but it is",
        ),
    ],
)
def test_a_value_that_cannot_be_is_refused_in_one_sentence(field: str, value: object, sentence: str) -> None:
    with pytest.raises(AssignmentConfigError) as refused:
        AssignmentConfigs(**{field: value})  # type: ignore[arg-type]  # wrong types are among the cases
    text = str(refused.value)
    assert text.startswith(sentence)
    assert text.endswith(".")
    assert "\n" not in text
