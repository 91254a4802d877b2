"""Checks how Bellwether becomes the leader of a group, whether it can plan for it, and whether operators' orders on the
group can be followed."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from bellwether_kafka.coordinator import control
from bellwether_kafka.coordinator.kafka.wire import BROKER_PROTOCOLS
from bellwether_kafka.coordinator.membership import STREAMS_PROTOCOL, NotLeading
from bellwether_kafka.coordinator.names import for_shell
from bellwether_kafka.coordinator.observation import adoption_steps
from bellwether_kafka.coordinator.observation.findings import Fault, Finding, Level, judged
from bellwether_kafka.coordinator.observation.health.doctor_facts import (
    DoctorFacts,
    GivenOrders,
    has_no_members,
    sentence,
)
from bellwether_kafka.coordinator.observation.observation import Observation
from bellwether_kafka.coordinator.observation.removals import removals


def lead_checks(facts: DoctorFacts) -> list[Finding]:
    """Returns the checks how Bellwether becomes the leader."""
    return [*_takeover(facts), *_adoption(facts), *_removals(facts)]


def plan_checks(facts: DoctorFacts) -> list[Finding]:
    """Returns the checks whether a plan can be made, and of what it cannot include."""
    return [*_weights(facts), _plan(facts), _unseen(facts)]


def _takeover(facts: DoctorFacts) -> list[Finding]:
    """Checks whether Bellwether may take over an application, without which it cannot regain the lead after an absence.
    Take-overs need a declaration that the application is fit for them."""
    guard = facts.config.takeover_obstacle
    if facts.mode != "lead" or facts.config.adopt != "take-over" or not facts.config.streams:
        return []
    if guard is None:
        return [Finding("take-over", Level.PASS, "The lead may be taken from a member.")]
    if guard.reason is NotLeading.MEMBER_LEADS:
        return [Finding("take-over", Level.PASS, sentence(guard.sentence))]
    if guard.reason is NotLeading.UNDECLARED:
        remedy = "Add the declaration, or restart the instances one after another."
        return [Finding("take-over", Level.FAIL, sentence(guard.sentence), remedy)]
    remedy = "Restart the instances one after another: Bellwether leads when the leader's instance is restarted."
    return [Finding("take-over", Level.WARN, sentence(guard.sentence), remedy)]


def _adoption(facts: DoctorFacts) -> list[Finding]:
    """Lists the steps of an adoption by restarts, for a group whose live leader may not be removed."""
    seen, config = facts.seen, facts.config
    waits = config.adopt != "when-empty" and config.waits_for_restart
    if facts.mode != "lead" or not waits or not seen.members:
        return []
    if seen.bellwether_members:
        message = "Bellwether is in the group. A lead that is lost comes back when the leader's instance is restarted."
        return [Finding("adoption", Level.PASS, message)]
    ordered = " ".join(f"({number}) {step}" for number, step in enumerate(adoption_steps.steps(seen), 1))
    message = f"{adoption_steps.leader(seen)} {adoption_steps.cost(adoption_steps.instances(seen))}"
    return [Finding("adoption", Level.WARN, message, ordered)]


def _removals(facts: DoctorFacts) -> list[Finding]:
    """Checks which members a take-over would remove, and whether it would begin."""
    foreseen = removals(facts.seen, facts.config, facts.size_limit, facts.answer_time_ms)
    if foreseen is None:
        return []
    message = " ".join(foreseen.sentences())
    if foreseen.begins:
        return [Finding("removals", Level.PASS, message)]
    fails = facts.mode == "lead" and not foreseen.by_pace
    verdict = Level.FAIL if fails else Level.WARN
    return [Finding("removals", verdict, message, sentence(foreseen.reason.rpartition("; ")[2]))]


def _weights(facts: DoctorFacts) -> list[Finding]:
    """Checks from what `load-aware` makes its weights."""
    if not facts.by_load:
        return _capacity_without_load(facts)
    if facts.weights_topic:
        return [Finding("weights", Level.PASS, f"load-aware uses the weights in the topic {facts.weights_topic}.")]
    if facts.log_sizes:
        message = "load-aware weighs records and bytes: brokers report the sizes of logs."
        return [Finding("weights", Level.PASS, message)]
    if facts.log_sizes is None:
        message = "load-aware weighs records, and bytes if brokers report the sizes of logs;"
        message = f"{message} {facts.log_sizes_unread}."
        return [Finding("weights", Level.PASS, message)]
    message = "load-aware weighs records only: no broker reports the sizes of the group's logs."
    remedy = "Grant Bellwether's principal the ACL DESCRIBE on Cluster if records differ in size between partitions."
    return [Finding("weights", Level.WARN, message, remedy)]


def _capacity_without_load(facts: DoctorFacts) -> list[Finding]:
    """Warns of capacities that the group's policy does not use."""
    if not facts.policy.load.capacity:
        return []
    message = f"capacity is set for the group, and its policy {facts.policy.name} does not use it."
    return [Finding("weights", Level.WARN, message, 'Set policy = "load-aware", or remove capacity.')]


def _plan(facts: DoctorFacts) -> Finding:
    seen = facts.seen
    if seen.shadow is not None:
        warnings = seen.shadow.decision.warnings
        if warnings:
            message = f"A plan can be made, but: {'; '.join(warnings)}."
            return Finding("plan", Level.WARN, message, "See bellwether plan.")
        return Finding("plan", Level.PASS, f"A plan can be made; it would move {seen.shadow.moves.moved}.")
    if not seen.members:
        return Finding("plan", Level.PASS, "There is no member to plan for yet.")
    return Finding("plan", Level.FAIL, sentence(seen.trouble or "no plan could be made"), _plan_remedy(seen))


def _plan_remedy(seen: Observation) -> str:
    if seen.protocol == STREAMS_PROTOCOL:
        return "Check the application's topology (bellwether topology learn) and its settings."
    return "Do what the reason says, or ask again when the brokers answer."


def _unseen(facts: DoctorFacts) -> Finding:
    """Lists what brokers do not show to observers, so that Bellwether does not guess it."""
    if facts.seen.protocol == STREAMS_PROTOCOL:
        message = "Members do not send processing.guarantee, the kind of their stores and num.standby.replicas."
        return Finding("not visible", Level.WARN, message, "Configure them for the group as the application has them.")
    message = "Protocol names that members offer beside the chosen one are not visible."
    return Finding("not visible", Level.PASS, message)


ORDERS = "orders"
OLD_MS = 86_400_000  # an order to leave that is older has probably been forgotten


def order_checks(facts: DoctorFacts) -> list[Finding]:
    """Returns the check of orders; none if no control topic is configured and none has the default name."""
    given = facts.given
    if given is None:
        return []
    if given.unread:
        remedy = "Until then this check and the plans of commands leave orders out."
        return [Finding(ORDERS, Level.WARN, sentence(given.unread), remedy)]
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
    verdict = judged(ORDERS, wrong, passed, details)
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
