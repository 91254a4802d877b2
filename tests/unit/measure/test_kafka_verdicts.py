"""How the run of Kafka's own unit tests judges what came out."""

import json
from dataclasses import replace

import pytest

from tests.kafka.run import Case, Compared, Ran, read
from tests.kafka.verdicts import Listed, listed, troubles, worse

STICKY = "StickyAssignorTest"
CASE = Case(STICKY, "moves", "[1] racks", "expected: <1>", asked=2, seconds=0.1)
PASSED = replace(CASE, name="[2] no racks", failure="")
PLAN = Compared(
    STICKY, "moves", "[1] racks", same=False, ours={"loads": 5, "moves": 1}, theirs={"loads": 5, "moves": 1}
)
ENTRY = Listed(1, "choice", "Java walks a hash table")
LISTED = {(STICKY, "moves"): ENTRY}
CLASSES = frozenset({STICKY})


def ran(*cases: Case, plans: tuple[Compared, ...] = (PLAN,)) -> Ran:
    return Ran(cases or (CASE, PASSED), plans)


def test_a_report_is_read_by_test_and_plan() -> None:
    test = {"kind": "test", "test_class": STICKY, "method": "moves", "name": "[1] racks", "asked": 2, "seconds": 0.1}
    plan = {"kind": "plan", "test_class": STICKY, "method": "moves", "name": "[1] racks", "same": False}
    measures = {"ours": {"loads": 5, "moves": 1}, "theirs": {"loads": 5, "moves": 1}}
    lines = [test | {"failure": "expected: <1>"}, plan | measures]
    assert read("\n".join(map(json.dumps, lines))) == Ran((CASE,), (PLAN,))


def test_a_difference_that_is_listed_and_as_good_is_no_trouble() -> None:
    assert troubles(ran(), LISTED, CLASSES) == []


def test_nothing_differs_and_nothing_is_listed() -> None:
    assert troubles(ran(PASSED), {}, CLASSES) == []


@pytest.mark.parametrize(
    ("ended", "told", "said"),
    [
        (ran(), {}, "fails and is not listed"),
        (ran(), {(STICKY, "moves"): replace(ENTRY, fails=2)}, "fails 1 times, 2 are listed"),
        (ran(PASSED), LISTED, "fails 0 times, 1 are listed, so it is to be taken out"),
        (ran(plans=()), LISTED, "no plan of it was compared"),
        (
            ran(plans=(replace(PLAN, ours={"loads": 9, "moves": 0}),)),
            LISTED,
            "a plan is worse than Kafka's: loads 9 > 5",
        ),
        (
            ran(plans=(replace(PLAN, ours={"loads": 5, "moves": 2}),)),
            LISTED,
            "a plan is worse than Kafka's: moves 2 > 1",
        ),
        (ran(plans=(replace(PLAN, name="[2] no racks"),)), LISTED, "no plan of it was compared"),
        (ran(plans=(replace(PLAN, same=True),)), LISTED, "all of its plans are Kafka's"),
        (ran(), {(STICKY, "moves"): replace(ENTRY, kind="order")}, "a matter of order, but a plan is another one"),
    ],
    ids=[
        *("not listed", "another number", "stale", "not compared", "worse", "worse at the second measure"),
        *("another run", "the same plans", "not only the order"),
    ],
)
def test_any_other_difference_is_told(ended: Ran, told: dict[tuple[str, str], Listed], said: str) -> None:
    (trouble,) = troubles(ended, told, CLASSES)
    assert trouble.startswith(f"{STICKY}.moves")
    assert said in trouble


def test_a_class_that_was_not_run_or_asked_us_nothing_is_told() -> None:
    assert troubles(Ran((), ()), {}, CLASSES) == [f"{STICKY} was not run"]
    assert troubles(ran(replace(PASSED, asked=0)), {}, CLASSES) == [f"{STICKY} asked us nothing"]


def test_a_later_measure_counts_only_where_earlier_ones_are_equal() -> None:
    assert worse(replace(PLAN, ours={"loads": 4, "moves": 9})) == ""
    assert worse(replace(PLAN, ours={"loads": 5, "moves": 0})) == ""


def test_the_reviewed_file_is_read_by_policy_and_release() -> None:
    text = """
kafka:
  StickyAssignorTest:
    moves: {fails: 1, kind: choice, why: Java walks a hash table}
    stays: {fails: {3.9.2: 2}, kind: order, why: lists}
"""
    assert listed("kafka", "4.3.0", text) == LISTED
    assert listed("kafka", "3.9.2", text) == {**LISTED, (STICKY, "stays"): Listed(2, "order", "lists")}
    assert listed("streams-ha", "4.3.0", text) == {}


def test_a_kind_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match=r"StickyAssignorTest\.moves is of no known kind: taste"):
        listed("kafka", "4.3.0", f"kafka: {{{STICKY}: {{moves: {{fails: 1, kind: taste, why: it is}}}}}}")


@pytest.mark.parametrize("policy", ["kafka", "streams-ha"])
@pytest.mark.parametrize("release", ["4.3.0", "3.9.2"])
def test_what_is_listed_has_a_reason(policy: str, release: str) -> None:
    assert all(entry.why for entry in listed(policy, release).values())
