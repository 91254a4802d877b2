"""The commands that give and withdraw orders. Those that give one are made from the rows of `control.ORDERS`; the list
of all, `resume` and `unpin` are functions. An order stays in force through restarts and fail-overs until it expires or
is withdrawn.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from inspect import Parameter, Signature
from typing import Annotated, Any

import typer

from bellwether_kafka.assignors.shared import EVERYTHING
from bellwether_kafka.coordinator import control
from bellwether_kafka.coordinator.cli.options import FOR_HELP, Bootstrap, Config, Group, Topic, Wait, duration_ms
from bellwether_kafka.coordinator.cli.orders.service import (
    AllGroups,
    DryRun,
    Force,
    GroupOrAll,
    OrderService,
    Reason,
    document,
    now_ms,
    order_service,
    owner,
)
from bellwether_kafka.coordinator.cli.output import As, Output, counted, echo, fail, print_document, print_result
from bellwether_kafka.coordinator.cli.read_groups import AT_MEMBER
from bellwether_kafka.coordinator.control import OrderKind, OrderTraits, PlacementOrder, Takes
from bellwether_kafka.coordinator.membership import CLIENT_ID
from bellwether_kafka.coordinator.names import for_shell, listed

SOONER = {control.Until.BACK: "until it is back, at most ", control.Until.REMOVED: "until it is removed, at most "}

# The parameters of commands, by name: the type with its help, and the default, if it has one.
PARAMETERS: Mapping[str, tuple[Any, Any]] = {
    "group": (Group, Parameter.empty),
    "everything": (AllGroups, False),
    "instance": (
        Annotated[
            str,
            typer.Argument(
                help="The id of the instance of Bellwether; without one, the one that leads.", show_default=False
            ),
        ],
        control.EVERYBODY,
    ),
    "item": (
        Annotated[str, typer.Argument(help='TOPIC-PARTITION, TOPIC, a task such as 1_5, a subtopology, or "*".')],
        Parameter.empty,
    ),
    "where": (Annotated[str, typer.Argument(help="rack:NAME or member:ID, the id also in short.")], Parameter.empty),
    "remove": (
        Annotated[
            bool,
            typer.Option("--remove", help="It has been stopped for good: remove what is left of it from the group."),
        ],
        False,
    ),
    "reason": (Reason, ""),
    "force": (Force, False),
    "dry_run": (DryRun, False),
    "bootstrap": (Bootstrap, None),
    "config": (Config, None),
    "topic": (Topic, None),
    "output": (As, Output.TABLE),
}


def _parameters(traits: OrderTraits) -> Mapping[str, tuple[Any, Any]]:
    """Returns the parameters of the command of a kind of order, in the order in which help shows them."""
    rows = {name: PARAMETERS[name] for name in traits.takes.value}
    if traits.takes is Takes.GROUP_OR_ALL:
        rows["group"] = (GroupOrAll, None)
    if traits.duration is not None:
        of_type, ends = (str, "") if traits.duration else (str | None, "; else until resume")
        rows["for_"] = Annotated[of_type, typer.Option("--for", help=f"{FOR_HELP}{ends}.")], traits.duration or None
    rows |= {"reason": PARAMETERS["reason"], "wait": (Wait, traits.wait_s), "force": PARAMETERS["force"]}
    if traits.needs_lead:
        rows["dry_run"] = PARAMETERS["dry_run"]
    return rows | {name: PARAMETERS[name] for name in ("bootstrap", "config", "topic", "output")}


def _command(kind: OrderKind, traits: OrderTraits) -> Callable[..., None]:
    """Returns the command that gives an order of this kind."""

    def command(**given: Any) -> None:
        options = (given.pop(name) for name in ("bootstrap", "config", "topic", "output"))
        PREPARED.get(kind, _give)(kind, order_service(*options, retry_s=given["wait"]), given)

    parameters = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in _parameters(traits).items()
    ]
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # which typer reads
    return command


# ---- what an order says --------------------------------------------------------------------------------------------


def _order(kind: OrderKind, to: OrderService, given: Mapping[str, Any]) -> control.Order | PlacementOrder:
    """Returns the order that these arguments give."""
    lasts_ms = duration_ms(given["for_"]) if given.get("for_") is not None else None
    where = _place(to, given["group"], given["where"]) if "where" in given else ""
    at_ms = now_ms()
    if lasts_ms is not None:
        expires_ms = at_ms + lasts_ms
    else:
        expires_ms = control.NO_END_MS if control.ORDERS[kind].lasts else at_ms + control.ONCE_MS
    if where:
        item = given.get("item", EVERYTHING)
        return PlacementOrder(kind, given["group"], item, where, owner(), at_ms, expires_ms, given["reason"])
    target = given["instance"] if "instance" in given else given["group"]
    return control.Order(kind, target, owner(), at_ms, expires_ms, given["reason"])


def _place(to: OrderService, group: str, where: str) -> str:
    if not where.startswith(("rack:", AT_MEMBER)) or where.endswith(":"):
        fail(f"'{where}' names no place; write rack:NAME, or member:ID (a member, client, instance or process id).")
    return to.in_full(group, where) if where.startswith(AT_MEMBER) else where


def _says(order: control.Order | PlacementOrder, given: Mapping[str, Any], **instead: str) -> str:
    """Returns what the command says of an order, `instead` of some arguments."""
    for_ = f" for {given['for_']}" if given.get("for_") is not None else ""
    names = {**given, "for_": for_, "ends": _ends(order)}
    names |= {"where": order.where} if isinstance(order, PlacementOrder) else {}
    return control.traits_of(order).says.format(**{**names, **instead})


def _ends(order: control.Order | PlacementOrder) -> str:
    """Returns the shell command that withdraws the order."""
    group = for_shell(order.target)
    if isinstance(order, control.Order):
        return f"'bellwether resume {group}'"
    item = order.where if order.kind is OrderKind.EVACUATE else order.item
    return f"'bellwether unpin {group} {'--all' if item == EVERYTHING else for_shell(item)}'"


# ---- what differs between kinds ------------------------------------------------------------------------------------


def _give(kind: OrderKind, to: OrderService, given: Mapping[str, Any]) -> None:
    order = _order(kind, to, given)
    _write(to, order, _says(order, given), given)


def _write(to: OrderService, order: control.AnyOrder, sentence: str, given: Mapping[str, Any]) -> None:
    to.give(order, sentence, wait_s=given["wait"], force=given["force"], dry_run=given.get("dry_run", False))


def _leave(kind: OrderKind, to: OrderService, given: Mapping[str, Any]) -> None:
    _is_one_or_all(given["group"], everything=given["everything"])
    if given["group"] is not None:
        _give(kind, to, given)
        return
    groups = _groups_of_processes(to.read())
    if not groups:
        fail("No Bellwether with a group has reported in the control topic. Nothing was ordered.")
    orders = [_order(kind, to, {**given, "group": group}) for group in groups]
    named = f"{counted(len(groups), 'group')} ({listed(groups)})"
    to.give_all(orders, _says(orders[0], given, group=named, ends="'bellwether resume --all'"), wait_s=given["wait"])


def _release(kind: OrderKind, to: OrderService, given: Mapping[str, Any]) -> None:
    """Gives the order if the group has no members, because only an empty group can be released."""
    group = given["group"]
    remaining = [] if given["force"] else to.at_rest(group, given["wait"]).members
    members = sum(bool(member.owned) or member.client_id != CLIENT_ID for member in remaining)
    if members:
        are = "members are" if members > 1 else "member is"
        fail(
            f"{members} {are} in {group}; stop the application first, or use 'bellwether leave {for_shell(group)}'."
            " Nothing was ordered; --force orders it all the same."
        )
    _give(kind, to, given)


def _evacuate(kind: OrderKind, to: OrderService, given: Mapping[str, Any]) -> None:
    """Gives the order, of a member with the event that ends it: it is back, or has been removed."""
    group, remove = given["group"], given["remove"]
    if remove and to.is_served(group):
        fail(f"The broker of {group} assigns, and Bellwether removes nobody from it; stop the member instead.")
    order = _order(kind, to, given)
    assert isinstance(order, PlacementOrder)  # noqa: S101 - it takes a place
    where = order.where
    if remove and not given["dry_run"] and _has_gone(to, order):
        print_result(to.output, f"{where} is not in {group} any more.", order=document(order), in_effect=True)
    elif where.startswith(AT_MEMBER):
        order = replace(order, until=control.Until.REMOVED if remove else control.Until.BACK)
        outcome = "removed from" if remove else "empty until it is back in"
        sentence = f"{where} is to be {outcome} {group}, for {given['for_']} at most; {_ends(order)} ends that."
        _write(to, order, sentence, given)
    elif remove:
        fail(f"Only members can be removed from a group, and '{where}' is none; write member:ID.")
    else:
        _write(to, order, _says(order, given), given)


def _has_gone(to: OrderService, order: PlacementOrder) -> bool:
    """Returns whether the leader has seen an evacuated member leave the group; if so, withdraws the order on it."""
    records = to.read()
    in_force = records.get(order.key)
    absence = control.absence_of(records, in_force) if isinstance(in_force, PlacementOrder) else None
    if absence is None or absence.stage is not control.Stage.AWAY:
        return False
    to.withdraw(order.key)
    return True


Prepared = Callable[[OrderKind, OrderService, Mapping[str, Any]], None]
PREPARED: Mapping[OrderKind, Prepared] = {
    OrderKind.LEAVE: _leave,
    OrderKind.RELEASE: _release,
    OrderKind.EVACUATE: _evacuate,
}
COMMANDS: Mapping[str, Callable[..., None]] = {
    kind.value: _command(kind, traits) for kind, traits in control.ORDERS.items() if traits.takes is not Takes.PLAN
}


# ---- the list, and the ends ----------------------------------------------------------------------------------------


def orders(bootstrap: Bootstrap = None, config: Config = None, topic: Topic = None, output: As = Output.TABLE) -> None:
    at_ms, by_key = now_ms(), order_service(bootstrap, config, topic, output).read()
    heartbeats = [record for _, record in sorted(by_key.items()) if isinstance(record, control.InstanceHeartbeat)]
    in_force = control.orders_in_force(by_key, at_ms)
    if output.is_document:
        shown = [{**document(order), "absence": _stage(order, by_key)} for order in in_force]
        print_document({"instances": [asdict(heartbeat) for heartbeat in heartbeats], "orders": shown})
        return
    if not heartbeats and not in_force:
        echo("No order is in force, and no instance of Bellwether has reported.", err=True)
    for heartbeat in heartbeats:
        age_s = max(0, at_ms - heartbeat.at_ms) / 1000
        reported = f"last reported {age_s:.0f} s ago"
        echo(f"instance of Bellwether {heartbeat.instance}: leads {len(heartbeat.leads)}, {reported}")
    for order in in_force:
        stage = _stage(order, by_key)
        until = "" if isinstance(order, control.AppliedPlan) else f", {_until(order)}"
        echo(f"{order.sentence}{until}{f'; it is {stage} now' if stage else ''}")


def resume(
    group: GroupOrAll = None,
    everything: AllGroups = False,
    bootstrap: Bootstrap = None,
    config: Config = None,
    topic: Topic = None,
    output: As = Output.TABLE,
) -> None:
    to = order_service(bootstrap, config, topic, output)
    _is_one_or_all(group, everything=everything)
    of_groups = [record for record in to.read().values() if isinstance(record, control.Order)]
    present = [each for each in of_groups if control.traits_of(each).lasts and group in (None, each.target)]
    if not present:
        fail(f"There is no order to leave or pause {group or 'a group'}, or to release it; see 'bellwether orders'.")
    to.withdraw(*(order.key for order in present))
    groups = sorted({order.target for order in present})
    sentence = f"Orders to leave or pause {group or listed(groups)}, or to release it, are withdrawn."
    print_result(to.output, sentence, group=group, groups=groups)


def unpin(
    group: Group,
    item: Annotated[
        str | None, typer.Argument(help="An item as it was ordered, or the rack:NAME or member:ID of an evacuation.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Withdraw all of the group.")] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Withdraw the plan that is applied to the group.")] = False,
    bootstrap: Bootstrap = None,
    config: Config = None,
    topic: Topic = None,
    output: As = Output.TABLE,
) -> None:
    to = order_service(bootstrap, config, topic, output)
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
    placed = [order for order in of_group if isinstance(order, PlacementOrder)]
    matching = [order for order in placed if item in (EVERYTHING, _named_by(order))]
    return matching or _named_in_short(placed, item or "")


def _named_by(order: PlacementOrder) -> str:
    """Returns by what `unpin` names the order."""
    return order.where if order.kind is OrderKind.EVACUATE else order.item


def _named_in_short(placed: Sequence[PlacementOrder], text: str) -> list[PlacementOrder]:
    """Returns the evacuation of the member whose id begins with this text."""
    if not text.startswith(AT_MEMBER) or text == AT_MEMBER:
        return []
    evacuations = [order for order in placed if order.kind is OrderKind.EVACUATE]
    matching = [order for order in evacuations if order.where.startswith(text)]
    if len(matching) > 1:
        fail(f"{text} may be {', '.join(order.where for order in matching)}; write more of the id.")
    return matching


def _is_one_or_all(group: str | None, *, everything: bool) -> None:
    if (group is not None) == everything:
        fail("Name one group, or give --all.")


def _groups_of_processes(records: Mapping[str, control.Record]) -> list[str]:
    """Returns the groups that live processes lead, are to lead, or are standbys for."""
    return sorted({group for heartbeat in control.recent_heartbeats(records, now_ms()) for group in heartbeat.groups})


def _until(order: control.AnyOrder) -> str:
    """Returns when the order ends, and what ends it sooner, as a part of a sentence."""
    until = order.until if isinstance(order, PlacementOrder) else control.Until.EXPIRY
    return SOONER.get(until, "") + control.end_in_words(order)


def _stage(order: control.AnyOrder, records: Mapping[str, control.Record]) -> str | None:
    absence = control.absence_of(records, order) if isinstance(order, PlacementOrder) else None
    return absence.stage.value if absence is not None else None
