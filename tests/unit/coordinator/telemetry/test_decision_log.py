"""The log line of a decision, and when it is a warning."""

import pytest
from structlog.testing import capture_logs

from bellwether_kafka.assignors.shared import RawMember
from bellwether_kafka.coordinator.telemetry import log_decision
from tests.kit.plans import decided, member, planned

UNREADABLE = RawMember("bad", None, b"\0")


def level(*members: RawMember) -> str:
    with capture_logs() as lines:
        log_decision(planned(decided(*members)))
    (line,) = lines
    assert line["group"] == "g"
    return str(line["log_level"])


@pytest.mark.parametrize(
    ("beside", "expected"),
    [(member("b", "az2"), "info"), (member("b", None), "info"), (UNREADABLE, "warning")],
    ids=["all have racks", "one has no rack", "one cannot be read"],
)
def test_a_member_without_a_rack_makes_no_decision_a_warning(beside: RawMember, expected: str) -> None:
    assert level(member("a", "az1"), beside) == expected


def test_that_a_member_has_no_rack_is_reported_all_the_same() -> None:
    with capture_logs() as lines:
        log_decision(planned(decided(member("a", "az1"), member("b", None))))
    assert lines[0]["warnings"] == ["names no rack while others do: member b"]
