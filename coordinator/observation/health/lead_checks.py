"""Checks how Bellwether becomes the leader of a group, and whether it can plan for it."""

from bellwether_kafka.coordinator.membership import STREAMS_PROTOCOL, NotLeading
from bellwether_kafka.coordinator.observation import adoption_steps
from bellwether_kafka.coordinator.observation.findings import Finding, Level
from bellwether_kafka.coordinator.observation.health.doctor_facts import DoctorFacts, sentence
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
