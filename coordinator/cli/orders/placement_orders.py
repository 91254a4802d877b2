"""The orders on places: pin, ban, evacuate; and unpin, which withdraws them and an applied plan."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import typer

from bellwether_kafka.assignors.shared import EVERYTHING
from bellwether_kafka.coordinator import control
from bellwether_kafka.coordinator.cli.options import Group
from bellwether_kafka.coordinator.cli.orders.order_options import (
    ItemName,
    OrderTerms,
    Remove,
    Where,
    duration_ms,
    with_terms,
    with_topic,
)
from bellwether_kafka.coordinator.cli.orders.write import OrderService, document, now_ms, owner
from bellwether_kafka.coordinator.cli.output import echo, fail, print_result
from bellwether_kafka.coordinator.cli.read_groups import AT_MEMBER
from bellwether_kafka.coordinator.names import for_shell


@with_topic
@with_terms("1d")
def pin(to: OrderService, terms: OrderTerms, group: Group, item: ItemName, where: Where) -> None:
    order = _placement(to, control.PlacementKind.PIN, group, item, where, terms)
    _place(to, order, terms, f"{item} of {group} belongs on {order.where}")


@with_topic
@with_terms("1d")
def ban(to: OrderService, terms: OrderTerms, group: Group, item: ItemName, where: Where) -> None:
    order = _placement(to, control.PlacementKind.BAN, group, item, where, terms)
    _place(to, order, terms, f"{item} of {group} stays off {order.where}")


@with_topic
@with_terms("1h")
def evacuate(to: OrderService, terms: OrderTerms, group: Group, where: Where, remove: Remove = False) -> None:
    if remove and to.is_served(group):
        fail(f"The broker of {group} assigns, and Bellwether removes nobody from it; stop the member instead.")
    order = _placement(to, control.PlacementKind.EVACUATE, group, EVERYTHING, where, terms)
    where = order.where
    if remove and not terms.dry_run and _has_gone(to, order):
        print_result(to.output, f"{where} is not in {group} any more.", order=document(order), in_effect=True)
    elif where.startswith(AT_MEMBER):
        order = replace(order, until=control.Until.REMOVED if remove else control.Until.BACK)
        outcome = "removed from" if remove else "empty until it is back in"
        sentence = f"{where} is to be {outcome} {group}, for {terms.for_} at most; {_ends(order)} ends that."
        to.give(order, sentence, **terms.asked)
    elif remove:
        fail(f"Only members can be removed from a group, and '{where}' is none; write member:ID.")
    else:
        _place(to, order, terms, f"{where} is to be empty of {group}")


@with_topic
def unpin(
    to: OrderService,
    group: Group,
    item: Annotated[
        str | None, typer.Argument(help="An item as it was ordered, or the rack:NAME or member:ID of an evacuation.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Withdraw all of the group.")] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Withdraw the plan that is applied to the group.")] = False,
) -> None:
    if (item is not None) + everything + plan != 1:
        fail("Name an item or a place, or give --all or --plan.")
    matching = _matching(to, group, item, everything=everything, plan=plan)
    if not matching:
        what = "applied plan" if plan else "pin, ban or evacuation" + ("" if everything else f" of {item}")
        fail(f"There is no {what} in {group}; see 'bellwether orders'.")
    to.withdraw(*(order.key for order in matching))
    sentences = [f"Withdrawn: {order.sentence}." for order in matching]
    if to.output.is_document:
        print_result(to.output, "\n".join(sentences), withdrawn=[document(order) for order in matching])
        return
    for sentence in sentences:
        echo(sentence)


def _matching(
    to: OrderService, group: str, item: str | None, *, everything: bool, plan: bool
) -> Sequence[control.OnPlaces]:
    """Returns the orders that `unpin` withdraws."""
    of_group = [r for r in to.read().values() if isinstance(r, control.OnPlaces) and r.target == group]
    if everything:
        return of_group
    if plan:
        return [order for order in of_group if isinstance(order, control.AppliedPlan)]
    placed = [order for order in of_group if isinstance(order, control.PlacementOrder)]
    matching = [order for order in placed if item == EVERYTHING or _is_named(order, item)]
    return matching or _named_in_short(placed, item or "")


def _placement(
    to: OrderService, kind: control.PlacementKind, group: str, item: str, where: str, terms: OrderTerms
) -> control.PlacementOrder:
    if not where.startswith(("rack:", AT_MEMBER)) or where.endswith(":"):
        fail(f"'{where}' names no place; write rack:NAME, or member:ID (a member, client, instance or process id).")
    lasts_ms = duration_ms(terms.for_)
    place = to.in_full(group, where) if where.startswith(AT_MEMBER) else where
    at_ms = now_ms()
    expires_ms = at_ms + lasts_ms
    return control.PlacementOrder(kind, group, item, place, owner(), at_ms, expires_ms, terms.reason)


def _has_gone(to: OrderService, order: control.PlacementOrder) -> bool:
    """Returns whether the leader has seen an evacuated member leave the group; if so, withdraws the order on it."""
    records = to.read()
    in_force = records.get(order.key)
    absence = control.absence_of(records, in_force) if isinstance(in_force, control.PlacementOrder) else None
    if absence is None or absence.stage is not control.Stage.AWAY:
        return False
    to.withdraw(order.key)
    return True


def _place(to: OrderService, order: control.PlacementOrder, terms: OrderTerms, outcome: str) -> None:
    to.give(order, f"{outcome} for {terms.for_}; {_ends(order)} ends that.", **terms.asked)


def _is_named(order: control.PlacementOrder, text: str | None) -> bool:
    evacuation = order.kind is control.PlacementKind.EVACUATE
    return text == order.where if evacuation else text == order.item


def _named_in_short(placed: Sequence[control.PlacementOrder], text: str) -> list[control.PlacementOrder]:
    """Returns the evacuation of the member whose id begins with this text."""
    if not text.startswith(AT_MEMBER) or text == AT_MEMBER:
        return []
    evacuations = [order for order in placed if order.kind is control.PlacementKind.EVACUATE]
    matching = [order for order in evacuations if order.where.startswith(text)]
    if len(matching) > 1:
        fail(f"{text} may be {', '.join(order.where for order in matching)}; write more of the id.")
    return matching


def _ends(order: control.PlacementOrder) -> str:
    """Returns the shell command that withdraws the order."""
    item = order.where if order.kind is control.PlacementKind.EVACUATE else order.item
    return f"'bellwether unpin {for_shell(order.target)} {'--all' if item == EVERYTHING else for_shell(item)}'"
