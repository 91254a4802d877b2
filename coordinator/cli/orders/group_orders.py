"""The orders on a whole group or an instance (leave, pause, release, resume, rebalance, drain) and the list of all.

An order stays in force through restarts and fail-overs until it expires or is withdrawn.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Annotated

import typer

from bellwether_kafka.coordinator import control
from bellwether_kafka.coordinator.cli.options import Group
from bellwether_kafka.coordinator.cli.orders.order_options import (
    AllGroups,
    DryRun,
    For,
    Force,
    ForOrUntilResume,
    GroupOrAll,
    Reason,
    Wait,
    duration_ms,
    with_topic,
)
from bellwether_kafka.coordinator.cli.orders.write import OrderService, document, now_ms, owner
from bellwether_kafka.coordinator.cli.output import counted, echo, fail, print_document, print_result
from bellwether_kafka.coordinator.membership import CLIENT_ID
from bellwether_kafka.coordinator.names import for_shell, listed

SOONER = {control.Until.BACK: "until it is back, at most ", control.Until.REMOVED: "until it is removed, at most "}
ONCE_MS = 60_000  # an order that is carried out once expires after this time


@with_topic
def leave(
    to: OrderService,
    group: GroupOrAll = None,
    everything: AllGroups = False,
    for_: ForOrUntilResume = None,
    reason: Reason = "",
    wait: Wait = 0.0,
    force: Force = False,
) -> None:
    _is_one_or_all(group, everything=everything)
    out = f"stays out{'' if for_ is None else f' for {for_}'}; 'bellwether resume"
    if group is not None:
        sentence = f"Bellwether leaves {group} and {out} {for_shell(group)}' ends that."
        to.give(_to_leave(group, for_, reason), sentence, wait_s=wait, force=force)
        return
    groups = _groups_of_processes(to.read())
    if not groups:
        fail("No Bellwether with a group has reported in the control topic. Nothing was ordered.")
    sentence = f"Bellwether leaves {counted(len(groups), 'group')} ({listed(groups)}) and {out} --all' ends that."
    to.give_all([_to_leave(each, for_, reason) for each in groups], sentence, wait_s=wait)


@with_topic
def pause(
    to: OrderService, group: Group, for_: For = "1h", reason: Reason = "", wait: Wait = 0.0, force: Force = False
) -> None:
    order = _order(control.OrderKind.PAUSE, group, duration_ms(for_), reason)
    sentence = (
        f"Bellwether begins no rebalance in {group} for {for_}. 'bellwether resume {for_shell(group)}' ends that."
    )
    to.give(order, sentence, wait_s=wait, force=force)


@with_topic
def release(to: OrderService, group: Group, reason: Reason = "", wait: Wait = 0.0, force: Force = False) -> None:
    if not force:
        _has_stopped(to, group, wait)
    order = replace(_order(control.OrderKind.RELEASE, group, 0, reason), expires_ms=control.NO_END_MS)
    sentence = (
        f"Bellwether leaves {group} and stays out until members join it; they start under a leader of their own."
        f" 'bellwether resume {for_shell(group)}' before that has Bellwether in it first."
    )
    to.give(order, sentence, wait_s=wait, force=force)


@with_topic
def resume(to: OrderService, group: GroupOrAll = None, everything: AllGroups = False) -> None:
    _is_one_or_all(group, everything=everything)
    kinds = [kind for kind, traits in control.ORDER_TRAITS.items() if traits.lasts and not traits.places]
    orders = [record for record in to.read().values() if isinstance(record, control.Order) and record.kind in kinds]
    present = [order for order in orders if group in (None, order.target)]
    if not present:
        fail(f"There is no order to leave or pause {group or 'a group'}, or to release it; see 'bellwether orders'.")
    to.withdraw(*(order.key for order in present))
    groups = sorted({order.target for order in present})
    sentence = f"Orders to leave or pause {group or listed(groups)}, or to release it, are withdrawn."
    print_result(to.output, sentence, group=group, groups=groups)


@with_topic
def rebalance(
    to: OrderService,
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
    to: OrderService,
    instance: Annotated[
        str,
        typer.Argument(
            help="The id of the instance of Bellwether; without one, the one that leads.", show_default=False
        ),
    ] = control.EVERYBODY,
    reason: Reason = "",
    wait: Wait = 10.0,
    force: Force = False,
) -> None:
    order = _order(control.OrderKind.DRAIN, instance, ONCE_MS, reason)
    to.give(order, "An instance of Bellwether hands its groups over.", wait_s=wait, force=force)


@with_topic
def orders(to: OrderService) -> None:
    at_ms, by_key = now_ms(), to.read()
    records = [record for _, record in sorted(by_key.items())]
    heartbeats = [record for record in records if isinstance(record, control.InstanceHeartbeat)]
    in_force = control.orders_in_force(by_key, at_ms)
    if to.output.is_document:
        listed = [{**document(order), "absence": _stage(order, by_key)} for order in in_force]
        print_document({"instances": [asdict(heartbeat) for heartbeat in heartbeats], "orders": listed})
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


def _has_stopped(to: OrderService, group: str, wait_s: float) -> None:
    """Ends the process if the group has members, because only an empty group can be released."""
    remaining = to.at_rest(group, wait_s).members
    members = sum(bool(member.owned) or member.client_id != CLIENT_ID for member in remaining)
    if members:
        are = "members are" if members > 1 else "member is"
        fail(
            f"{members} {are} in {group}; stop the application first, or use 'bellwether leave {for_shell(group)}'."
            " Nothing was ordered; --force orders it all the same."
        )


def _is_one_or_all(group: str | None, *, everything: bool) -> None:
    if (group is not None) == everything:
        fail("Name one group, or give --all.")


def _groups_of_processes(records: Mapping[str, control.Record]) -> list[str]:
    """Returns the groups that live processes lead, are to lead, or are standbys for."""
    return sorted({group for heartbeat in control.recent_heartbeats(records, now_ms()) for group in heartbeat.groups})


def _to_leave(group: str, for_: str | None, reason: str) -> control.Order:
    """Returns the order, without an end unless a duration is given. 0.3.0 reads it, too."""
    order = _order(control.OrderKind.LEAVE, group, 0 if for_ is None else duration_ms(for_), reason)
    return order if for_ is not None else replace(order, expires_ms=control.NO_END_MS)


def _until(order: control.AnyOrder) -> str:
    """Returns when the order ends, and what ends it sooner, as a part of a sentence."""
    until = order.until if isinstance(order, control.PlacementOrder) else control.Until.EXPIRY
    return SOONER.get(until, "") + control.end_in_words(order)


def _stage(order: control.AnyOrder, records: Mapping[str, control.Record]) -> str | None:
    absence = control.absence_of(records, order) if isinstance(order, control.PlacementOrder) else None
    return absence.stage.value if absence is not None else None


def _order(kind: control.OrderKind, target: str, lasts_ms: int, reason: str) -> control.Order:
    at_ms = now_ms()
    return control.Order(kind, target, owner(), at_ms, at_ms + lasts_ms, reason)
