"""The checks of a conversion: what prevents it, what it changes for members, and whether there is a way back. Pure."""

from collections.abc import Iterator

from bellwether_kafka.coordinator.assessment.broker_faults import FROM_CONSUMER, TO_STREAMS, dotted, faults_of
from bellwether_kafka.coordinator.assessment.conversion_facts import (
    ASSIGNORS_LISTED,
    MIGRATION_POLICY,
    ONLINE,
    SIZES_MAX,
    ConversionFacts,
)
from bellwether_kafka.coordinator.names import listed
from bellwether_kafka.coordinator.observation import Fault, Finding, Level, judged

BROKERS_FROM = {"consumer": (4, 0), "streams": (4, 2)}  # from where on the protocol is ready for production
FEATURES = {"consumer": "group.version", "streams": "streams.version"}  # brokers refuse the protocol at level 0
SESSIONS = {"consumer": "group.consumer.session.timeout.ms", "streams": "group.streams.session.timeout.ms"}
STOP_FIRST = "Stop all members first, and start them with the protocol."
GRANT = "Grant Bellwether's principal the ACL DESCRIBE_CONFIGS on the cluster."


def conversion_checks(facts: ConversionFacts) -> list[Finding]:
    if not facts.convertible:
        message = facts.seen.trouble or f"It is {facts.seen.kind}, and only a classic group can be converted."
        return [Finding("group", Level.FAIL, message, "See `bellwether doctor` for this group.")]
    if facts.converted:
        return [_converted(facts), *_static_members(facts), *_way_back(facts)]
    running = [_migration(facts), _assignments(facts)] if facts.protocol == "consumer" else []
    return [
        _brokers(facts),
        _features(facts),
        *running,
        *_size(facts),
        *_assignor(facts),
        _clients(facts),
        *_static_members(facts),
        *_application(facts),
        *_way_back(facts),
    ]


def _converted(facts: ConversionFacts) -> Finding:
    message = f"It has the protocol {facts.protocol}: its broker assigns."
    seen = facts.seen
    if not seen.classic_members:
        return Finding("group", Level.PASS, message)
    names = sorted(m.instance_id or m.client_id for m in seen.members if m.member_id in seen.classic_members)
    left = f"{len(names)} of {len(seen.members)} members have the classic protocol ({listed(names)})."
    return Finding("group", Level.WARN, f"{message} But {left}", "Restart these, or go the way back.")


def _brokers(facts: ConversionFacts) -> Finding:
    release, wanted = dotted(facts.broker_version), dotted(BROKERS_FROM[facts.protocol])
    if not facts.broker_version:
        return Finding("brokers", Level.WARN, "The brokers' version is not known.", "Ask again.")
    if facts.broker_version < BROKERS_FROM[facts.protocol]:
        message = (
            f"The oldest broker that answered is of Kafka {release}; the protocol {facts.protocol} needs {wanted}."
        )
        return Finding("brokers", Level.FAIL, message, "Upgrade the brokers first.")
    message = f"The oldest broker that answered is of Kafka {release}; all have to be of {wanted} or newer."
    return judged(
        "brokers", faults_of(facts.broker_version, TO_STREAMS if facts.protocol == "streams" else ()), message
    )


def _features(facts: ConversionFacts) -> Finding:
    """Checks the level of the feature with which brokers offer the protocol. A cluster that was upgraded, and not
    formatted anew, keeps level 0 until somebody raises it; members then end with UNSUPPORTED_VERSION."""
    feature = FEATURES[facts.protocol]
    if facts.features is None:
        message = f"Whether the cluster's feature {feature} is finalized at level 1 or higher is not known."
        return Finding("features", Level.WARN, message, "See it: kafka-features.sh describe.")
    level = facts.features.get(feature, 0)
    if level < 1:
        message = (
            f"The cluster's feature {feature} is finalized at level 0: brokers refuse members with"
            f" group.protocol={facts.protocol} (UNSUPPORTED_VERSION)."
        )
        return Finding("features", Level.FAIL, message, f"Run kafka-features.sh upgrade --feature {feature}=1.")
    return Finding("features", Level.PASS, f"The cluster's feature {feature} is finalized at level {level}.")


def _migration(facts: ConversionFacts) -> Finding:
    policies, wrong = facts.policies, []
    if policies - ONLINE:
        message = f"{MIGRATION_POLICY} is {', '.join(sorted(policies))}: a member with the new protocol is refused."
        wrong.append(Fault(Level.WARN, message, "Set it to bidirectional, or stop all members first."))
    if not policies or any(not isinstance(setting, str) for setting in facts.migration.values()):
        message = f"Whether all brokers convert a running group ({MIGRATION_POLICY}) is not known."
        wrong.append(Fault(Level.WARN, message, f"{GRANT} The default is bidirectional."))
    back = "and back" if policies == {"bidirectional"} else "and not back"
    return judged("migration", wrong, f"Brokers convert a running group, {back}.")


def _assignments(facts: ConversionFacts) -> Finding:
    wrong = []
    if facts.blocked:
        message = 'Bellwether blocks the conversion: online_conversion = "block".'
        wrong.append(Fault(Level.FAIL, message, 'Set "allow" and let one rebalance pass.'))
    if facts.obstacles:
        message = f"The broker would refuse it: {'; '.join(facts.obstacles)}."
        wrong.append(Fault(Level.FAIL, message, STOP_FIRST))
    if facts.seen.members and facts.obstacles is None:
        wrong.append(Fault(Level.WARN, "The group is not stable.", "Ask again when it is."))
    if not facts.seen.members:
        return judged("assignments", wrong, "The group has no members: the first one that joins decides its protocol.")
    return judged("assignments", wrong, "No assignment prevents it.")


def _size(facts: ConversionFacts) -> list[Finding]:
    """Checks that the brokers' limit of members for the protocol, which differs from that of classic groups, has room
    for all of them."""
    size, most, setting = len(facts.seen.members), facts.members_max(facts.protocol), SIZES_MAX[facts.protocol]
    if most is None or size <= most:
        return []
    message = (
        f"The group has {size} members, and {setting} is {most}: brokers refuse the conversion, or its last members."
    )
    return [Finding("group size", Level.FAIL, message, f"Raise {setting} to more than {size} on all brokers.")]


def _clients(facts: ConversionFacts) -> Finding:
    message = f"Which clients have the protocol {facts.protocol} does not show in a classic group."
    remedy = {
        "consumer": "Java has it since 4.0. Remove session.timeout.ms, heartbeat.interval.ms and"
        " partition.assignment.strategy from the members' settings: with the protocol the brokers have these. Brokers"
        " match a pattern by RE2/J over the whole name, so ^topic finds nothing but topic: write ^topic.*",
        "streams": "Kafka Streams has it since 4.2. Set num.standby.replicas for the group at the brokers"
        " (streams.num.standby.replicas); racks, warm-ups and assignors of the application no longer count.",
    }
    return Finding("clients", Level.WARN, message, remedy[facts.protocol])


def _static_members(facts: ConversionFacts) -> list[Finding]:
    """Warns of what a crash costs static members: in the classic protocol the successor replaces the member at once."""
    names = facts.static_members
    if not names:
        return []
    session = SESSIONS[facts.protocol]
    message = (
        f"Members have a group.instance.id ({listed(names)}). With group.protocol={facts.protocol} the successor of one"
        f" that crashed is refused (UNRELEASED_INSTANCE_ID) until the old one's session ends ({session}, 45 s unless"
        " set); in the classic protocol it takes over at once."
    )
    remedy = (
        "Let members close before they are stopped, let clients start again until they are taken, or shorten"
        f" {session}."
    )
    return [Finding("static members", Level.WARN, message, remedy)]


def _assignor(facts: ConversionFacts) -> list[Finding]:
    """Names the assignor that the broker will use, as far as brokers show it."""
    names, setting = facts.defaults, ASSIGNORS_LISTED[facts.protocol]
    if not names:
        return []
    if len(names) > 1:
        message = f"The first of {setting} differs between brokers: {listed(sorted(names))}."
        remedy = "Give all brokers the same list, or the assignment changes with the group's coordinator node."
        return [Finding("assignor", Level.WARN, message, remedy)]
    chosen = {"consumer": "its members name (group.remote.assignor)", "streams": "its streams.assignor.name is"}
    message = (
        f"The broker assigns by {next(iter(names))}, the first of {setting}, unless {chosen[facts.protocol]} another."
    )
    return [Finding("assignor", Level.PASS, message)]


def _application(facts: ConversionFacts) -> list[Finding]:
    """Names what keeps an application from starting with the protocol."""
    if facts.protocol != "streams":
        return []
    wrong = []
    if facts.patterns:
        message = "Its topology subscribes to topics by a pattern, with which Kafka Streams does not start."
        wrong.append(Fault(Level.FAIL, message, "Name the topics, or keep group.protocol=classic."))
    if names := facts.static_members:
        message = (
            f"Members have a group.instance.id ({listed(names)}), with which Kafka Streams starts from 4.4 on only,"
            " at brokers of 4.4 or newer."
        )
        wrong.append(Fault(Level.WARN, message, "Upgrade both first, or remove the setting."))
    return [judged("application", wrong, "")] if wrong else []


def _way_back(facts: ConversionFacts) -> list[Finding]:
    """Warns of what stands in the way back to the classic protocol, which nobody should learn when it is needed."""
    wrong = list(_faults_of_the_way_back(facts))
    return [judged("way back", wrong, "")] if wrong else []


def _faults_of_the_way_back(facts: ConversionFacts) -> Iterator[Fault]:
    size, most, setting = len(facts.seen.members), facts.members_max("classic"), SIZES_MAX["classic"]
    if most is not None and size > most:
        message = f"The group has {size} members, and {setting} is {most}: brokers refuse the way back to classic."
        yield Fault(Level.WARN, message, f"Raise {setting} to more than {size} on all brokers.")
    if facts.protocol == "consumer":
        yield from faults_of(facts.broker_version, FROM_CONSUMER)
