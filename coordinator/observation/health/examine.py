"""All checks of `bellwether doctor`, made from facts about a group, its cluster and the settings. Pure.

Each check passes, warns or fails, and warnings and failures have a remedy. Checks for leaders are not applicable if no
client can lead the group; checks of members are not applicable if there are none.
"""

from bellwether_kafka.coordinator.observation.findings import Finding, Level
from bellwether_kafka.coordinator.observation.health.doctor_facts import DoctorFacts
from bellwether_kafka.coordinator.observation.health.joining_checks import joining_checks
from bellwether_kafka.coordinator.observation.health.lead_checks import lead_checks, order_checks, plan_checks
from bellwether_kafka.coordinator.observation.health.member_checks import application_checks, member_checks

OF_LEADERS = (
    *("group ACL", "protocols", "instance id", "session timeout", "group size", "broker version"),
    *("adoption", "versions", "topology", "plan", "not visible", "removals"),
)
OF_MEMBERS = frozenset({"protocols", "instance id", "group size", "racks", "plan"})
# In the order in which to fix what they find.
CHECKS = (joining_checks, member_checks, lead_checks, application_checks, plan_checks, order_checks)


def examine(facts: DoctorFacts) -> tuple[Finding, ...]:
    """Returns all checks, in the order in which to fix them."""
    checks = [check for make in CHECKS for check in make(facts)]
    if facts.seen.kind == "unknown":
        return tuple(_unchecked(check) if check.kind in OF_MEMBERS else check for check in checks)
    if facts.seen.kind in ("classic", "missing"):
        return tuple(checks)
    return tuple(_meaningless(check) if check.kind in OF_LEADERS else check for check in checks)


def _meaningless(check: Finding) -> Finding:
    return Finding(check.kind, Level.NOT_APPLICABLE, "No client can lead this group.")


def _unchecked(check: Finding) -> Finding:
    """Returns the check of a group whose members are not known, which is not a group without members."""
    if check.level not in (Level.PASS, Level.NOT_APPLICABLE):
        return check
    message = "Not checked: the members of the group are not known."
    return Finding(check.kind, Level.WARN, message, "Ask again when the group can be described.")
