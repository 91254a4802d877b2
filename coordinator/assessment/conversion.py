"""What the conversion of a group to the protocol in which its broker assigns would change (KIP-848 for consumers,
KIP-1071 for Kafka Streams): whether it can be done, how, and the assignment before and after. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from bellwether_kafka.coordinator.assessment.model import PolicyRow, Prices
from bellwether_kafka.coordinator.assessment.policies import rows_of
from bellwether_kafka.coordinator.kafka import SettingOfBroker
from bellwether_kafka.coordinator.membership import STREAMS_PROTOCOL
from bellwether_kafka.coordinator.names import for_shell
from bellwether_kafka.coordinator.observation import Check, CheckVerdict, Observation
from bellwether_kafka.coordinator.planning import listed

MIGRATION_POLICY = "group.consumer.migration.policy"
ONLINE = ("bidirectional", "upgrade")
BROKERS_FROM = {"consumer": (4, 0), "streams": (4, 2)}  # from where on the protocol is ready for production
STOP_FIRST = "Stop all members first, and start them with the protocol."
SHOWN = ("now", "broker-uniform", "broker-range", "broker-sticky", "rack-first", "streams-ha", "load-aware")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionFacts:
    """The facts that a conversion is planned with.

    `obstacles` are why the broker would refuse it now, None if the group is not stable. `led` and `blocked`: the
    settings lead the group, and forbid its conversion. `migration` is group.consumer.migration.policy of each broker,
    empty if it could not be read.
    """

    seen: Observation
    obstacles: tuple[str, ...] | None = None
    led: bool = False
    blocked: bool = False
    broker_version: tuple[int, ...] = ()
    migration: Mapping[int, SettingOfBroker]

    @property
    def protocol(self) -> str:
        """The protocol to convert to."""
        return "streams" if self.seen.protocol == STREAMS_PROTOCOL or self.seen.kind == "streams" else "consumer"

    @property
    def converted(self) -> bool:
        return self.seen.kind == self.protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionPlan:
    """`to` is "consumer" or "streams". `policies` are the present assignment, those of a broker, and for comparison
    those of Bellwether, which a broker's plug-in makes for consumers. `steps` and `way_back` are sentences."""

    group: str
    to: str
    converted: bool
    checks: tuple[Check, ...]
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
        checks=tuple(_checks(facts)),
        policies=compared(facts, prices),
        steps=_steps(facts),
        way_back=_way_back(facts),
    )


def compared(facts: ConversionFacts, prices: Prices) -> tuple[PolicyRow, ...]:
    """Returns the rows that are shown. An application of the classic protocol is stopped for its conversion."""
    rows = rows_of(facts.seen, prices, restarts=not facts.converted)
    return tuple(row for row in rows if row.policy in SHOWN)


def _checks(facts: ConversionFacts) -> list[Check]:
    if facts.converted:
        return [_converted(facts)]
    if facts.seen.kind != "classic":
        message = facts.seen.trouble or f"It is {facts.seen.kind}, and only a classic group can be converted."
        return [Check("group", CheckVerdict.FAIL, message, "See `bellwether doctor` for this group.")]
    running = [_migration(facts), _assignments(facts)] if facts.protocol == "consumer" else []
    return [_brokers(facts), *running, _clients(facts)]


def _converted(facts: ConversionFacts) -> Check:
    message = f"It has the protocol {facts.protocol}: its broker assigns."
    seen = facts.seen
    if not seen.classic_members:
        return Check("group", CheckVerdict.PASS, message)
    names = sorted(m.instance_id or m.client_id for m in seen.members if m.member_id in seen.classic_members)
    left = f"{len(names)} of {len(seen.members)} members have the classic protocol ({listed(names)})."
    return Check("group", CheckVerdict.WARN, f"{message} But {left}", "Restart these, or go the way back.")


def _brokers(facts: ConversionFacts) -> Check:
    name = ".".join(map(str, facts.broker_version))
    wanted = ".".join(map(str, BROKERS_FROM[facts.protocol]))
    if not facts.broker_version:
        return Check("brokers", CheckVerdict.WARN, "The brokers' version is not known.", "Ask again.")
    if facts.broker_version < BROKERS_FROM[facts.protocol]:
        message = f"The broker that was asked is of Kafka {name}; the protocol {facts.protocol} needs {wanted}."
        return Check("brokers", CheckVerdict.FAIL, message, "Upgrade the brokers first.")
    message = f"The broker that was asked is of Kafka {name}; all of them have to be of {wanted} or newer."
    return Check("brokers", CheckVerdict.PASS, message)


def _migration(facts: ConversionFacts) -> Check:
    policies = {setting.lower() for setting in facts.migration.values() if isinstance(setting, str)}
    if policies - {*ONLINE}:
        message = f"{MIGRATION_POLICY} is {', '.join(sorted(policies))}: a member with the new protocol is refused."
        return Check("migration", CheckVerdict.WARN, message, "Set it to bidirectional, or stop all members first.")
    if not policies or any(not isinstance(setting, str) for setting in facts.migration.values()):
        message = f"Whether brokers convert a running group ({MIGRATION_POLICY}) is not known."
        remedy = "Grant Bellwether's principal the ACL DESCRIBE_CONFIGS on the cluster. The default is bidirectional."
        return Check("migration", CheckVerdict.WARN, message, remedy)
    back = "and back" if policies == {"bidirectional"} else "and not back"
    return Check("migration", CheckVerdict.PASS, f"Brokers convert a running group, {back}.")


def _assignments(facts: ConversionFacts) -> Check:
    if facts.blocked:
        message = 'Bellwether blocks the conversion: online_conversion = "block".'
        return Check("assignments", CheckVerdict.FAIL, message, 'Set "allow" and let one rebalance pass.')
    if facts.obstacles is None:
        return Check("assignments", CheckVerdict.WARN, "The group is not stable.", "Ask again when it is.")
    if facts.obstacles:
        message = f"The broker would refuse it: {'; '.join(facts.obstacles)}."
        return Check("assignments", CheckVerdict.FAIL, message, STOP_FIRST)
    return Check("assignments", CheckVerdict.PASS, "No assignment prevents it.")


def _clients(facts: ConversionFacts) -> Check:
    message = f"Which clients have the protocol {facts.protocol} does not show in a classic group."
    remedy = {
        "consumer": "Java has it since 4.0. Remove session.timeout.ms, heartbeat.interval.ms and"
        " partition.assignment.strategy from the members' settings: with the protocol the brokers have these.",
        "streams": "Kafka Streams has it since 4.2. Set num.standby.replicas for the group at the brokers"
        " (streams.num.standby.replicas); racks, warm-ups and assignors of the application no longer count.",
    }
    return Check("clients", CheckVerdict.WARN, message, remedy[facts.protocol])


def _steps(facts: ConversionFacts) -> tuple[str, ...]:
    if facts.converted and not facts.seen.classic_members:
        return ()
    group = for_shell(facts.seen.group_id)
    then = f"See the result: bellwether observe {group}. Bellwether goes on observing lag, racks and costs."
    if facts.protocol == "streams":
        free = f"Free the group, which Bellwether keeps while it is empty: bellwether release {group}."
        return (
            "Stop all instances, and wait until the group is empty.",
            *([free] if facts.led else []),
            "Start all instances with group.protocol=streams. Offsets and state stay.",
            then,
        )
    first = "Restart one member with group.protocol=consumer. It converts the group"
    return (
        *([] if facts.converted else [first + (", and Bellwether leaves it and observes." if facts.led else ".")]),
        "Restart the others with group.protocol=consumer, one after another. Until then the broker assigns to both.",
        then,
    )


def _way_back(facts: ConversionFacts) -> tuple[str, ...]:
    led = ", and Bellwether leads it again" if facts.led else ""
    if facts.protocol == "streams":
        return (f"Stop all instances, wait until the group is empty, and start them with group.protocol=classic{led}.",)
    return (
        "Restart the members one after another with group.protocol=classic.",
        f"When the last member of the new protocol has left, the group is classic{led}.",
    )
