"""The order that applies a written plan: its record, the rules of it, and its end."""

import asyncio
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from bellwether_kafka.assignors.shared import Rule
from bellwether_kafka.coordinator.control import (
    NO_END_MS,
    AppliedPlan,
    Controller,
    ControlSettings,
    OrderKind,
    Orders,
    PlacementOrder,
    RecordError,
    decode,
    encode,
)
from tests.kit.membership import ME, Play, member
from tests.kit.runtime import Group, KeptRecords

NOW_MS = 1_000_000_000
PLAN = AppliedPlan(
    target="orders",
    digest="0123456789abcdef01234567",
    members=("a", "static"),
    items={"a": ("t-0", "t-2"), "static": ("t-1",)},
    owner="eve@desk",
    at_ms=NOW_MS,
    expires_ms=NO_END_MS,
    reason="review 7",
)
BAN = PlacementOrder(OrderKind.BAN, "orders", "t-0", "member:b", "eve", NOW_MS, NO_END_MS)
SAME = (member("a"), member("static-2", "static"))


def test_a_record_is_read_as_it_was_written() -> None:
    assert PLAN.key == "apply/orders"
    assert decode(*encode(PLAN)) == PLAN


@pytest.mark.parametrize(
    "items", [b"3", b'["t-0"]', b'{"a": "t-0"}', b'{"a": [3]}'], ids=["number", "list", "text", "no-names"]
)
def test_a_record_without_items_by_member_is_refused(items: bytes) -> None:
    key, value = encode(replace(PLAN, items={}))
    with pytest.raises(RecordError):
        decode(key, value.replace(b'"items":{}', b'"items":' + items))


def test_the_sentence_names_the_plan_and_its_end() -> None:
    assert PLAN.sentence == (
        "eve@desk has ordered apply of the plan 0123456789abcdef to 'orders' until its members change (review 7)"
    )


def test_each_item_is_a_rule_for_the_members_of_the_plan_only() -> None:
    among = frozenset({"a", "static"})
    assert PLAN.rules == (
        Rule("plan", "t-0", "member:a", among=among),
        Rule("plan", "t-2", "member:a", among=among),
        Rule("plan", "t-1", "member:static", among=among),
    )
    assert {rule.order for rule in PLAN.rules} == {PLAN.sentence}


def test_it_is_in_force_for_its_group_beside_pins_and_bans() -> None:
    state = Orders()
    for order in (PLAN, BAN):
        state.apply(order.key, order)
    assert state.of("orders", NOW_MS).on_places == (PLAN, BAN)
    assert state.of("clicks", NOW_MS).on_places == ()
    assert state.of("orders", NOW_MS).placements == (BAN,)
    assert state.of("orders", NO_END_MS).plan is None


class Led:
    """A controller of a group that Bellwether leads, and the records of the topic."""

    def __init__(self) -> None:
        self.group, self.topic = Group(standby=False), KeptRecords({PLAN.key: PLAN})
        self.members(*SAME)
        settings = ControlSettings("control", "a", False)
        self.controller = Controller(self.topic, settings, {"orders": self.group}, wall_clock=lambda: NOW_MS / 1000)
        asyncio.run(self._begin())

    async def _begin(self) -> None:
        running = asyncio.create_task(self.controller.run())
        for _ in range(10):
            await asyncio.sleep(0)
        running.cancel()

    def members(self, *others: object, listed: bool = True) -> None:
        """A generation with these members. `listed`: the broker has listed them."""
        play = Play(instance_id="bellwether").joining()
        play.joined(*([member(ME), *others] if listed else []))  # type: ignore[arg-type]  # members
        self.group.machine = play.planned().synced().machine


def test_plans_follow_it_and_the_page_shows_it() -> None:
    led = Led()
    assert led.group.rules == PLAN.rules
    assert led.group.ordered == [PLAN.sentence]
    assert led.controller.applied_plan("orders") == PLAN.sentence


def test_it_remains_in_force_in_a_further_generation_of_the_same_members() -> None:
    led = Led()
    led.members(member("a"), member("static-3", "static"))
    led.controller.review()
    assert PLAN.key in led.topic.records
    assert led.group.rules == PLAN.rules


@pytest.mark.parametrize(
    ("members", "change"),
    [((*SAME, member("b")), "member b is new"), (SAME[:1], "member static is gone"), ((), "member a is gone; member")],
    ids=["new", "gone", "all-gone"],
)
def test_other_members_end_it_and_the_log_names_them(members: tuple[object, ...], change: str) -> None:
    led = Led()
    led.members(*members)
    with capture_logs() as logs:
        led.controller.review()
    (ended,) = [line for line in logs if line["event"] == "applied_plan_ended"]
    assert (ended["group"], ended["order"]) == ("orders", PLAN.sentence)
    assert change in ended["reason"]
    assert PLAN.key not in led.topic.records
    assert led.group.rules == ()
    assert f"{PLAN.sentence}: ended, because " in led.group.ordered[-1]
    assert led.controller.applied_plan("orders") == ""


def test_members_that_the_broker_has_not_listed_end_nothing() -> None:
    led = Led()
    led.members(listed=False)
    led.controller.review()
    assert PLAN.key in led.topic.records


def test_the_same_plan_given_again_changes_no_rules() -> None:
    led = Led()
    led.topic.records[PLAN.key] = again = replace(PLAN, at_ms=NOW_MS + 1, reason="again")
    led.controller._on_record(again.key, again)
    assert led.group.ordered == [PLAN.sentence]
