"""The checks of `bellwether doctor`, made from facts about a group, its cluster and the settings. Pure.

Each check passes, warns or fails, and warnings and failures have a remedy. Checks for leaders are not applicable if no
client can lead the group; checks of members are not applicable if there are none.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from enum import StrEnum

from bellwether_kafka.assignors.consumer import OF_ANY_PROTOCOL, Policy
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.assignors.streams.application import Topology, required_counts
from bellwether_kafka.coordinator.ghosts import GhostOptions, process_of
from bellwether_kafka.coordinator.kafka import SettingOfBroker
from bellwether_kafka.coordinator.membership import (
    NOT_READ,
    PROVEN_FROM,
    STREAMS_PROTOCOL,
    STREAMS_SESSION_MS_MAX,
    STREAMS_SESSION_MS_MIN,
    Code,
    GroupState,
    MembershipConfig,
    NotLeading,
    SizeLimit,
    check_timing,
    name_of,
)
from bellwether_kafka.coordinator.names import for_toml
from bellwether_kafka.coordinator.observation import adoption_steps
from bellwether_kafka.coordinator.observation.anomalies import AnomalyKind
from bellwether_kafka.coordinator.observation.observation import Observation, ObservedMember
from bellwether_kafka.coordinator.observation.removals import removals
from bellwether_kafka.coordinator.observation.self_assigned import SELF_ASSIGNED
from bellwether_kafka.coordinator.observation.spoken_versions import how_to_name_racks, spoken_versions
from bellwether_kafka.coordinator.planning import RackSource, StreamsConfig, listed
from bellwether_kafka.coordinator.topology import Mixture, sentences, upgrade
from bellwether_kafka.protocol import messages

NAMES_SHOWN = 4
_EQUALLY_MANY = "Give these topics the same number of partitions, because the application joins them."
_COMPARE_FILES = "Compare the files of both versions: bellwether topology diff OLD NEW."
BY_KAFKA = Policy()
# The answers to a heartbeat of a member that does not exist which show that Bellwether may use the group.
ALLOWED = frozenset(
    {Code.NONE, Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION, Code.REBALANCE_IN_PROGRESS, Code.GROUP_ID_NOT_FOUND}
)
BROKER_CONFIGS = "group.min.session.timeout.ms", "group.max.session.timeout.ms"
SESSION_MIN, SESSION_MAX = BROKER_CONFIGS
SIZE_MAX = "group.max.size"
OF_LEADERS = (
    *("group ACL", "protocols", "instance id", "session timeout", "group size", "broker version"),
    *("adoption", "versions", "topology", "plan", "not visible", "removals"),
)


# Groups with these protocols can be led only with the setting kind.
PLUG_IN = "bellwether"  # how the names of the assignors of deploy/broker-assignor begin
KIND_OF_PROTOCOL = {STREAMS_PROTOCOL: "streams", messages.PROTOCOL: "stateful"}


class CheckVerdict(StrEnum):
    NOT_APPLICABLE = "n/a"
    PASS = "pass"  # noqa: S105 - not a password
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """One check. `message` is the finding; `remedy` is what to do, "" if nothing; `details` has a line for each
    member, if members differ."""

    name: str
    verdict: CheckVerdict
    message: str
    remedy: str = ""
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DoctorFacts:
    """The facts that the checks use.

    `heartbeat_error` is the broker's answer to a heartbeat of a member that does not exist: it shows whether Bellwether
    may use the group, without disturbing any member. `limits` are broker configs, empty if they cannot be read.
    `broker_version` is () if unknown. `streams` are the settings of an application, `policy` that of plain consumers.
    `ghosts` are the settings of their removal, None if none are removed. `topology` is from the configured file.
    `topic_counts` are the partition counts of all topics, read if there is a file but no members, else None.
    `assignors` are group.consumer.assignors of each broker, read if the group's broker assigns.
    """

    seen: Observation
    config: MembershipConfig
    mode: str
    heartbeat_error: int
    broker_racks: Sequence[str | None]
    limits: dict[str, int]
    broker_version: tuple[int, ...] = ()
    streams: StreamsConfig | None = None
    ghosts: GhostOptions | None = None
    size_limit: SizeLimit = NOT_READ
    topology: Topology | None = None
    new_topology: Topology | None = None
    topic_counts: Mapping[str, int] | None = None
    policy: Policy = BY_KAFKA
    assignors: Mapping[int, SettingOfBroker] = field(default_factory=dict)


def examine(facts: DoctorFacts) -> tuple[Check, ...]:
    """Returns all checks, in the order in which to fix them."""
    checks = [
        _kind(facts),
        *_without_members(facts),
        _permission(facts),
        _protocol(facts),
        _slot(facts),
        _session(facts),
        _size(facts),
    ]
    checks += [_brokers(facts), *_assignor(facts), *_shown(facts), *_anomalies(facts), *_versions(facts), _racks(facts)]
    checks += [
        *_takeover(facts),
        *_adoption(facts),
        *_removals(facts),
        *_ghosts(facts),
        *_topology(facts),
        *_sources(facts),
    ]
    checks += _upgrade(facts)
    checks += [_plan(facts), _unseen(facts)]
    if facts.seen.kind in ("classic", "missing", "unknown"):
        return tuple(checks)
    return tuple(_meaningless(check) if check.name in OF_LEADERS else check for check in checks)


def _meaningless(check: Check) -> Check:
    return Check(check.name, CheckVerdict.NOT_APPLICABLE, "No client can lead this group.")


def worst(checks: Iterable[Check]) -> CheckVerdict:
    order = list(CheckVerdict)
    return max((check.verdict for check in checks), key=order.index, default=CheckVerdict.PASS)


def _kind(facts: DoctorFacts) -> Check:
    seen = facts.seen
    if seen.kind == "unknown":
        remedy = "Grant it." if "grant" in seen.trouble else "Ask again when the broker answers."
        return Check("group", CheckVerdict.WARN, f"Not checked: {seen.trouble}.", remedy)
    if seen.kind == "missing":
        message = f"The group {seen.group_id} does not exist yet."
        return Check(
            "group", CheckVerdict.WARN, message, "Nothing, if the application has not started; else check the name."
        )
    if seen.obstacle and seen.kind in ("consumer", "streams"):
        remedy = "Observe it only; to lead it, set the clients' group.protocol to classic."
        return Check("group", CheckVerdict.FAIL, _sentence(seen.obstacle), remedy)
    if seen.kind == "other":
        message = _sentence(seen.obstacle or "it is no group of consumers")
        return Check("group", CheckVerdict.FAIL, message, "Name another group.")
    members = f"{len(seen.members)} member{'s' * (len(seen.members) != 1)}"
    led = ", led by Bellwether" * bool(seen.bellwether_members)
    return Check("group", CheckVerdict.PASS, f"A classic group, {seen.state or 'Empty'}, with {members}{led}.")


def _without_members(facts: DoctorFacts) -> list[Check]:
    """Checks an empty group: its consumers may commit without being members (docs/guides/adoption.md)."""
    seen = facts.seen
    if seen.self_assigned:
        return [_self_assigned(facts)]
    if seen.kind != "classic" or seen.state != GroupState.EMPTY or facts.config.subscribes:
        return []
    message = (
        "No member is in the group. Consumers that assign themselves partitions (assign()) could not commit beside a"
        " member, so Bellwether stays out until members have joined."
    )
    remedy = 'If all its consumers subscribe, set mode = "lead" and subscribes = true; else keep mode = "observe".'
    return [Check("subscribes", CheckVerdict.WARN, message, remedy)]


def _self_assigned(facts: DoctorFacts) -> Check:
    """Fails if mode is "lead": once the group has a member, the broker refuses these consumers' commits."""
    message = f"{_sentence(SELF_ASSIGNED)} Beside a member, Bellwether included, the broker would refuse these commits."
    verdict = CheckVerdict.FAIL if facts.mode == "lead" else CheckVerdict.WARN
    return Check("subscribes", verdict, message, 'Keep mode = "observe" for this group.')


def _permission(facts: DoctorFacts) -> Check:
    if facts.heartbeat_error == Code.GROUP_AUTHORIZATION_FAILED:
        remedy = f"Grant Bellwether's principal the ACL READ on Group '{facts.seen.group_id}'."
        verdict = CheckVerdict.WARN if facts.mode == "observe" else CheckVerdict.FAIL
        return Check("group ACL", verdict, "Bellwether may not join the group.", remedy)
    if facts.heartbeat_error not in ALLOWED:
        why = name_of(facts.heartbeat_error)
        message = f"Not checked whether Bellwether may join: its coordinator node answers {why}."
        return Check("group ACL", CheckVerdict.WARN, message, "Ask again when the broker answers.")
    return Check("group ACL", CheckVerdict.PASS, "Bellwether may join the group and lead it.")


def _protocol(facts: DoctorFacts) -> Check:
    name, offered = facts.seen.protocol, facts.config.protocols
    if not name:
        return Check(
            "protocols", CheckVerdict.PASS, f"No member uses a protocol yet; Bellwether offers {', '.join(offered)}."
        )
    if name not in offered:
        message = f"The members use {name}, and Bellwether would offer {', '.join(offered)}."
        return Check("protocols", CheckVerdict.FAIL, message, _way_to(facts, name))
    if facts.streams is None and not facts.policy.leads(name):
        message = f"The members use {name}, for which the policy {facts.policy.name} has no assignor."
        return Check("protocols", CheckVerdict.FAIL, message, _way_to(facts, name))
    return Check("protocols", CheckVerdict.PASS, f"The members use {name}, which Bellwether offers.")


def _way_to(facts: DoctorFacts, protocol: str) -> str:
    """Returns the settings with which Bellwether can lead a group that uses this protocol."""
    kind = KIND_OF_PROTOCOL.get(protocol)
    if kind is not None:
        return f'Set kind = "{kind}" for the group, and remove protocols if it is set.'
    if facts.streams is not None:
        return 'Its members are plain consumers: set kind = "consumer", and remove what is only for applications.'
    listed_ = ", ".join(map(for_toml, dict.fromkeys((protocol, *facts.config.protocols))))
    if facts.policy.leads(protocol):
        return f"Set protocols = [{listed_}] for the group."
    policies = " or ".join(map(for_toml, OF_ANY_PROTOCOL))
    return f"Set protocols = [{listed_}] and policy = {policies} for the group, which lead under any protocol."


def _slot(facts: DoctorFacts) -> Check:
    instance = facts.config.instance_id
    same_id = [m for m in facts.seen.members if instance is not None and m.instance_id == instance]
    if instance is None:
        remedy = "Set instance_id: a restart of Bellwether then costs no rebalance."
        return Check("instance id", CheckVerdict.WARN, "Bellwether joins without a group.instance.id.", remedy)
    if same_id:
        remedy = "Set another instance_id: joining under this one would fence the member."
        message = f"The application's member {same_id[0].member_id} has Bellwether's group.instance.id '{instance}'."
        return Check("instance id", CheckVerdict.FAIL, message, remedy)
    who = "Bellwether" if facts.seen.bellwether_members else "no member"
    return Check("instance id", CheckVerdict.PASS, f"'{instance}' is used by {who}.")


def _session(facts: DoctorFacts) -> Check:
    session, low, high = facts.config.session_timeout_ms, facts.limits.get(SESSION_MIN), facts.limits.get(SESSION_MAX)
    wrong = check_timing(facts.config)
    if wrong is not None:
        return Check(
            "session timeout", CheckVerdict.FAIL, wrong, "Correct these settings: bellwether run refuses them."
        )
    if low is None or high is None:
        remedy = (
            "Grant DESCRIBE_CONFIGS on the cluster: without it only a join shows whether the broker allows the value."
        )
        return Check("session timeout", CheckVerdict.WARN, "The brokers' limits cannot be read.", remedy)
    if not low <= session <= high:
        message = f"session_timeout_ms is {session}, and the brokers allow {low} to {high}."
        return Check(
            "session timeout", CheckVerdict.FAIL, message, _session_remedy(facts, max(low, min(session, high)))
        )
    return Check("session timeout", CheckVerdict.PASS, f"{session} ms is within the brokers' {low} to {high}.")


def _session_remedy(facts: DoctorFacts, nearest: int) -> str:
    """Suggests the nearest value that brokers allow, or a change of the brokers if other settings exclude it."""
    fits = check_timing(replace(facts.config, session_timeout_ms=nearest)) is None
    if fits and (not facts.config.streams or STREAMS_SESSION_MS_MIN <= nearest <= STREAMS_SESSION_MS_MAX):
        leading = "" if facts.mode == "lead" else 'mode = "lead" and '
        return f"Set {leading}session_timeout_ms = {nearest} for the group."
    brokers = SESSION_MIN if nearest > facts.config.session_timeout_ms else SESSION_MAX
    return f"Change {brokers} of the brokers to {facts.config.session_timeout_ms}: other settings need this session."


def _size(facts: DoctorFacts) -> Check:
    most, size = facts.size_limit.members, len(facts.seen.members)
    if facts.seen.bellwether_members:
        return Check("group size", CheckVerdict.PASS, f"Bellwether is in the group, beside {size} members.")
    if most is not None and size >= most:
        message = f"The group has {size} members and {SIZE_MAX} is {most}: there is no room for Bellwether."
        return Check("group size", CheckVerdict.FAIL, message, f"Raise {SIZE_MAX} by one.")
    return Check("group size", CheckVerdict.PASS, f"There is room for Bellwether beside {size} members.")


def _brokers(facts: DoctorFacts) -> Check:
    version = ".".join(map(str, facts.broker_version))
    if facts.broker_version >= PROVEN_FROM:
        return Check("broker version", CheckVerdict.PASS, f"The brokers are of Kafka {version} or newer.")
    message = f"The brokers are of Kafka {version}." if version else "The brokers' version is not known."
    tried = ".".join(map(str, PROVEN_FROM))
    return Check(
        "broker version",
        CheckVerdict.WARN,
        message,
        f"Use Kafka {tried} or newer: on others Bellwether takes no group over.",
    )


def _assignor(facts: DoctorFacts) -> list[Check]:
    """Checks that every broker has the assignor of Bellwether that a group's members name: any of them may become the
    group's coordinator node, and one without it refuses the members."""
    name = facts.seen.protocol
    if facts.seen.kind != "consumer" or not name.startswith(PLUG_IN):
        return []
    policy = name.removeprefix(f"{PLUG_IN}-")  # or the name itself, which stands for the configured policy
    class_name = f"bellwether.broker.{''.join(map(str.capitalize, policy.split('-')))}Assignor"
    lists = {node: setting.split(",") for node, setting in facts.assignors.items() if isinstance(setting, str)}
    without = sorted(node for node, classes in lists.items() if class_name not in map(str.strip, classes))
    if without:
        message = f"The members name {name}, and broker {listed([*map(str, without)])} does not list {class_name}."
        remedy = (
            "Copy the jar to it, add the class to its group.consumer.assignors and restart it; until then have members"
            " name uniform."
        )
        return [Check("assignor", CheckVerdict.FAIL, message, remedy)]
    if len(lists) < len(facts.assignors) or not lists:
        message = f"The members name {name}; whether each broker lists {class_name} is not known."
        remedy = (
            "Grant Bellwether's principal the ACL DESCRIBE_CONFIGS on the cluster, or ask again when all brokers"
            " answer."
        )
        return [Check("assignor", CheckVerdict.WARN, message, remedy)]
    return [Check("assignor", CheckVerdict.PASS, f"The members name {name}, and each broker lists {class_name}.")]


def _takeover(facts: DoctorFacts) -> list[Check]:
    """Checks whether Bellwether may take over an application, without which it cannot regain the lead after an absence.
    Take-overs need a declaration that the application is fit for them."""
    guard = facts.config.takeover_obstacle
    if facts.mode != "lead" or facts.config.adopt != "take-over" or not facts.config.streams:
        return []
    if guard is None:
        return [Check("take-over", CheckVerdict.PASS, "The lead may be taken from a member.")]
    if guard.reason is NotLeading.MEMBER_LEADS:
        return [Check("take-over", CheckVerdict.PASS, _sentence(guard.sentence))]
    if guard.reason is NotLeading.UNDECLARED:
        remedy = "Add the declaration, or restart the instances one after another."
        return [Check("take-over", CheckVerdict.FAIL, _sentence(guard.sentence), remedy)]
    remedy = "Restart the instances one after another: Bellwether leads when the leader's instance is restarted."
    return [Check("take-over", CheckVerdict.WARN, _sentence(guard.sentence), remedy)]


def _adoption(facts: DoctorFacts) -> list[Check]:
    """Lists the steps of an adoption by restarts, for a group whose live leader may not be removed."""
    seen, config = facts.seen, facts.config
    waits = config.adopt == "succeed" or (config.adopt == "take-over" and config.takeover_obstacle is not None)
    if facts.mode != "lead" or not waits or not seen.members:
        return []
    if seen.bellwether_members:
        message = "Bellwether is in the group. A lead that is lost comes back when the leader's instance is restarted."
        return [Check("adoption", CheckVerdict.PASS, message)]
    ordered = " ".join(f"({number}) {step}" for number, step in enumerate(adoption_steps.steps(seen), 1))
    message = f"{adoption_steps.leader(seen)} {adoption_steps.cost(adoption_steps.instances(seen))}"
    return [Check("adoption", CheckVerdict.WARN, message, ordered)]


def _removals(facts: DoctorFacts) -> list[Check]:
    """Checks which members a take-over would remove, and whether it would begin."""
    foreseen = removals(facts.seen, facts.config, facts.size_limit)
    if foreseen is None:
        return []
    message = " ".join(foreseen.sentences())
    if foreseen.begins:
        return [Check("removals", CheckVerdict.PASS, message)]
    verdict = CheckVerdict.FAIL if facts.mode == "lead" else CheckVerdict.WARN
    return [Check("removals", verdict, message, _sentence(foreseen.reason.rpartition("; ")[2]))]


def _ghosts(facts: DoctorFacts) -> list[Check]:
    """Checks, for an application, whether the death of a restarted process can be proven, and the consequences."""
    seen = facts.seen
    if seen.protocol != STREAMS_PROTOCOL:
        return []
    return [*_proofs(facts), *_waits(facts)]


def _waits(facts: DoctorFacts) -> list[Check]:
    """Checks, under exactly-once, whether rebalances may wait for ghosts. Streams commits nothing during a rebalance;
    one that outlasts the transaction timeout aborts the transactions of all instances
    (docs/reference/client-quirks.md#java-streams-threads). Brokers do not show the members' session timeouts."""
    if facts.streams is None or not facts.streams.exactly_once:
        return []
    if facts.ghosts is not None and facts.ghosts.remove:
        return [
            Check("exactly once", CheckVerdict.PASS, "Rebalances do not wait for ghosts whose death can be proven.")
        ]
    message = (
        "No process removes ghosts, so a rebalance waits for a restarted instance's session (session.timeout.ms, 45 s"
        " unless set). After transaction.timeout.ms (10 s) the transactions of all instances are aborted, and each"
        " restores its state."
    )
    removing = "Remove ghosts = false" if facts.mode == "lead" else 'Set mode = "assist"'
    remedy = f"{removing} for the group, or run its instances under bellwether guard."
    return [Check("exactly once", CheckVerdict.WARN, message, remedy)]


def _proofs(facts: DoctorFacts) -> list[Check]:
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
        return [Check("ghosts", CheckVerdict.WARN, message, remedy)]
    return [Check("ghosts", CheckVerdict.PASS, "Ghosts of restarted processes can be proven.")]


def _shown(facts: DoctorFacts) -> list[Check]:
    """Checks that the members' bytes can be read and that Bellwether may describe their topics."""
    if _nobody(facts):
        return []
    broken = [m.member_id for m in facts.seen.members if m.trouble]
    members = Check("members", CheckVerdict.PASS, "Every member's bytes can be read.")
    if broken:
        message = f"The bytes of {listed(broken)} cannot be read."
        remedy = (
            "They would keep their partitions; check the bytes with bellwether decode, and those clients' versions."
        )
        members = Check("members", CheckVerdict.WARN, message, remedy)
    hidden = _hidden(facts.seen)
    if hidden:
        topics = ", ".join(f"Topic {t!r}" for t in hidden[:NAMES_SHOWN])
        remedy = f"Grant Bellwether's principal the ACL DESCRIBE on {topics}."
        return [members, Check("topic ACLs", CheckVerdict.FAIL, f"Bellwether may not see {listed(hidden)}.", remedy)]
    return [members, Check("topic ACLs", CheckVerdict.PASS, "Bellwether sees every topic that members subscribe to.")]


def _nobody(facts: DoctorFacts) -> bool:
    """Returns whether the group has no members and no plan from which to read facts."""
    return not facts.seen.members and facts.seen.shadow is None


def _anomalies(facts: DoctorFacts) -> list[Check]:
    """Makes a check of each anomaly. Consumers that assign themselves have a check of their own, `_self_assigned`."""
    anomalies = [anomaly for anomaly in facts.seen.anomalies if anomaly.kind is not AnomalyKind.SELF_ASSIGNED]
    return [Check("assignment", CheckVerdict.WARN, anomaly.message, anomaly.remedy) for anomaly in anomalies]


def _hidden(seen: Observation) -> list[str]:
    if seen.shadow is not None:
        return sorted(seen.shadow.decision.cluster.unreadable)
    subscribed = {topic for member in seen.members for topic in member.topics}
    return sorted(subscribed - set(seen.lags)) if seen.lags or seen.trouble else []


def _versions(facts: DoctorFacts) -> list[Check]:
    """Checks the versions of the members' messages, if their bytes are known."""
    if facts.seen.shadow is None:
        return []
    streams = facts.seen.protocol == STREAMS_PROTOCOL
    versions = spoken_versions(facts.seen.shadow.decision.raw.others, streams=streams)
    if versions is None:
        return []
    return [
        Check(
            "versions", CheckVerdict.WARN if versions.remedy else CheckVerdict.PASS, versions.message, versions.remedy
        )
    ]


def _topology(facts: DoctorFacts) -> list[Check]:
    """Checks where an application's topology comes from, and whether it is attested. A plan needs a topology."""
    origin, config = _topology_in_words(facts), facts.streams
    if not origin:
        return _nothing_to_learn_from(facts)
    message = f"{origin}, "
    if config is None or config.topology is None:
        remedy = "Save it: bellwether topology learn writes it into a file for the setting topology."
        return [Check("topology", CheckVerdict.WARN, f"{message}learned from the running application.", remedy)]
    if not config.topology_attested:
        remedy = (
            "Set topology_attested = true where the file is deployed with the application; else a Java member leads"
            " after restarts."
        )
        return [Check("topology", CheckVerdict.WARN, f"{message}from a file that is not attested.", remedy)]
    return [Check("topology", CheckVerdict.PASS, f"{message}from a file, and attested.")]


def _topology_in_words(facts: DoctorFacts) -> str:
    """Describes the topology of the plan, or that of the configured file; "" if there is none."""
    decision = facts.seen.shadow.decision if facts.seen.shadow is not None else None
    if decision is not None:
        return decision.plan.application if facts.seen.protocol == STREAMS_PROTOCOL else ""
    return facts.topology.summary if facts.topology is not None else ""


def _nothing_to_learn_from(facts: DoctorFacts) -> list[Check]:
    """Warns if an application that has no members has no topology file either."""
    streams = facts.streams
    if streams is None or streams.stateful or not _nobody(facts):
        return []
    message = "No topology file is set, and no instance runs to learn it from: a Java member leads first."
    remedy = "To lead from the first start, let the application export its topology, and set topology to the file."
    return [Check("topology", CheckVerdict.WARN, message, remedy)]


def _sources(facts: DoctorFacts) -> list[Check]:
    """Checks the source topics in the topology file of an application without members: no instance starts without
    them."""
    if facts.topology is None or facts.topic_counts is None or not _nobody(facts):
        return []
    sources = required_counts(facts.topology, facts.topic_counts)
    if sources.conflicts:
        return [Check("source topics", CheckVerdict.FAIL, _sentence("; ".join(sources.conflicts)), _EQUALLY_MANY)]
    if sources.missing:
        message = f"Topics that the topology names as sources and Bellwether does not see: {listed(sources.missing)}."
        remedy = "Create them before the application starts, or grant Bellwether's principal the ACL DESCRIBE on them."
        return [Check("source topics", CheckVerdict.WARN, message, remedy)]
    if sources.unchecked:
        return [Check("source topics", CheckVerdict.WARN, _sentence("; ".join(sources.unchecked)), _EQUALLY_MANY)]
    return [Check("source topics", CheckVerdict.PASS, "All topics that the topology names as sources exist.")]


def _upgrade(facts: DoctorFacts) -> list[Check]:
    """Checks what a rolling upgrade to the topology of a new file would do."""
    plan = facts.seen.shadow.decision.plan if facts.seen.shadow is not None else None
    if facts.new_topology is None:
        return []
    if not isinstance(plan, TaskPlan):
        return [Check("upgrade", CheckVerdict.WARN, "Not checked: the present topology is not known.", _COMPARE_FILES)]
    difference = upgrade(plan.topology, facts.new_topology)
    message = f"To the new topology: {'; '.join(sentences(difference))}."
    attested = facts.streams is not None and facts.streams.topology_attested
    if difference.mixture is Mixture.NOTHING_DIFFERS or (difference.mixture is Mixture.STORES and attested):
        return [Check("upgrade", CheckVerdict.PASS, f"{message} {difference.rolling}")]
    return [
        Check(
            "upgrade",
            CheckVerdict.FAIL if difference.mixture is Mixture.NUMBERS else CheckVerdict.WARN,
            message,
            difference.rolling,
        )
    ]


def _racks(facts: DoctorFacts) -> Check:
    brokers = {rack for rack in facts.broker_racks if rack}
    if not brokers:
        return Check(
            "racks", CheckVerdict.WARN, "No broker has a rack.", "Set broker.rack, or expect no rack awareness."
        )
    if None in facts.broker_racks or "" in facts.broker_racks:
        return Check("racks", CheckVerdict.WARN, "Some brokers have no rack.", "Set broker.rack on all of them.")
    members = [m for m in facts.seen.members if m.topics]
    if _nobody(facts):
        message = f"No member is there to name a rack; the brokers are in {', '.join(sorted(brokers))}."
        return Check("racks", CheckVerdict.NOT_APPLICABLE, message)
    return replace(_racks_of_members(facts, members, brokers), details=tuple(map(_rack_line, members)))


def _racks_of_members(facts: DoctorFacts, members: Sequence[ObservedMember], brokers: AbstractSet[str]) -> Check:
    foreign = sorted({m.rack for m in members if m.rack and m.rack not in brokers})
    if foreign:
        configured = any(m.rack_source is not RackSource.MEMBER for m in members if m.rack in foreign)
        setting = "client.rack, and each rack in [racks]," if configured else "client.rack"
        remedy = f"{setting} must be spelled as broker.rack is: {', '.join(sorted(brokers))}."
        return Check("racks", CheckVerdict.FAIL, f"Members name racks without a broker: {listed(foreign)}.", remedy)
    rackless = [m for m in members if not m.rack]
    if rackless:
        names = listed([m.client_id or m.member_id for m in rackless])
        some = len(rackless) < len(members)
        message = f"{names} name no rack while others do." if some else "No member names a rack."
        return Check("racks", CheckVerdict.WARN, message, how_to_name_racks(facts.seen))
    leader_only = sum(m.leader_only for m in members)
    also = f" {leader_only} of {len(members)} members send none and read from leaders only." if leader_only else ""
    return Check("racks", CheckVerdict.PASS, f"Brokers and members agree on {', '.join(sorted(brokers))}.{also}")


def _rack_line(member: ObservedMember) -> str:
    """Returns the member's rack, and where it comes from."""
    name = member.client_id or member.member_id
    return f"{name}: {member.rack} ({member.rack_source})" if member.rack else f"{name}: no rack"


def _plan(facts: DoctorFacts) -> Check:
    seen = facts.seen
    if seen.shadow is not None:
        warnings = seen.shadow.decision.warnings
        if warnings:
            message = f"A plan can be made, but: {'; '.join(warnings)}."
            return Check("plan", CheckVerdict.WARN, message, "See bellwether plan.")
        return Check("plan", CheckVerdict.PASS, f"A plan can be made; it would move {seen.shadow.moves.moved}.")
    if not seen.members:
        return Check("plan", CheckVerdict.PASS, "There is no member to plan for yet.")
    return Check("plan", CheckVerdict.FAIL, _sentence(seen.trouble or "no plan could be made"), _plan_remedy(seen))


def _plan_remedy(seen: Observation) -> str:
    if seen.protocol == STREAMS_PROTOCOL:
        return "Check the application's topology (bellwether topology learn) and its settings."
    return "Do what the reason says, or ask again when the brokers answer."


def _unseen(facts: DoctorFacts) -> Check:
    """Lists what brokers do not show to observers, so that Bellwether does not guess it."""
    if facts.seen.protocol == STREAMS_PROTOCOL:
        message = "Members do not send processing.guarantee, the kind of their stores and num.standby.replicas."
        return Check(
            "not visible", CheckVerdict.WARN, message, "Configure them for the group as the application has them."
        )
    message = "Protocol names that members offer beside the chosen one are not visible."
    return Check("not visible", CheckVerdict.PASS, message)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
