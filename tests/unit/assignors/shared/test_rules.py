"""Rules that are limited to the members of an applied plan."""

import pytest

from bellwether_kafka.assignors.shared import RawMember, Rule, applicable, changed, yielding_last

EXPECTED = frozenset({"a-1", "static"})
A, STATIC, NEW = RawMember("a-1", None, b""), RawMember("static-2", "static", b""), RawMember("b-1", None, b"")
PLAN = Rule("plan", "orders-0", "member:a-1", "eve", EXPECTED)
BAN = Rule("ban", "*", "rack:az1")


@pytest.mark.parametrize(
    ("members", "difference"),
    [
        ((A, STATIC), ""),
        ((A, RawMember("static-3", "static", b"")), ""),
        ((A,), "member static is gone"),
        ((A, STATIC, NEW), "member b-1 is new"),
        ((STATIC, NEW), "member a-1 is gone; member b-1 is new"),
        ((), "member a-1 is gone; member static is gone"),
    ],
    ids=["same", "static-restart", "gone", "new", "replaced", "empty"],
)
def test_members_are_compared_by_instance_id_else_by_member_id(members: tuple[RawMember, ...], difference: str) -> None:
    assert changed(EXPECTED, members) == difference


def test_a_static_member_can_be_expected_by_its_member_id() -> None:
    assert changed(frozenset({"static-2"}), (STATIC,)) == ""


def test_a_limited_rule_has_an_effect_on_its_members_only() -> None:
    assert applicable((PLAN, BAN), (A, STATIC)) == (PLAN, BAN)
    assert applicable((PLAN, BAN), (A, STATIC, NEW)) == (BAN,)


def test_an_applied_plan_comes_behind_pins_and_bans() -> None:
    assert yielding_last((PLAN, BAN)) == [BAN, PLAN]
