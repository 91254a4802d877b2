"""What the conversion of a group to the protocol in which its broker assigns would change (KIP-848 for consumers,
KIP-1071 for Kafka Streams): whether it can be done, how, and the assignment before and after. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from confluent_kafka import KafkaError

from bellwether_kafka.coordinator.assessment.model import PolicyRow, Prices
from bellwether_kafka.coordinator.assessment.policies import rows_of
from bellwether_kafka.coordinator.kafka import OWN_ASSIGNORS, SettingOfBroker
from bellwether_kafka.coordinator.membership import STREAMS_PROTOCOL
from bellwether_kafka.coordinator.names import for_shell
from bellwether_kafka.coordinator.observation import Check, CheckVerdict, Observation
from bellwether_kafka.coordinator.planning import listed

MIGRATION_POLICY = "group.consumer.migration.policy"
ONLINE = frozenset({"bidirectional", "upgrade"})
ONLINE_BACK = frozenset({"bidirectional", "downgrade"})
BROKERS_FROM = {"consumer": (4, 0), "streams": (4, 2)}  # from where on the protocol is ready for production
ASSIGNORS_LISTED = {"consumer": "group.consumer.assignors", "streams": "group.streams.assignors"}
OWN_PACKAGE = "bellwether.broker"  # of the classes of deploy/broker-assignor
STOP_FIRST = "Stop all members first, and start them with the protocol."
SHOWN = ("now", "broker-uniform", "broker-range", "broker-sticky", "rack-first", "streams-ha", "load-aware")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionFacts:
    """The facts that a conversion is planned with.

    `obstacles` are why the broker would refuse it now, None if the group is not stable. `led` and `blocked`: the
    settings lead the group, and forbid its conversion. `waits`: they let Bellwether take the lead from no live member,
    as under exactly_once_v2. `when_empty`: it leads only after the group was empty. `application` and `patterns`: by
    the settings it is one of Kafka Streams, whose topology subscribes to topics by a pattern. `migration` is
    group.consumer.migration.policy of each broker, `assignors` its list of assignors for the protocol; both are empty
    if they could not be read.
    """

    seen: Observation
    obstacles: tuple[str, ...] | None = None
    led: bool = False
    blocked: bool = False
    waits: bool = False
    when_empty: bool = False
    application: bool = False
    patterns: bool = False
    broker_version: tuple[int, ...] = ()
    migration: Mapping[int, SettingOfBroker]
    assignors: Mapping[int, SettingOfBroker] = field(default_factory=dict)

    @property
    def protocol(self) -> str:
        """The protocol to convert to. Brokers do not show that of a group without members."""
        return protocol_of(self.seen, application=self.application)

    @property
    def converted(self) -> bool:
        return self.seen.kind == self.protocol

    @property
    def convertible(self) -> bool:
        """Whether it is of a type that can be converted, or is converted."""
        return self.seen.kind == "classic" or self.converted

    @property
    def policies(self) -> frozenset[str]:
        """The brokers' policies of conversion, as far as they were read."""
        return frozenset(setting.lower() for setting in self.migration.values() if isinstance(setting, str))

    @property
    def defaults(self) -> frozenset[str]:
        """The names of the assignors that brokers use unless another is named; empty if those of one are not known."""
        if any(isinstance(setting, KafkaError) for setting in self.assignors.values()):
            return frozenset()
        first = (setting.partition(",")[0].strip() for setting in self.assignors.values() if isinstance(setting, str))
        return frozenset(filter(None, map(_assignor_name, first)))

    @property
    def stops(self) -> bool:
        """Whether all members have to be stopped before the first one starts with the protocol."""
        refused = bool(self.policies - ONLINE) or (bool(self.obstacles) and not self.blocked)
        return self.protocol == "streams" or not self.seen.members or refused


def _assignor_name(entry: str) -> str:
    """Returns the name of an assignor that brokers list by its name or its class."""
    package, _, name = entry.rpartition(".")
    words = re.findall("[A-Z][a-z0-9]*", name.removesuffix("Assignor").removesuffix("Task"))
    if package == OWN_PACKAGE:
        return "-".join(dict.fromkeys([OWN_ASSIGNORS, *(word.lower() for word in words)]))
    return words[0].lower() if package.startswith("org.apache.kafka.") and words else entry


def protocol_of(seen: Observation, *, application: bool) -> str:
    """Returns the protocol to convert a group to. `application`: by the settings it is one of Kafka Streams."""
    streams = (
        seen.protocol == STREAMS_PROTOCOL
        or seen.kind == "streams"
        or (application and seen.kind == "classic" and not seen.members)
    )
    return "streams" if streams else "consumer"


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
    if not facts.convertible:
        message = facts.seen.trouble or f"It is {facts.seen.kind}, and only a classic group can be converted."
        return [Check("group", CheckVerdict.FAIL, message, "See `bellwether doctor` for this group.")]
    running = [_migration(facts), _assignments(facts)] if facts.protocol == "consumer" else []
    return [_brokers(facts), *running, *_assignor(facts), _clients(facts), *_application(facts)]


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
    policies = facts.policies
    if policies - ONLINE:
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
    if not facts.seen.members:
        message = "The group has no members: the first one that joins decides its protocol."
        return Check("assignments", CheckVerdict.PASS, message)
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


def _assignor(facts: ConversionFacts) -> list[Check]:
    """Names the assignor that the broker will use, as far as brokers show it."""
    names, setting = facts.defaults, ASSIGNORS_LISTED[facts.protocol]
    if not names:
        return []
    if len(names) > 1:
        message = f"The first of {setting} differs between brokers: {listed(sorted(names))}."
        remedy = "Give all brokers the same list, or the assignment changes with the group's coordinator node."
        return [Check("assignor", CheckVerdict.WARN, message, remedy)]
    chosen = {"consumer": "its members name (group.remote.assignor)", "streams": "its streams.assignor.name is"}
    message = (
        f"The broker assigns by {next(iter(names))}, the first of {setting}, unless {chosen[facts.protocol]} another."
    )
    return [Check("assignor", CheckVerdict.PASS, message)]


def _application(facts: ConversionFacts) -> list[Check]:
    """Names what keeps an application from starting with the protocol."""
    if facts.protocol != "streams":
        return []
    if facts.patterns:
        message = "Its topology subscribes to topics by a pattern, with which Kafka Streams does not start."
        return [Check("application", CheckVerdict.FAIL, message, "Name the topics, or keep group.protocol=classic.")]
    if names := sorted(m.instance_id for m in facts.seen.members if m.instance_id):
        message = (
            f"Members have a group.instance.id ({listed(names)}), with which Kafka Streams starts from 4.4 on only."
        )
        return [
            Check("application", CheckVerdict.WARN, message, "Upgrade the application first, or remove the setting.")
        ]
    return []


def _steps(facts: ConversionFacts) -> tuple[str, ...]:
    if not facts.convertible or (facts.converted and not facts.seen.classic_members):
        return ()
    group = for_shell(facts.seen.group_id)
    then = f"See the result: bellwether observe {group}. Bellwether goes on observing lag, racks and costs."
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
