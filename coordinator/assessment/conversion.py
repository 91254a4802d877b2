"""What the conversion of a group to the protocol in which its broker assigns would change (KIP-848 for consumers,
KIP-1071 for Kafka Streams): whether it can be done, how, and the assignment before and after. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from bellwether_kafka.coordinator.assessment.conversion_checks import conversion_checks
from bellwether_kafka.coordinator.assessment.conversion_facts import ONLINE_BACK, ConversionFacts
from bellwether_kafka.coordinator.assessment.model import PolicyRow, Prices
from bellwether_kafka.coordinator.assessment.policies import rows_of
from bellwether_kafka.coordinator.names import for_shell
from bellwether_kafka.coordinator.observation import Finding

SHOWN = ("now", "broker-uniform", "broker-range", "broker-sticky", "rack-first", "streams-ha", "load-aware")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionPlan:
    """`to` is "consumer" or "streams". `policies` are the present assignment, those of a broker, and for comparison
    those of Bellwether, which a broker's plug-in makes for consumers. `steps` and `way_back` are sentences."""

    group: str
    to: str
    converted: bool
    checks: tuple[Finding, ...]
    policies: tuple[PolicyRow, ...]
    steps: tuple[str, ...]
    way_back: tuple[str, ...]


def plan_conversion(facts: ConversionFacts, prices: Prices) -> ConversionPlan:
    """Returns the plan. A group that is converted already has a way back and no steps, one whose conversion was
    interrupted has the rest of them."""
    return ConversionPlan(
        group=facts.seen.group_id,
        to=facts.protocol,
        converted=facts.converted,
        checks=tuple(conversion_checks(facts)),
        policies=compared(facts, prices),
        steps=_steps(facts),
        way_back=_way_back(facts),
    )


def compared(facts: ConversionFacts, prices: Prices) -> tuple[PolicyRow, ...]:
    """Returns the rows that are shown. An application of the classic protocol is stopped for its conversion."""
    rows = rows_of(facts.seen, prices, restarts=not facts.converted)
    return tuple(row for row in rows if row.policy in SHOWN)


def _steps(facts: ConversionFacts) -> tuple[str, ...]:
    if not facts.convertible or (facts.converted and not facts.seen.classic_members):
        return ()
    group = for_shell(facts.seen.group_id)
    then = f"See the result: bellwether describe {group} --watch. Bellwether goes on observing lag, racks and costs."
    allow = 'Set online_conversion = "allow", restart Bellwether, and let one rebalance pass.'
    blocked = [allow] if facts.blocked and facts.protocol == "consumer" else []
    if facts.stops and not facts.converted:
        return (*blocked, *_stopped(facts), then)
    first = "Restart one member with group.protocol=consumer. It converts the group"
    return (
        *blocked,
        *([] if facts.converted else [first + (", and Bellwether leaves it and observes." if facts.led else ".")]),
        "Restart the others with group.protocol=consumer, one after another. Until then the broker assigns to both.",
        then,
    )


def _stopped(facts: ConversionFacts) -> Iterator[str]:
    """Yields the steps of a conversion for which all members are stopped, unless they are already."""
    what, kept = (
        ("instances", "Offsets and state stay.") if facts.protocol == "streams" else ("members", "Offsets stay.")
    )
    if facts.seen.members:
        yield f"Stop all {what}, and wait until the group is empty."
    if facts.led:
        group = for_shell(facts.seen.group_id)
        yield f"Free the group, which Bellwether keeps while it is empty: bellwether release {group}."
    yield f"Start all {what} with group.protocol={facts.protocol}. {kept}"


def _way_back(facts: ConversionFacts) -> tuple[str, ...]:
    if not facts.convertible:
        return ()
    led = ", and Bellwether leads it again" if facts.led and not facts.waits else ""
    group = for_shell(facts.seen.group_id)
    how = "all at once" if facts.when_empty else f"one after another (bellwether doctor {group} has the order)"
    again = f"Restart them once more, {how}: with these settings Bellwether takes the lead from no live member."
    restarts = [again] if facts.led and facts.waits else []
    if facts.protocol == "streams" or facts.policies - ONLINE_BACK:
        what = "instances" if facts.protocol == "streams" else "members"
        return (
            f"Stop all {what}, wait until the group is empty, and start them with group.protocol=classic{led}.",
            *restarts,
        )
    return (
        "Restart the members one after another with group.protocol=classic.",
        f"When the last member of the new protocol has left, the group is classic{led}.",
        *restarts,
    )
