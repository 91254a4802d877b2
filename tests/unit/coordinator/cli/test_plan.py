"""What `plan` says of who would carry it out."""

from dataclasses import replace

import pytest

from tests.kit.commands import ShownGroups, consumers


@pytest.mark.parametrize(
    ("kind", "assignor", "first"),
    [
        ("consumer", "bellwether-rack-first", "Its broker assigns, and asks Bellwether for plans."),
        ("streams", "bellwether", "Its broker assigns, and asks Bellwether for plans."),
        ("consumer", "uniform", "Hypothetical: its broker assigns. "),
        ("streams", "sticky", "Hypothetical: its broker assigns. "),
    ],
)
def test_a_plan_for_a_group_that_its_broker_assigns_says_who_carries_it_out(
    kind: str, assignor: str, first: str, groups: ShownGroups
) -> None:
    seen = replace(consumers(1, 1, 1, 0), kind=kind, protocol=assignor, assignor=assignor)  # type: ignore[arg-type]
    groups.show(replace(seen, obstacle="its broker assigns"))
    lines = groups.says("plan", "g").splitlines()
    assert lines[0].startswith(first)
    assert f"g: assigned by its broker with {assignor}; planned with policy " in lines[1]
    assert " as a classic group of protocol " in lines[1]


def test_a_plan_for_a_classic_group_begins_with_its_policy_and_protocol(groups: ShownGroups) -> None:
    groups.show(consumers(1, 1, 1, 0))
    assert groups.says("plan", "g").splitlines()[0].startswith("g: policy kafka, protocol range")
