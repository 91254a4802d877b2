"""How the run of Kafka's own unit tests judges what came out."""

import json
from dataclasses import replace

import pytest

from tests.lab.kafka.run import Case, Compared, Ran, read
from tests.lab.kafka.verdicts import Listed, ahead, listed, troubles, worse

STICKY = "StickyAssignorTest"
CASE = Case(STICKY, "moves", "[1] racks", "expected: <1>", asked=2, seconds=0.1)
PASSED = replace(CASE, name="[2] no racks", failure="")
PLAN = Compared(STICKY, "moves", "[1] racks", same=False, own={"loads": 5, "moves": 1}, theirs={"loads": 5, "moves": 1})
ENTRY = Listed(1, "choice", "Java walks a hash table")
LISTED = {(STICKY, "moves"): ENTRY}
CLASSES = frozenset({STICKY})


def ran(*cases: Case, plans: tuple[Compared, ...] = (PLAN,)) -> Ran:
    return Ran(cases or (CASE, PASSED), plans)


def test_a_report_is_read_by_test_and_plan() -> None:
    test = {"kind": "test", "test_class": STICKY, "method": "moves", "name": "[1] racks", "asked": 2, "seconds": 0.1}
    plan = {"kind": "plan", "test_class": STICKY, "method": "moves", "name": "[1] racks", "same": False}
    measures = {"own": {"loads": 5, "moves": 1}, "theirs": {"loads": 5, "moves": 1}}
    lines = [test | {"failure": "expected: <1>"}, plan | measures]
    assert read("\n".join(map(json.dumps, lines))) == Ran((CASE,), (PLAN,))


def test_a_difference_that_is_listed_and_as_good_is_no_trouble() -> None:
    assert troubles(ran(), LISTED, CLASSES) == []


def test_nothing_differs_and_nothing_is_listed() -> None:
    assert troubles(ran(PASSED), {}, CLASSES) == []


@pytest.mark.parametrize(
    ("ended", "reported", "message"),
    [
        (ran(), {}, "fails and is not listed"),
        (ran(), {(STICKY, "moves"): replace(ENTRY, fails=2)}, "fails 1 times, 2 are listed"),
        (ran(PASSED), LISTED, "fails 0 times, 1 are listed, so it is to be taken out"),
        (ran(plans=()), LISTED, "no plan of it was compared"),
        (
            ran(plans=(replace(PLAN, own={"loads": 9, "moves": 0}),)),
            LISTED,
            "a plan is worse than Kafka's: loads 9 > 5",
        ),
        (
            ran(plans=(replace(PLAN, own={"loads": 5, "moves": 2}),)),
            LISTED,
            "a plan is worse than Kafka's: moves 2 > 1",
        ),
        (ran(plans=(replace(PLAN, name="[2] no racks"),)), LISTED, "no plan of it was compared"),
        (ran(plans=(replace(PLAN, same=True),)), LISTED, "all of its plans are Kafka's"),
        (
            ran(),
            {(STICKY, "moves"): replace(ENTRY, kind="order")},
            "as a matter of order, and a plan is another one (as good)",
        ),
    ],
    ids=[
        *("not listed", "another number", "stale", "not compared", "worse", "worse at the second measure"),
        *("another run", "the same plans", "not only the order"),
    ],
)
def test_any_other_difference_is_reported(ended: Ran, reported: dict[tuple[str, str], Listed], message: str) -> None:
    (trouble,) = troubles(ended, reported, CLASSES)
    assert trouble.startswith(f"{STICKY}.moves")
    assert message in trouble


def test_a_class_that_was_not_run_or_asked_bellwether_nothing_is_reported() -> None:
    assert troubles(Ran((), ()), {}, CLASSES) == [f"{STICKY} was not run"]
    assert troubles(ran(replace(PASSED, asked=0)), {}, CLASSES) == [f"{STICKY} asked us nothing"]


def test_measures_at_rest_are_read_beside_those_of_the_plan() -> None:
    line = {"kind": "plan", "test_class": STICKY, "method": "moves", "name": "[1] racks", "same": False}
    sides = {"own": {"loads": 5, "at rest": {"loads": 3}}, "theirs": {"loads": 5, "at rest": {"loads": 4}}}
    (plan,) = read(json.dumps(line | sides)).compared
    assert (plan.own, plan.theirs, plan.at_rest) == ({"loads": 5}, {"loads": 5}, ({"loads": 3}, {"loads": 4}))


def test_a_later_measure_counts_only_where_earlier_ones_are_equal() -> None:
    assert worse({"loads": 4, "moves": 9}, {"loads": 5, "moves": 1}) == ""
    assert worse({"loads": 5, "moves": 0}, {"loads": 5, "moves": 1}) == ""


def only(plan: Compared, kind: str, *others: Compared) -> str:
    """What is said of a listed test that fails with these plans."""
    failures = troubles(ran(plans=(*others, plan)), {(STICKY, "moves"): replace(ENTRY, kind=kind)}, CLASSES)
    return "".join(failures).removeprefix(f"{STICKY}.moves is listed, but ")


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"active loads": 2, "loads": 5, "moves": 4}, ""),
        ({"active loads": 2, "loads": 4, "moves": 4}, ""),
        (
            {"active loads": 4, "loads": 5, "moves": 2},
            "active loads 4 > 2",
        ),
        ({"active loads": 2, "loads": 6, "moves": 2}, "loads 6 > 5"),
        ({"active loads": 2, "loads": 5, "moves": 6}, "no fewer moves"),
        ({"active loads": 2, "loads": 4, "moves": 6}, "no fewer moves"),
    ],
    ids=["fewer moves", "more even", "actives uneven in the end", "uneven in the end", "as many moves", "moves for it"],
)
def test_a_plan_may_be_worth_less_until_everything_has_caught_up(own: dict[str, float], message: str) -> None:
    rest = {"active loads": 2, "loads": 5, "moves": 6}
    uneven = replace(PLAN, own={"active loads": 4, "moves": 0}, theirs={"active loads": 2, "moves": 0})
    assert only(replace(uneven, at_rest=(own, rest)), "later") == (
        message and f"a plan comes to something worse than Kafka's: {message}"
    )


def test_what_is_worth_as_much_later_has_to_be_refreshed_later() -> None:
    assert only(PLAN, "later") == "nobody looked what a plan comes to"
    assert ahead({(STICKY, "moves"): replace(ENTRY, kind="later"), (STICKY, "stays"): ENTRY}) == ["moves"]


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"active loads": 2, "shared racks": 0, "loads": 9}, ""),
        ({"active loads": 2, "shared racks": 1, "loads": 4}, "the copies of a plan are on no more racks than Kafka's"),
        ({"active loads": 4, "shared racks": 0, "loads": 5}, "a plan is worse than Kafka's: active loads 4 > 2"),
        ({"active loads": 2, "shared racks": 2, "loads": 5}, "a plan is worse than Kafka's: shared racks 2 > 1"),
    ],
    ids=["more racks", "as many racks", "actives uneven", "fewer racks"],
)
def test_copies_may_be_uneven_for_the_sake_of_racks(own: dict[str, float], message: str) -> None:
    plan = replace(PLAN, own=own, theirs={"active loads": 2, "shared racks": 1, "loads": 5})
    assert only(plan, "racks") == message


def test_of_plans_with_which_a_test_went_on_only_the_last_one_is_judged_by_racks() -> None:
    uneven = replace(PLAN, own={"loads": 9}, theirs={"loads": 5})
    refused = replace(PLAN, own={"shared racks": 0, "loads": 9}, theirs={"shared racks": 2, "loads": 5})
    assert only(refused, "racks", uneven) == ""
    assert only(uneven, "racks", refused) == "a plan is worse than Kafka's: loads 9 > 5"


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
