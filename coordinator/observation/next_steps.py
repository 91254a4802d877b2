"""Next steps after the checks of `doctor`: remedies of failures, then of warnings, then further commands. Pure."""

from collections.abc import Iterator, Sequence

from bellwether_kafka.coordinator.names import for_shell, for_toml
from bellwether_kafka.coordinator.observation import Finding, Level
from bellwether_kafka.coordinator.observation.health import KIND_OF_PROTOCOL, DoctorFacts

STEPS_MAX = 3


def next_steps(facts: DoctorFacts, checks: Sequence[Finding]) -> tuple[str, ...]:
    """Returns at most STEPS_MAX sentences: failures before warnings, each in the order of the checks."""
    remedies = [check.remedy for verdict in (Level.FAIL, Level.WARN) for check in checks if check.level is verdict]
    return tuple(dict.fromkeys([*filter(None, remedies), *_leading_on(facts)]))[:STEPS_MAX]


def _leading_on(facts: DoctorFacts) -> Iterator[str]:
    """Yields what to do with the group once its checks pass."""
    seen = facts.seen
    if seen.kind == "unknown":
        yield "Ask again when its coordinator node answers."
        return
    if seen.kind == "missing":
        yield "Start the application, then ask again."
        return
    leads_on = seen.can_be_led and not seen.self_assigned
    if leads_on:
        yield f"See what Bellwether would change: bellwether plan {for_shell(seen.group_id)}"
    if leads_on and not seen.bellwether_members and facts.mode != "lead":
        kind = KIND_OF_PROTOCOL.get(seen.protocol)
        entry = [f"name = {for_toml(seen.group_id)}", 'mode = "lead"', *([f'kind = "{kind}"'] if kind else [])]
        yield f"Lead it: add a [[groups]] entry with {', '.join(entry)}, and start bellwether run."
    yield f"Watch it: bellwether describe {for_shell(seen.group_id)} --watch"
    yield "Watch all groups: bellwether top"
