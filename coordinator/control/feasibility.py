"""Checks by the heartbeats in the control topic whether an order can be carried out. Pure: `records` are the records of
the topic by key, `now_ms` is the wall clock."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from bellwether_kafka.assignors.streams.policies import STREAMS_HA
from bellwether_kafka.coordinator.control.order_kinds import Takes
from bellwether_kafka.coordinator.control.records import (
    EVERYBODY,
    HEARTBEAT_AGE_MS_MAX,
    AnyOrder,
    InstanceHeartbeat,
    Record,
    clocks_may_differ,
    recent_heartbeats,
    silent_by_clock,
    traits_of,
    utc_time,
)
from bellwether_kafka.coordinator.kafka.wire import OWN_ASSIGNORS, asks_bellwether
from bellwether_kafka.coordinator.names import for_shell, listed

if TYPE_CHECKING:
    from bellwether_kafka.assignors.shared import Rule

WITHIN = f"within {HEARTBEAT_AGE_MS_MAX // 1000} s"
PLUGIN_GUIDE = "docs/guides/beyond-classic.md#with-the-plug-in"


def policy_of(records: Mapping[str, Record], group: str, now_ms: int) -> str | None:
    """Returns the policy of the group's plans, None if no live process reports it."""
    return next(
        (heartbeat.policies[group] for heartbeat in recent_heartbeats(records, now_ms) if group in heartbeat.policies),
        None,
    )


def objection(order: AnyOrder, records: Mapping[str, Record], now_ms: int) -> str:
    """Returns sentences on why the order would have no effect, with the remedy; "" if it has one."""
    living, traits = recent_heartbeats(records, now_ms), traits_of(order)
    if traits.takes is Takes.INSTANCE:
        absent = silent_by_clock(records, now_ms, lambda heartbeat: order.target in (heartbeat.instance, EVERYBODY))
        return _nobody_to_drain(order, living, absent, now_ms)
    served = any(order.target in heartbeat.serves for heartbeat in living)
    if served and not traits.served:
        if traits.places:
            return f"The broker of '{order.target}' assigns; a plan can be applied only where Bellwether leads."
        what = order.kind.value
        return f"Bellwether is not in '{order.target}', whose broker assigns, so there is nothing to {what}."
    keepers = [heartbeat for heartbeat in living if order.target in (*heartbeat.groups, *heartbeat.serves)]
    if not keepers:
        groups = _listed(
            {group for heartbeat in living for group in (*heartbeat.groups, *heartbeat.serves)},
            "groups with an instance of Bellwether",
        )
        reported = (
            f"No Bellwether with the group '{order.target}' has reported in the control topic {WITHIN}; {groups}."
        )
        return reported + clocks_may_differ(records, order.target, now_ms)
    leading = [heartbeat for heartbeat in keepers if order.target in heartbeat.leads]
    if ended := _ended_there(order, leading or keepers, now_ms):
        return ended
    not_following = [
        heartbeat for heartbeat in keepers if heartbeat.policies and order.target not in heartbeat.orders_for
    ]
    if traits.places and not_following:
        policy = not_following[0].policies.get(order.target, "another")
        remedy = f'which ignores pins, bans, evacuations and applied plans; set policy = "{STREAMS_HA}"'
        return f"'{order.target}' is planned by the policy {policy}, {remedy}."
    if not (leading or served) and traits.needs_lead:
        why = "'bellwether top --url http://HOST:9790' shows why"
        return f"Bellwether does not lead '{order.target}' now; {why}. Repeat the order when it leads."
    return ""


def contradicting(
    group: str,
    rule: "Rule",
    in_force: "Sequence[Rule]",
    infeasible: "Callable[[Rule, Sequence[Rule]], str]",
) -> str:
    """Returns a sentence on the orders in force because of which a rule cannot be kept, with the commands that withdraw
    them; "" if they are not why. `infeasible` is that of the group's plan."""
    others = [each for each in in_force if each.kind != "plan"]
    if not infeasible(rule, others) or infeasible(rule, ()):
        return ""
    alone = [each for each in others if infeasible(rule, (each,))]
    behind = alone or [each for each in others if not infeasible(rule, [other for other in others if other != each])]
    orders = "; ".join(
        dict.fromkeys(each.order or f"{each.kind} of {each.item}, {each.where}" for each in behind or others)
    )
    commands = dict.fromkeys(_unpin(group, each) for each in behind or others)
    return f"{orders[:1].upper()}{orders[1:]}. Withdraw that first: {' and '.join(commands)}."


def _unpin(group: str, rule: "Rule") -> str:
    return f"'bellwether unpin {for_shell(group)} {for_shell(rule.where if rule.empties else rule.item)}'"


def _ended_there(order: AnyOrder, heartbeats: Iterable[InstanceHeartbeat], now_ms: int) -> str:
    """Returns a sentence if the order has ended by the clock of each of these instances, which ignore it then; "" if it
    has not."""
    last = min(heartbeats, key=lambda heartbeat: heartbeat.at_ms)
    if last.at_ms < order.expires_ms:
        return ""
    return (
        f"The order has ended already by the clock of {last.instance}: it is {utc_time(last.at_ms)} there, and by this"
        f" clock {utc_time(now_ms)}; synchronise the clocks."
    )


def unfollowed(group: str, protocol: str, assignor: str, *, served: bool, members: bool = True) -> str:
    """Returns sentences on why the broker of a group that it assigns would not follow an order, with the remedy; "" if
    it would. `served`: a live process reports that it has served the group a plan. `members`: the group has some; of
    one of consumers without members brokers show the first assignor of their own."""
    if protocol == "consumer" and not members:
        return f"'{group}' has no member now that would name an assignor; repeat the order when one has joined."
    if protocol == "streams" and not assignor:  # before 4.4
        remedy = f"'bellwether convert {for_shell(group)}' has the way back to a group that Bellwether leads"
        return f"The broker of '{group}' places its tasks (group.protocol=streams) and follows no orders; {remedy}."
    if not asks_bellwether(assignor):
        remedy = "let its members name one that asks Bellwether, such as group.remote.assignor=bellwether-rack-first"
        if protocol == "streams":
            remedy = f"give the group the configuration streams.assignor.name={OWN_ASSIGNORS}"
        return f"The broker of '{group}' assigns with {assignor}, which follows no orders; {remedy} ({PLUGIN_GUIDE})."
    if served:
        return ""
    remedy = "see that one with this control_topic runs beside each broker, and let a member join or leave"
    return f"The broker of '{group}' assigns with {assignor}, but no Bellwether reports that it was asked; {remedy}."


def _nobody_to_drain(order: AnyOrder, living: list[InstanceHeartbeat], absent: str, now_ms: int) -> str:
    target = order.target
    named = [heartbeat for heartbeat in living if target in (heartbeat.instance, EVERYBODY)]
    if not named:
        instances = _listed({heartbeat.instance for heartbeat in living}, "instances that have reported")
        return f"No instance of Bellwether '{target}' has reported in the control topic {WITHIN}; {instances}.{absent}"
    if ended := _ended_there(order, named, now_ms):
        return ended
    led = {group: heartbeat for heartbeat in named for group in heartbeat.leads}
    if not led:
        return "It leads no group now, so there is nothing to hand over; see 'bellwether orders'."
    alone = [g for g, by in led.items() if not any(g in b.standby_for for b in living if b.instance != by.instance)]
    if alone:
        groups = _listed(alone, "groups without a standby")
        remedy = "start another instance of Bellwether with standby = true, or use 'bellwether leave'"
        return f"No standby has reported {WITHIN} to take them over; {groups}; {remedy}."
    return ""


def _listed(names: Iterable[str], what: str) -> str:
    ordered = sorted(names)
    return f"{what}: {listed(ordered, 5) or 'none'}"
