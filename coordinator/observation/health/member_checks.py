"""Checks what members send: their bytes, the topics they subscribe to, their versions and racks."""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from bellwether_kafka.coordinator.membership import STREAMS_PROTOCOL
from bellwether_kafka.coordinator.names import for_sentence, listed
from bellwether_kafka.coordinator.observation.findings import Fault, Finding, FindingKind, Level, judged
from bellwether_kafka.coordinator.observation.group import group_of
from bellwether_kafka.coordinator.observation.health.doctor_facts import DoctorFacts, has_no_members
from bellwether_kafka.coordinator.observation.message_versions import how_to_name_racks, message_versions
from bellwether_kafka.coordinator.observation.observation import Observation, ObservedMember
from bellwether_kafka.coordinator.planning import RackSource
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import RemoteProtocolError

NAMES_SHOWN = 4
OF_OTHER_CHECKS = (FindingKind.SELF_ASSIGNED, FindingKind.NOT_SEEN)


def member_checks(facts: DoctorFacts) -> list[Finding]:
    """Returns the checks of what members send, and of what they own."""
    return [
        *_shown(facts),
        *_findings(facts),
        *_versions(facts),
        _racks(facts),
    ]


def _shown(facts: DoctorFacts) -> list[Finding]:
    """Checks that the members' bytes can be read and that Bellwether may describe their topics."""
    if has_no_members(facts):
        return []
    members = judged("members", _unreadable(facts.seen), "Every member's bytes can be read.")
    hidden = _hidden(facts.seen)
    if hidden:
        topics = ", ".join(f"Topic {t!r}" for t in hidden[:NAMES_SHOWN])
        remedy = f"Grant Bellwether's principal the ACL DESCRIBE on {topics}."
        return [members, Finding("topic ACLs", Level.FAIL, f"Bellwether may not see {listed(hidden)}.", remedy)]
    return [members, Finding("topic ACLs", Level.PASS, "Bellwether sees every topic that members subscribe to.")]


def _unreadable(seen: Observation) -> Iterator[Fault]:
    """Yields who sends bytes that Bellwether cannot read, and who sends such as only a Java leader cannot."""
    broken = [m.member_id for m in seen.members if m.trouble]
    if broken:
        message = f"The bytes of {listed(broken)} cannot be read."
        remedy = (
            "They would keep their partitions; check the bytes with bellwether debug decode, and the versions of those"
            " clients."
        )
        yield Fault(Level.WARN, message, remedy)
    raw = seen.shadow.decision.raw.others if seen.shadow is not None else ()
    short = [m.member_id for m in raw if m.member_id not in broken and not _java_reads(m.metadata)]
    if short:
        message = (
            f"The subscriptions of {listed(short)} end before a field of their version: a Java leader fails on it."
        )
        yield Fault(Level.WARN, message, "Upgrade those clients, and keep Java members from the lead until then.")


def _java_reads(metadata: bytes) -> bool:
    try:
        ConsumerProtocolSubscription.decode(metadata, as_java=True)
    except RemoteProtocolError:
        return False
    return True


def _hidden(seen: Observation) -> list[str]:
    if seen.shadow is not None:
        return sorted(seen.shadow.decision.cluster.unreadable)
    subscribed = {topic for member in seen.members for topic in member.topics}
    return sorted(subscribed - set(seen.lags)) if seen.lags or seen.trouble else []


def _findings(facts: DoctorFacts) -> list[Finding]:
    """Returns what every face shows of the group, at most as warnings: nothing of it prevents Bellwether from leading.
    Consumers that assign themselves have a check of their own, and `group` says why a group was not described."""
    shown = (each for each in group_of(facts.seen).findings if each.kind not in OF_OTHER_CHECKS)
    return [replace(each, level=Level.WARN) if each.level is Level.FAIL else each for each in shown]


def _versions(facts: DoctorFacts) -> list[Finding]:
    """Checks the versions of the members' messages, if their bytes are known."""
    if facts.seen.shadow is None:
        return []
    streams = facts.seen.protocol == STREAMS_PROTOCOL
    versions = message_versions(facts.seen.shadow.decision.raw.others, streams=streams)
    if versions is None:
        return []
    return [Finding("versions", Level.WARN if versions.remedy else Level.PASS, versions.message, versions.remedy)]


def _racks(facts: DoctorFacts) -> Finding:
    brokers = {rack for rack in facts.broker_racks if rack}
    members = [m for m in facts.seen.members if m.topics]
    wrong = [*_racks_of_brokers(facts, brokers), *(_racks_of_members(facts, members, brokers) if brokers else ())]
    if has_no_members(facts) and not wrong:
        message = f"No member is there to name a rack; the brokers are in {', '.join(sorted(brokers))}."
        return Finding("racks", Level.NOT_APPLICABLE, message)
    leader_only = sum(m.leader_only for m in members)
    also = f" {leader_only} of {len(members)} members send none and read from leaders only." if leader_only else ""
    passed = f"Brokers and members agree on {', '.join(sorted(brokers))}.{also}"
    return judged("racks", wrong, passed, tuple(map(_rack_line, members)) if brokers else ())


def _racks_of_brokers(facts: DoctorFacts, racks: AbstractSet[str]) -> Iterator[Fault]:
    if not racks:
        yield Fault(Level.WARN, "No broker has a rack.", "Set broker.rack, or expect no rack awareness.")
    elif not all(facts.broker_racks):
        yield Fault(Level.WARN, "Some brokers have no rack.", "Set broker.rack on all of them.")


def _racks_of_members(
    facts: DoctorFacts, members: Sequence[ObservedMember], brokers: AbstractSet[str]
) -> Iterator[Fault]:
    foreign = sorted({m.rack for m in members if m.rack and m.rack not in brokers})
    if foreign:
        configured = any(m.rack_source is not RackSource.MEMBER for m in members if m.rack in foreign)
        setting = "client.rack, and each rack in [racks]," if configured else "client.rack"
        remedy = f"{setting} must be spelled as broker.rack is: {', '.join(sorted(brokers))}."
        yield Fault(Level.FAIL, f"Members name racks without a broker: {listed(foreign)}.", remedy)
    rackless = [m for m in members if not m.rack]
    if rackless:
        names = listed([m.client_id or m.member_id for m in rackless])
        some = len(rackless) < len(members)
        message = f"{names} name no rack while others do." if some else "No member names a rack."
        yield Fault(Level.WARN, message, how_to_name_racks(facts.seen))


def _rack_line(member: ObservedMember) -> str:
    """Returns the member's rack, and where it comes from."""
    name = member.client_id or member.member_id
    return f"{name}: {for_sentence(member.rack)} ({member.rack_source})" if member.rack else f"{name}: no rack"
