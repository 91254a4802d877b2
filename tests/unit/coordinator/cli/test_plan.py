"""What `plan` says of who would carry it out, and of the crash that would cost most."""

from dataclasses import replace

import pytest

from bellwether_kafka.coordinator.observation import Observation, Shadow
from tests.kit.commands import SEEN, ShownGroups, consumers, page
from tests.kit.streams import one_holds_all

METRICS = """# HELP bellwether_streams_restore_records_per_second Median rate.
# TYPE bellwether_streams_restore_records_per_second gauge
bellwether_streams_restore_records_per_second{group="g"} 1500.0
bellwether_streams_restore_records_per_second{group="new"} NaN
"""


def tasks(name: str = "g") -> Observation:
    decision = one_holds_all(t0=1000)
    return replace(SEEN, group_id=name, shadow=Shadow.of(decision, decision.plan.owner))


def crash(groups: ShownGroups, *options: str, group: str = "g") -> list[str]:
    """The sentences on a crash, which only `-o wide` has."""
    assert "crashed now" not in groups.says("plan", group)
    return [line for line in groups.says("plan", group, "-o", "wide", *options).splitlines() if "crashed now" in line]


def test_the_costliest_crash_is_one_line(groups: ShownGroups) -> None:
    groups.show(consumers(1, 1, 1, 0))
    (line,) = crash(groups)
    assert line == (
        "If b-1 crashed now, no member would have its 3 partitions for up to 48 s (3.2 s with a guard);"
        " 'bellwether simulate g --crash' has more."
    )


@pytest.mark.slow
def test_the_crash_of_an_application_restores_at_a_rate_that_is_given_or_unknown(groups: ShownGroups) -> None:
    groups.show(tasks())
    (line,) = crash(groups)
    unknown = "in a time that is unknown without --restore-rate or --url"
    assert f"for up to 48 s (3.2 s with a guard), and 3,000 records would be restored {unknown};" in line
    (line,) = crash(groups, "--restore-rate", "100")
    assert "and 3,000 records would be restored in 10.0 s;" in line, "the worst task lacks 1,000"


def test_a_group_in_which_nobody_has_anything_has_none(groups: ShownGroups) -> None:
    groups.show(consumers(-1, -1, -1, -1))
    assert crash(groups) == []


@pytest.mark.slow
def test_the_rate_of_restoring_comes_from_a_running_bellwether(groups: ShownGroups) -> None:
    """It is NaN until two reports of a copy have shown it."""
    groups.show(tasks("g"), tasks("new"), tasks("other"))
    with page(METRICS) as url:
        measured, *unmeasured = (groups.run("plan", g, "-o", "wide", "--url", url) for g in ("g", "new", "other"))
        asked = groups.run("plan", "g", "-o", "wide", "--url", url, "--restore-rate", "100")
    assert "has measured 1,500 restored records per second for g" in measured.stderr
    assert "restored in 0.7 s;" in measured.stdout
    for ended, group in zip(unmeasured, ("new", "other"), strict=True):
        assert f"has no measured rate of restoring for {group}" in ended.stderr
        assert "in a time that is unknown" in ended.stdout
    assert "restored in 10.0 s;" in asked.stdout


def test_an_address_that_is_none_ends_the_command(groups: ShownGroups) -> None:
    groups.show(tasks())
    with page("}") as no_page:
        for url, why in (
            ("127.0.0.1:9790", "write http://host:port"),
            (no_page, "check --url, or give --restore-rate"),
        ):
            ended = groups.run("plan", "g", "-o", "wide", "--url", url)
            assert (ended.returncode, why in " ".join(ended.stderr.split())) == (2, True), ended


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
