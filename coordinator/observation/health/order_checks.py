"""Checks the operators' orders on the group: which are in force, and whether they can be followed."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from bellwether_kafka.coordinator import control
from bellwether_kafka.coordinator.kafka.wire import BROKER_PROTOCOLS
from bellwether_kafka.coordinator.names import for_shell
from bellwether_kafka.coordinator.observation.findings import Fault, Finding, Level, judged
from bellwether_kafka.coordinator.observation.health.doctor_facts import (
    DoctorFacts,
    GivenOrders,
    has_no_members,
    sentence,
)

NAME = "orders"
OLD_MS = 86_400_000  # an order to leave that is older has probably been forgotten


def order_checks(facts: DoctorFacts) -> list[Finding]:
    """Returns the check of orders; none if no control topic is configured and none has the default name."""
    given = facts.given
    if given is None:
        return []
    if given.unread:
        remedy = "Until then this check and the plans of commands leave orders out."
        return [Finding(NAME, Level.WARN, sentence(given.unread), remedy)]
    group = facts.seen.group_id
    in_force = given.in_force(group)
    details = tuple(f"{order.sentence}, {control.end_in_words(order)}" for order in in_force)
    many = {0: "No order is", 1: "One order is"}.get(len(in_force), f"{len(in_force)} orders are")
    passed, wrong = f"{many} in force for this group.", []
    unfollowed = [(order, reason) for order in in_force if (reason := _unfollowed(order, facts, given))]
    if unfollowed:
        reasons = " ".join(dict.fromkeys(reason for _, reason in unfollowed))
        wrong.append(Fault(Level.WARN, reasons, _withdrawal(group, [order for order, _ in unfollowed])))
    if old := _left_long_ago(in_force, given.now_ms):
        wrong.append(Fault(Level.WARN, old, f"If it has been forgotten: bellwether resume {for_shell(group)}."))
    if ahead := _ahead(group, given):
        wrong.append(Fault(Level.WARN, ahead, "Synchronise the clocks."))
    verdict = judged(NAME, wrong, passed, details)
    return [replace(verdict, message=f"{passed} {verdict.message}") if wrong else verdict]


def _withdrawal(group: str, orders: Iterable[control.AnyOrder]) -> str:
    """Returns the commands that withdraw these orders; one that is carried out once ends by itself."""
    lasting = [traits for order in orders if (traits := control.traits_of(order)).lasts]
    unpin = [f"bellwether unpin {for_shell(group)} --all"] if any(traits.places for traits in lasting) else []
    resume = [f"bellwether resume {for_shell(group)}"] if any(not traits.places for traits in lasting) else []
    commands = " and ".join([*unpin, *resume])
    return f"Remove the cause, or withdraw what is ordered: {commands}." if commands else "Remove the cause."


def _left_long_ago(orders: Iterable[control.AnyOrder], now_ms: int) -> str:
    """Returns a sentence if Bellwether has been ordered to leave the group more than a day ago, else ""."""
    for order in orders:
        if order.kind is control.OrderKind.LEAVE and now_ms - order.at_ms > OLD_MS:
            return f"Bellwether has stayed out of the group for {(now_ms - order.at_ms) // OLD_MS} days."
    return ""


def _ahead(group: str, given: GivenOrders) -> str:
    """Returns a sentence if the clock of a live instance with the group is ahead of this one, else ""."""
    living = {heartbeat.key: heartbeat for heartbeat in control.recent_heartbeats(given.records, given.now_ms)}
    return control.clocks_may_differ(living, group, given.now_ms).strip()


def _unfollowed(order: control.AnyOrder, facts: DoctorFacts, given: GivenOrders) -> str:
    """Returns why the order is not followed now, as sentences; "" if it is, or if nothing is assigned."""
    seen, group = facts.seen, facts.seen.group_id
    if seen.kind == "consumer" and has_no_members(facts):
        return ""
    if seen.kind in BROKER_PROTOCOLS and control.traits_of(order).served:
        living = control.recent_heartbeats(given.records, given.now_ms)
        served = any(group in heartbeat.serves for heartbeat in living)
        if reason := control.unfollowed(group, seen.kind, seen.assignor, served=served):
            return reason
    return control.objection(order, given.records, given.now_ms) or "".join(_infeasible(order, facts, given))


def _infeasible(order: control.AnyOrder, facts: DoctorFacts, given: GivenOrders) -> Iterator[str]:
    """Yields why no plan for the present members can follow a pin, ban or evacuation."""
    shadow = facts.seen.shadow
    if shadow is None or not isinstance(order, control.PlacementOrder):
        return
    others = [
        other.rule
        for other in given.in_force(facts.seen.group_id)
        if isinstance(other, control.PlacementOrder) and other != order
    ]
    infeasible = shadow.decision.plan.infeasible
    if reason := infeasible(order.rule, others):
        because = control.contradicting(facts.seen.group_id, order.rule, others, infeasible)
        yield f"{sentence(f'{order.kind.value} of {order.item} at {order.where}: {reason}')} {because}".rstrip()
