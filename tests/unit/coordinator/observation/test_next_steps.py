"""What `doctor` names last: at most three things, what must be fixed first."""

from dataclasses import replace

import pytest

from bellwether_kafka.coordinator.observation import Finding, Level, next_steps
from tests.unit.coordinator.observation.doctor_groups import consumers

STEPS_MAX = 3

OK = Finding("racks", Level.PASS, "Well.")
WARNED = [Finding(f"w{i}", Level.WARN, "Not so well.", f"Warned {i}.") for i in range(3)]
FAILED = Finding("acl", Level.FAIL, "Bad.", "Grant it.")


def test_what_fails_comes_first_and_three_are_enough() -> None:
    steps = next_steps(consumers(3), (OK, *WARNED, FAILED))
    assert steps == ("Grant it.", "Warned 0.", "Warned 1.")
    assert len(steps) == STEPS_MAX


def test_a_remedy_is_named_once() -> None:
    again = replace(WARNED[0], kind="another")
    assert next_steps(consumers(3), (WARNED[0], again))[:2] == (
        "Warned 0.",
        "See what Bellwether would change: bellwether plan g",
    )


@pytest.mark.parametrize(("mode", "message"), [("observe", True), ("lead", False)])
def test_a_group_that_needs_nothing_is_shown_the_way_on(mode: str, message: bool) -> None:
    steps = next_steps(replace(consumers(3), mode=mode), (OK,))
    assert steps[0] == "See what Bellwether would change: bellwether plan g"
    assert any('mode = "lead"' in step for step in steps) is message
    assert len(steps) == STEPS_MAX


def test_nobody_is_asked_to_lead_what_cannot_be_led() -> None:
    facts = consumers(3)
    seen = replace(facts.seen, obstacle="the broker assigns", shadow=None)
    assert next_steps(replace(facts, seen=seen, mode="observe"), (OK,)) == (
        "Watch it: bellwether describe g --watch",
        "Watch all groups: bellwether top",
    )


def test_a_group_that_is_not_there_yet() -> None:
    facts = consumers(3)
    seen = replace(facts.seen, kind="missing", shadow=None)
    assert next_steps(replace(facts, seen=seen), (OK,)) == ("Start the application, then ask again.",)
