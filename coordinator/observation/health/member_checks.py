"""Checks what members send (their bytes, the topics they subscribe to, their versions and racks), and of Kafka Streams
applications the proof that a process is dead, and topologies."""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.assignors.streams.application import required_counts
from bellwether_kafka.coordinator.ghosts import process_of
from bellwether_kafka.coordinator.membership import STREAMS_PROTOCOL
from bellwether_kafka.coordinator.names import for_sentence, listed
from bellwether_kafka.coordinator.observation import adoption_steps
from bellwether_kafka.coordinator.observation.findings import Fault, Finding, FindingKind, Level, judged
from bellwether_kafka.coordinator.observation.group import group_of
from bellwether_kafka.coordinator.observation.health.doctor_facts import DoctorFacts, has_no_members, sentence
from bellwether_kafka.coordinator.observation.message_versions import how_to_name_racks, message_versions
from bellwether_kafka.coordinator.observation.observation import Observation, ObservedMember
from bellwether_kafka.coordinator.planning import RackSource
from bellwether_kafka.coordinator.topology import Mixture, sentences, upgrade
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


_EQUALLY_MANY = "Give these topics the same number of partitions, because the application joins them."
_COMPARE_FILES = "Compare the files of both versions: bellwether topology diff OLD NEW."


def application_checks(facts: DoctorFacts) -> list[Finding]:
    """Returns the checks of an application; those of topologies also without members."""
    return [
        *_ghosts(facts),
        *_guarantee(facts),
        *_topology(facts),
        *_sources(facts),
        *_upgrade(facts),
    ]


def _ghosts(facts: DoctorFacts) -> list[Finding]:
    """Checks, for an application, whether the death of a restarted process can be proven, and the consequences. Where
    its broker assigns, no ghosts are removed, and no rebalance waits for them."""
    seen = facts.seen
    if seen.protocol != STREAMS_PROTOCOL or seen.kind == "streams":
        return []
    return [*_proofs(facts), *_waits(facts)]


def _guarantee(facts: DoctorFacts) -> list[Finding]:
    """Compares the declared guarantee with the transactional ids of the application's processes. Bellwether may not be
    allowed to see any, so that there are none shows nothing."""
    seen, streams = facts.seen, facts.streams
    if seen.protocol != STREAMS_PROTOCOL:
        return []
    application = streams.application_id if streams is not None else seen.group_id
    prefixes = tuple(f"{application}-{process}-" for process in set(adoption_steps.processes(seen).values()))
    used = sorted(name for name in facts.transactional_ids if name.startswith(prefixes))
    if not used:
        return []
    if streams is not None and streams.exactly_once:
        return [Finding("guarantee", Level.PASS, "The application writes transactions, as the settings say.")]
    message = (
        f"The application writes transactions ({used[0]}), and the settings do not say so: a thread that a take-over"
        " removes would lose the state of its tasks."
    )
    verdict = Level.FAIL if facts.mode == "lead" else Level.WARN
    remedy = 'Set "processing.guarantee" = "exactly_once_v2" for the group.'
    return [Finding("guarantee", verdict, message, remedy)]


def _waits(facts: DoctorFacts) -> list[Finding]:
    """Checks, under exactly-once, whether rebalances may wait for ghosts. Streams commits nothing during a rebalance;
    one that outlasts the transaction timeout aborts the transactions of all instances
    (docs/internals/client-quirks.md#java-streams-threads). Brokers do not show the members' session timeouts."""
    if facts.streams is None or not facts.streams.exactly_once:
        return []
    if facts.ghosts is not None and facts.ghosts.remove:
        return [Finding("exactly once", Level.PASS, "Rebalances do not wait for ghosts whose death can be proven.")]
    message = (
        "No process removes ghosts, so a rebalance waits for a restarted instance's session (session.timeout.ms, 45 s"
        " unless set). After transaction.timeout.ms (10 s) the transactions of all instances are aborted, and each"
        " restores its state."
    )
    removing = "Remove ghosts = false" if facts.mode == "lead" else 'Set mode = "assist"'
    remedy = f"{removing} for the group, or run its instances under bellwether guard."
    return [Finding("exactly once", Level.WARN, message, remedy)]


def _proofs(facts: DoctorFacts) -> list[Finding]:
    seen = facts.seen
    named = [m for m in seen.members if m.instance_id is None and m.topics and m.client_id]
    odd = sorted({m.client_id for m in named if process_of(m.client_id, seen.group_id) is None})
    attested = facts.ghosts is not None and facts.ghosts.client_ids_unique
    if odd and not attested:
        message = f"The application sets client.id ({listed(odd)}), so that its ghosts cannot be proven."
        with_mode = 'mode = "assist" and ' if facts.mode == "observe" else ""
        remedy = (
            "Run its instances under bellwether guard, empty each before a restart (bellwether evacuate), or set"
            f" {with_mode}client_ids_unique = true if no two live members on a host share a client id."
        )
        return [Finding("ghosts", Level.WARN, message, remedy)]
    return [Finding("ghosts", Level.PASS, "Ghosts of restarted processes can be proven.")]


def _topology(facts: DoctorFacts) -> list[Finding]:
    """Checks where an application's topology comes from, and whether it is attested. A plan needs a topology."""
    origin, config = _topology_in_words(facts), facts.streams
    if not origin:
        return _nothing_to_learn_from(facts)
    message = f"{origin}, "
    if config is None or config.topology is None:
        remedy = "Save it: bellwether topology learn writes it into a file for the setting topology."
        return [Finding("topology", Level.WARN, f"{message}learned from the running application.", remedy)]
    if not config.topology_attested:
        remedy = (
            "Set topology_attested = true where the file is deployed with the application; else a Java member leads"
            " after restarts."
        )
        return [Finding("topology", Level.WARN, f"{message}from a file that is not attested.", remedy)]
    return [Finding("topology", Level.PASS, f"{message}from a file, and attested.")]


def _topology_in_words(facts: DoctorFacts) -> str:
    """Describes the topology of the plan, or that of the configured file; "" if there is none."""
    decision = facts.seen.shadow.decision if facts.seen.shadow is not None else None
    if decision is not None:
        return decision.plan.application if facts.seen.protocol == STREAMS_PROTOCOL else ""
    return facts.topology.summary if facts.topology is not None else ""


def _nothing_to_learn_from(facts: DoctorFacts) -> list[Finding]:
    """Warns if an application that has no members has no topology file either."""
    streams = facts.streams
    if streams is None or streams.stateful or not has_no_members(facts) or facts.seen.kind == "unknown":
        return []
    message = "No topology file is set, and no instance runs to learn it from: a Java member leads first."
    remedy = "To lead from the first start, let the application export its topology, and set topology to the file."
    return [Finding("topology", Level.WARN, message, remedy)]


def _sources(facts: DoctorFacts) -> list[Finding]:
    """Checks the source topics in the topology file of an application without members: no instance starts without
    them."""
    if facts.topology is None or facts.topic_counts is None or not has_no_members(facts):
        return []
    sources = required_counts(facts.topology, facts.topic_counts)
    wrong = []
    if sources.conflicts:
        wrong.append(Fault(Level.FAIL, sentence("; ".join(sources.conflicts)), _EQUALLY_MANY))
    if sources.missing:
        message = f"Topics that the topology names as sources and Bellwether does not see: {listed(sources.missing)}."
        remedy = "Create them before the application starts, or grant Bellwether's principal the ACL DESCRIBE on them."
        wrong.append(Fault(Level.WARN, message, remedy))
    if sources.unchecked:
        wrong.append(Fault(Level.WARN, sentence("; ".join(sources.unchecked)), _EQUALLY_MANY))
    return [judged("source topics", wrong, "All topics that the topology names as sources exist.")]


def _upgrade(facts: DoctorFacts) -> list[Finding]:
    """Checks what a rolling upgrade to the topology of a new file would do."""
    plan = facts.seen.shadow.decision.plan if facts.seen.shadow is not None else None
    if facts.new_topology is None:
        return []
    if not isinstance(plan, TaskPlan):
        return [Finding("upgrade", Level.WARN, "Not checked: the present topology is not known.", _COMPARE_FILES)]
    difference = upgrade(plan.topology, facts.new_topology)
    message = f"To the new topology: {'; '.join(sentences(difference))}."
    attested = facts.streams is not None and facts.streams.topology_attested
    if difference.mixture is Mixture.NOTHING_DIFFERS or (difference.mixture is Mixture.STORES and attested):
        return [Finding("upgrade", Level.PASS, f"{message} {difference.rolling}")]
    return [
        Finding(
            "upgrade",
            Level.FAIL if difference.mixture is Mixture.NUMBERS else Level.WARN,
            message,
            difference.rolling,
        )
    ]
