"""The commands that order something of running sidecars: leave, drain, rebalance, pause, pin, ban, evacuate, ...

Each writes one record to the control topic (`control.records` says what is in it); WRITE on that topic is the
permission. An order stays in force through restarts and fail-overs until it expires or is withdrawn. What nobody could
obey is not written: who listens is in the topic (`control.checks`), what can be placed is in the group (`look.Placed`).
"""

import getpass
import re
import socket
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Annotated

import typer

from bellwether_kafka.assignors.shared import EVERYTHING
from bellwether_kafka.coordinator import control
from bellwether_kafka.coordinator.cli.options import Group
from bellwether_kafka.coordinator.cli.ordering import (
    AnyOrder,
    DryRun,
    For,
    Force,
    ItemName,
    OrdersTopic,
    Reason,
    Remove,
    Terms,
    Wait,
    Where,
    document,
    now_ms,
    with_terms,
    with_topic,
)
from bellwether_kafka.coordinator.cli.output import Output, as_json, fail, tell

UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
SOONER = {control.Until.BACK: "until it is back, at most ", control.Until.REMOVED: "until it is removed, at most "}
ONCE_MS = 60_000  # an order that is carried out once and finds nobody to do so is void after this


@with_topic
def leave(
    to: OrdersTopic, group: Group, for_: For = "1h", reason: Reason = "", wait: Wait = 0.0, force: Force = False
) -> None:
    order = _order(control.OrderKind.LEAVE, group, _duration_ms(for_), reason)
    sentence = f"Bellwether leaves {group} and stays out for {for_}; 'bellwether resume {group}' ends that."
    to.give(order, sentence, wait_s=wait, force=force)


@with_topic
def pause(
    to: OrdersTopic, group: Group, for_: For = "1h", reason: Reason = "", wait: Wait = 0.0, force: Force = False
) -> None:
    order = _order(control.OrderKind.PAUSE, group, _duration_ms(for_), reason)
    sentence = f"Bellwether begins no rebalance in {group} for {for_}; 'bellwether resume {group}' ends that."
    to.give(order, sentence, wait_s=wait, force=force)


@with_topic
def resume(to: OrdersTopic, group: Group) -> None:
    records = to.read()
    keys = [control.order_key(kind, group) for kind in (control.OrderKind.LEAVE, control.OrderKind.PAUSE)]
    found = [key for key in keys if key in records]
    if not found:
        fail(f"There is no order to leave or pause {group}; see 'bellwether orders'.")
    for key in found:
        to.withdraw(key)
    tell(to.output, f"Orders to leave or pause {group} are withdrawn.", group=group)


@with_topic
def rebalance(
    to: OrdersTopic,
    group: Group,
    reason: Reason = "",
    wait: Wait = 10.0,
    force: Force = False,
    dry_run: DryRun = False,
) -> None:
    order = _order(control.OrderKind.REBALANCE, group, ONCE_MS, reason)
    to.give(order, f"A rebalance of {group} is ordered.", wait_s=wait, force=force, dry_run=dry_run)


@with_topic
def drain(
    to: OrdersTopic,
    sidecar: Annotated[
        str, typer.Argument(help="The sidecar's id; without one, whichever leads.", show_default=False)
    ] = control.EVERYBODY,
    reason: Reason = "",
    wait: Wait = 10.0,
    force: Force = False,
) -> None:
    order = _order(control.OrderKind.DRAIN, sidecar, ONCE_MS, reason)
    to.give(order, "A sidecar hands its groups over.", wait_s=wait, force=force)


@with_topic
@with_terms("1d")
def pin(to: OrdersTopic, terms: Terms, group: Group, item: ItemName, where: Where) -> None:
    order = _placement(control.PlacementKind.PIN, group, item, where, terms)
    _place(to, order, terms, f"{item} of {group} belongs on {where}")


@with_topic
@with_terms("1d")
def ban(to: OrdersTopic, terms: Terms, group: Group, item: ItemName, where: Where) -> None:
    order = _placement(control.PlacementKind.BAN, group, item, where, terms)
    _place(to, order, terms, f"{item} of {group} stays off {where}")


@with_topic
@with_terms("1h")
def evacuate(to: OrdersTopic, terms: Terms, group: Group, where: Where, remove: Remove = False) -> None:
    order = _placement(control.PlacementKind.EVACUATE, group, EVERYTHING, where, terms)
    if where.startswith("member:"):
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
    to: OrdersTopic,
    group: Group,
    item: Annotated[
        str | None, typer.Argument(help="An item as it was ordered, or the rack:NAME or member:ID of an evacuation.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Withdraw all of the group.")] = False,
) -> None:
    if (item is None) != everything:
        fail("Name an item or a place, or say --all.")
    placed = [record for record in to.read().values() if isinstance(record, control.PlacementOrder)]
    found = [o for o in placed if o.target == group and (everything or item == EVERYTHING or _is_named(o, item))]
    if not found:
        what = "pin, ban or evacuation" if everything else f"pin, ban or evacuation of {item}"
        fail(f"There is no {what} in {group}; see 'bellwether orders'.")
    for order in found:
        to.withdraw(order.key)
    sentences = "\n".join(f"Withdrawn: {order.sentence}." for order in found)
    tell(to.output, sentences, withdrawn=[document(order) for order in found])


@with_topic
def orders(to: OrdersTopic) -> None:
    at_ms, found = now_ms(), to.read()
    records = [record for _, record in sorted(found.items())]
    beats = [record for record in records if isinstance(record, control.Beat)]
    stand = [r for r in records if isinstance(r, control.Order | control.PlacementOrder) and r.expires_ms > at_ms]
    if to.output is Output.JSON:
        listed = [{**document(order), "absence": _stage(order, found)} for order in stand]
        as_json({"sidecars": [asdict(beat) for beat in beats], "orders": listed})
        return
    for beat in beats:
        age_s = max(0, at_ms - beat.at_ms) / 1000
        typer.echo(f"sidecar {beat.sidecar}: leads {len(beat.leads)}, last beat {age_s:.0f} s ago")
    for order in stand:
        until = datetime.fromtimestamp(order.expires_ms / 1000, UTC).isoformat(timespec="seconds")
        stage = _stage(order, found)
        typer.echo(f"{order.sentence}, {_sooner(order)}until {until}{f'; it is {stage} now' if stage else ''}")


def _sooner(order: AnyOrder) -> str:
    """What ends the order before it expires, for the middle of a sentence."""
    until = order.until if isinstance(order, control.PlacementOrder) else control.Until.EXPIRY
    return SOONER.get(until, "")


def _stage(order: AnyOrder, records: Mapping[str, control.Record]) -> str | None:
    absence = control.absence_of(records, order) if isinstance(order, control.PlacementOrder) else None
    return absence.stage.value if absence is not None else None


def _order(kind: control.OrderKind, target: str, lasts_ms: int, reason: str) -> control.Order:
    at_ms = now_ms()
    return control.Order(kind, target, _owner(), at_ms, at_ms + lasts_ms, reason)


def _placement(kind: control.PlacementKind, group: str, item: str, where: str, terms: Terms) -> control.PlacementOrder:
    if not where.startswith(("rack:", "member:")) or where.endswith(":"):
        fail(f"'{where}' names no place; write rack:NAME, or member:ID (a member, client, instance or process id).")
    at_ms = now_ms()
    expires_ms = at_ms + _duration_ms(terms.for_)
    return control.PlacementOrder(kind, group, item, where, _owner(), at_ms, expires_ms, terms.reason)


def _place(to: OrdersTopic, order: control.PlacementOrder, terms: Terms, outcome: str) -> None:
    to.give(order, f"{outcome} for {terms.for_}; {_ends(order)} ends that.", **terms.asked)


def _is_named(order: control.PlacementOrder, text: str | None) -> bool:
    evacuation = order.kind is control.PlacementKind.EVACUATE
    return text == order.where if evacuation else text == order.item


def _ends(order: control.PlacementOrder) -> str:
    """The command that withdraws it, as a shell takes it."""
    item = order.where if order.kind is control.PlacementKind.EVACUATE else order.item
    return f"'bellwether unpin {order.target} {'--all' if item == EVERYTHING else item}'"


def _owner() -> str:
    return f"{getpass.getuser()}@{socket.gethostname()}"


def _duration_ms(text: str) -> int:
    hit = re.fullmatch(r"(\d{1,6})([smhd])", text.strip())
    if hit is None or not int(hit[1]):
        fail(f"--for is '{text}', but must be a number and s, m, h or d, such as 30m.")
    return int(hit[1]) * UNITS_MS[hit[2]]
