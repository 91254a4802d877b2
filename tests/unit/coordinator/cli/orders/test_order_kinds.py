"""Every kind of order is one row: its command, its record and its sentences follow from that."""

import inspect
from string import Formatter
from typing import Any

import pytest
import typer.main

from bellwether_kafka.coordinator.cli import app
from bellwether_kafka.coordinator.cli.orders import give
from bellwether_kafka.coordinator.control import (
    ONCE_MS,
    ORDERS,
    AppliedPlan,
    Order,
    OrderKind,
    OrderTraits,
    PlacementOrder,
    Takes,
    decode,
    encode,
    end_in_words,
    traits_of,
)

GIVEN = {"group": "orders", "everything": False, "instance": "pod-1", "item": "clicks-3", "where": "rack:az1"}
ASKED = {"reason": "why", "wait": 0.0, "force": True, "for_": "2h", "remove": False, "dry_run": False}
TO: Any = None  # only members' ids are looked up
GENERIC = [(kind, traits) for kind, traits in ORDERS.items() if traits.takes is not Takes.PLAN]


def arguments(kind: OrderKind) -> dict[str, object]:
    """What the command of this kind is given."""
    named = inspect.signature(give.COMMANDS[kind.value]).parameters
    return {name: value for name, value in {**GIVEN, **ASKED}.items() if name in named}


def test_every_kind_is_a_row_and_every_row_a_command_with_its_help() -> None:
    assert set(ORDERS) == set(OrderKind)
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]  # of a group
    assert {kind.value: commands[kind.value].help for kind in ORDERS} == {
        kind.value: traits.help for kind, traits in ORDERS.items()
    }


@pytest.mark.parametrize(("kind", "traits"), GENERIC, ids=lambda each: getattr(each, "value", ""))
def test_the_command_of_a_kind_writes_a_record_that_comes_back(kind: OrderKind, traits: OrderTraits) -> None:
    given = arguments(kind)
    order = give._order(kind, TO, given)
    assert decode(*encode(order)) == order
    assert traits_of(order) is traits
    assert isinstance(order, PlacementOrder if traits.places else Order)
    lasts_ms = order.expires_ms - order.at_ms
    if traits.duration is not None:
        assert lasts_ms == 2 * 3_600_000
    elif traits.lasts:
        assert end_in_words(order) == traits.end
    else:
        assert ONCE_MS <= lasts_ms + 1_000 <= ONCE_MS + 1_000
    named = {name for _, name, _, _ in Formatter().parse(traits.says) if name}
    assert named <= {*given, "for_", "ends"}
    assert "{" not in give._says(order, given)


def test_an_applied_plan_has_a_record_of_its_own() -> None:
    plan = AppliedPlan(
        target="orders", digest="d", members=("a",), items={"a": ("t-0",)}, owner="eve", at_ms=1, expires_ms=2
    )
    assert decode(*encode(plan)) == plan
    assert traits_of(plan) is ORDERS[OrderKind.APPLY]


def test_no_duration_is_for_ever_where_a_kind_lasts() -> None:
    order = give._order(OrderKind.LEAVE, TO, {**arguments(OrderKind.LEAVE), "for_": None})
    assert end_in_words(order) == "until resume"
