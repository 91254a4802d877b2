"""Checks of Kafka Streams applications: the proof that a process is dead, and topologies."""

from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.assignors.streams.application import required_counts
from bellwether_kafka.coordinator.ghosts import process_of
from bellwether_kafka.coordinator.membership import STREAMS_PROTOCOL
from bellwether_kafka.coordinator.names import listed
from bellwether_kafka.coordinator.observation import adoption_steps
from bellwether_kafka.coordinator.observation.findings import Fault, Finding, Level, judged
from bellwether_kafka.coordinator.observation.health.doctor_facts import DoctorFacts, has_no_members, sentence
from bellwether_kafka.coordinator.topology import Mixture, sentences, upgrade

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
