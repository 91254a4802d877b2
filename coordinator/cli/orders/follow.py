"""How commands follow an order after it was written: what is still missing until it is in effect."""

import time
from collections.abc import Callable, Mapping

from bellwether_kafka.coordinator import control
from bellwether_kafka.coordinator.cli.output import echo


def follow(missing: Callable[[float], str], wait_s: float, pause_s: float) -> bool:
    """Returns whether an order takes effect within `wait_s`. `missing` returns what is missing after the given seconds,
    "" for nothing; it is called every `pause_s`, and what it returns is printed whenever that changes."""
    began, last = time.monotonic(), ""
    while True:
        sentence = missing(time.monotonic() - began)
        if not sentence:
            echo("It is in effect.", err=True)
            return True
        if sentence != last:
            echo(sentence, err=True)
            last = sentence
        if time.monotonic() - began >= wait_s:
            echo(f"It is not in effect within {wait_s:g} s: {sentence}", err=True)
            return False
        time.sleep(pause_s)


def unread(order: control.AnyOrder, records: Mapping[str, control.Record], now_ms: int) -> str:
    """Returns what is missing until an order on a group or an instance has been carried out, "" for nothing."""
    traits = control.traits_of(order)
    if not traits.lasts:
        listen = "see 'bellwether orders' for the instances of Bellwether that read this control topic"
        return f"no instance of Bellwether has taken the order; {listen}." if order.key in records else ""
    heartbeats = [
        heartbeat for heartbeat in control.recent_heartbeats(records, now_ms) if order.target in heartbeat.groups
    ]
    silent = [heartbeat.instance for heartbeat in heartbeats if heartbeat.at_ms <= order.at_ms]
    if not heartbeats:
        return "no instance of Bellwether with the group has reported."
    if silent:
        return f"{', '.join(silent)} has reported nothing since."
    leads = [heartbeat.instance for heartbeat in heartbeats if order.target in heartbeat.leads]
    return f"{leads[0]} still leads it." if leads and traits.leaves else ""


def outdated(order: control.AppliedPlan, records: Mapping[str, control.Record]) -> str:
    """Returns that the applied plan is not in force any more, "" while it is."""
    in_force = records.get(order.key) == order
    return "" if in_force else "the plan has ended already: it was withdrawn, or the members have changed."


def unseen(order: control.PlacementOrder, records: Mapping[str, control.Record]) -> str:
    """Returns what Bellwether has not yet seen of the absence that ends the order, "" for nothing. A member that
    stopped earlier could come back unrecognised."""
    in_force = records.get(order.key) == order
    if order.until is control.Until.REMOVED:
        return f"{order.where} is still in the group." if in_force else ""
    if not in_force:
        return "the order has ended already: it was withdrawn, or the member is back."
    absence = control.absence_of(records, order)
    empty = absence is not None and absence.stage is not control.Stage.EMPTYING
    return "" if empty else "Bellwether has not seen it empty yet."
