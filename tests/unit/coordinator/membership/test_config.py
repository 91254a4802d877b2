"""The arithmetic that keeps promise P2, and what settings must go together."""

import pytest

from bellwether_kafka.coordinator.membership import MembershipConfig, check_timing


def test_the_defaults_keep_the_promise() -> None:
    assert check_timing(MembershipConfig("orders")) is None


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        (
            {"decision_deadline_ms": 8_000},
            ["decision_deadline_ms + heartbeat_interval_ms + 1000 is 10000", "session_timeout_ms (10000)", "10000,"],
        ),
        ({"coalesce_running_ms": 15_000}, ["coalesce_running_ms must be less than 15000"]),
        ({"protocols": ()}, ["protocols is empty"]),
    ],
)
def test_timing_that_breaks_the_promise_is_named(settings: dict[str, object], names: list[str]) -> None:
    sentence = check_timing(MembershipConfig("orders", **settings))
    assert sentence is not None
    assert sentence.startswith("Group 'orders'")
    for name in names:
        assert name in sentence


def test_standby_instances_for_each_other_share_an_instance_id() -> None:
    sentence = check_timing(MembershipConfig("orders", standby=True))
    assert sentence is not None
    assert "instance_id" in sentence


def test_a_takeover_must_fit_into_a_session() -> None:
    sentence = check_timing(MembershipConfig("orders", adopt="take-over", hold_ms_max=60_000))
    assert sentence is not None
    assert "would stall its members" in sentence
