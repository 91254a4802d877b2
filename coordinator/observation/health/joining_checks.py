"""Checks whether Bellwether may join a group: what kind it is, the ACL, its protocols, limits of its brokers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from bellwether_kafka.assignors.consumer import OF_ANY_PROTOCOL
from bellwether_kafka.coordinator.kafka.wire import asks_bellwether, policy_in
from bellwether_kafka.coordinator.membership import (
    PROVEN_FROM,
    STREAMS_SESSION_MS_MAX,
    STREAMS_SESSION_MS_MIN,
    Code,
    GroupState,
    check_timing,
    name_of,
)
from bellwether_kafka.coordinator.names import for_toml, listed
from bellwether_kafka.coordinator.observation.findings import Fault, Finding, Level, judged
from bellwether_kafka.coordinator.observation.health.doctor_facts import (
    BROKER_CONFIGS,
    KIND_OF_PROTOCOL,
    DoctorFacts,
    sentence,
)
from bellwether_kafka.coordinator.observation.self_assigned import ONLY_BELLWETHER, RELEASE, SELF_ASSIGNED

# The answers to a heartbeat of a member that does not exist which show that Bellwether may use the group.
ALLOWED = frozenset(
    {Code.NONE, Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION, Code.REBALANCE_IN_PROGRESS, Code.GROUP_ID_NOT_FOUND}
)
SESSION_MIN, SESSION_MAX = BROKER_CONFIGS
SIZE_MAX = "group.max.size"
OWN_CLASSES = "bellwether.broker."
ENDED = (
    "As soon as such a broker coordinates the group, the next change of the group ends all members of one in which any"
    " names the class."
)
ON_EVERY_BROKER = (
    "Copy the jar to it, add the class to its group.consumer.assignors and restart it; until then have members name"
    " uniform."
)
TASK_ASSIGNOR = "bellwether.broker.BellwetherTaskAssignor"
ASK_AGAIN = (
    "Grant Bellwether's principal the ACL DESCRIBE_CONFIGS on the cluster, or ask again when all brokers answer."
)


def joining_checks(facts: DoctorFacts) -> list[Finding]:
    """Returns the checks whether Bellwether may join the group."""
    return [
        _kind(facts),
        *_without_members(facts),
        _permission(facts),
        _protocol(facts),
        _slot(facts),
        _session(facts),
        _size(facts),
        _brokers(facts),
        *_assignor(facts),
        *_task_assignor(facts),
    ]


def _kind(facts: DoctorFacts) -> Finding:
    seen = facts.seen
    if seen.kind == "unknown":
        remedy = "Grant it." if "grant" in seen.trouble else "Ask again when the broker answers."
        return Finding("group", Level.WARN, f"Not checked: {seen.trouble}.", remedy)
    if seen.kind == "missing":
        message = f"The group {seen.group_id} does not exist yet."
        return Finding(
            "group", Level.WARN, message, "Nothing, if the application has not started; else check the name."
        )
    if seen.asks_bellwether and facts.mode != "lead":
        message = f"Its broker assigns with {seen.assignor}, which asks the Bellwether beside it. Whether that answers"
        return Finding("group", Level.PASS, f"{message}, its log shows: plan_served.")
    if seen.obstacle and seen.kind in ("consumer", "streams"):
        remedy = "Observe it only; to lead it, set the clients' group.protocol to classic."
        return Finding("group", Level.FAIL, sentence(seen.obstacle), remedy)
    if seen.kind == "other":
        message = sentence(seen.obstacle or "it is no group of consumers")
        return Finding("group", Level.FAIL, message, "Name another group.")
    members = f"{len(seen.members)} member{'s' * (len(seen.members) != 1)}"
    led = ", led by Bellwether" * bool(seen.bellwether_members)
    return Finding("group", Level.PASS, f"A classic group, {seen.state or 'Empty'}, with {members}{led}.")


def _without_members(facts: DoctorFacts) -> list[Finding]:
    """Checks an empty group: its consumers may commit without being members (docs/guides/adoption.md)."""
    seen = facts.seen
    if seen.self_assigned:
        return [_self_assigned(facts)]
    if seen.bellwether_members and not seen.members:
        message = f"{sentence(ONLY_BELLWETHER)} No answer shows whether something does."
        return [Finding("subscribes", Level.WARN, message, f"{RELEASE}; else nothing.")]
    if seen.kind != "classic" or seen.state != GroupState.EMPTY or facts.config.subscribes:
        return []
    message = (
        "No member is in the group. Consumers that assign themselves partitions (assign()) could not commit beside a"
        " member, so Bellwether stays out until members have joined."
    )
    remedy = 'If all its consumers subscribe, set mode = "lead" and subscribes = true; else keep mode = "observe".'
    return [Finding("subscribes", Level.WARN, message, remedy)]


def _self_assigned(facts: DoctorFacts) -> Finding:
    """Fails if mode is "lead": once the group has a member, the broker refuses these consumers' commits."""
    message = f"{sentence(SELF_ASSIGNED)} Beside a member, Bellwether included, the broker would refuse these commits."
    verdict = Level.FAIL if facts.mode == "lead" else Level.WARN
    return Finding("subscribes", verdict, message, 'Keep mode = "observe" for this group.')


def _permission(facts: DoctorFacts) -> Finding:
    if facts.heartbeat_error == Code.GROUP_AUTHORIZATION_FAILED:
        remedy = f"Grant Bellwether's principal the ACL READ on Group '{facts.seen.group_id}'."
        verdict = Level.WARN if facts.mode == "observe" else Level.FAIL
        return Finding("group ACL", verdict, "Bellwether may not join the group.", remedy)
    if facts.heartbeat_error not in ALLOWED:
        error = facts.heartbeat_error
        why = "does not answer" if error is None else f"answers {name_of(error)}"
        message = f"Not checked whether Bellwether may join: its coordinator node {why}."
        return Finding("group ACL", Level.WARN, message, "Ask again when the broker answers.")
    return Finding("group ACL", Level.PASS, "Bellwether may join the group and lead it.")


def _protocol(facts: DoctorFacts) -> Finding:
    name, offered = facts.seen.protocol, facts.config.protocols
    if not name and facts.seen.members:
        message = "Not checked: the group is in a rebalance, in which brokers show no protocol."
        return Finding("protocols", Level.WARN, message, "Ask again when it is Stable.")
    if not name:
        return Finding(
            "protocols", Level.PASS, f"No member uses a protocol yet; Bellwether offers {', '.join(offered)}."
        )
    if name not in offered:
        message = f"The members use {name}, and Bellwether would offer {', '.join(offered)}."
        return Finding("protocols", Level.FAIL, message, _way_to(facts, name))
    if facts.streams is None and not facts.policy.leads(name):
        message = f"The members use {name}, for which the policy {facts.policy.name} has no assignor."
        return Finding("protocols", Level.FAIL, message, _way_to(facts, name))
    return Finding("protocols", Level.PASS, f"The members use {name}, which Bellwether offers.")


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


def _slot(facts: DoctorFacts) -> Finding:
    instance = facts.config.instance_id
    same_id = [m for m in facts.seen.members if instance is not None and m.instance_id == instance]
    if instance is None:
        remedy = "Set instance_id: a restart of Bellwether then costs no rebalance."
        return Finding("instance id", Level.WARN, "Bellwether joins without a group.instance.id.", remedy)
    if same_id:
        remedy = "Set another instance_id: joining under this one would fence the member."
        message = f"The application's member {same_id[0].member_id} has Bellwether's group.instance.id '{instance}'."
        return Finding("instance id", Level.FAIL, message, remedy)
    others = [m for m in facts.seen.bellwether_members if m.instance_id != instance]
    if others:
        has = f"the group.instance.id '{others[0].instance_id}'" if others[0].instance_id else "no group.instance.id"
        message = f"The Bellwether in the group has {has}, and these settings have '{instance}'."
        remedy = "Use the settings with which it runs: two instances with different ids do not lead one group."
        return Finding("instance id", Level.WARN, message, remedy)
    who = "Bellwether" if facts.seen.bellwether_members else "no member"
    return Finding("instance id", Level.PASS, f"'{instance}' is used by {who}.")


def _session(facts: DoctorFacts) -> Finding:
    session, low, high = facts.config.session_timeout_ms, facts.limits.get(SESSION_MIN), facts.limits.get(SESSION_MAX)
    wrong = []
    if (refused := check_timing(facts.config)) is not None:
        wrong.append(Fault(Level.FAIL, refused, "Correct these settings: bellwether run refuses them."))
    if low is None or high is None:
        remedy = (
            "Grant DESCRIBE_CONFIGS on the cluster: without it only a join shows whether the broker allows the value."
        )
        wrong.append(Fault(Level.WARN, "The brokers' limits cannot be read.", remedy))
    elif not low <= session <= high:
        message = f"session_timeout_ms is {session}, and the brokers allow {low} to {high}."
        wrong.append(Fault(Level.FAIL, message, _session_remedy(facts, max(low, min(session, high)))))
    return judged("session timeout", wrong, f"{session} ms is within the brokers' {low} to {high}.")


def _session_remedy(facts: DoctorFacts, nearest: int) -> str:
    """Suggests the nearest value that brokers allow, or a change of the brokers if other settings exclude it."""
    fits = check_timing(replace(facts.config, session_timeout_ms=nearest)) is None
    if fits and (not facts.config.streams or STREAMS_SESSION_MS_MIN <= nearest <= STREAMS_SESSION_MS_MAX):
        leading = "" if facts.mode == "lead" else 'mode = "lead" and '
        return f"Set {leading}session_timeout_ms = {nearest} for the group."
    brokers = SESSION_MIN if nearest > facts.config.session_timeout_ms else SESSION_MAX
    return f"Change {brokers} of the brokers to {facts.config.session_timeout_ms}: other settings need this session."


def _size(facts: DoctorFacts) -> Finding:
    most, size = facts.size_limit.members, len(facts.seen.members)
    if facts.seen.bellwether_members:
        return Finding("group size", Level.PASS, f"Bellwether is in the group, beside {size} members.")
    if most is not None and size >= most:
        message = f"The group has {size} members and {SIZE_MAX} is {most}: there is no room for Bellwether."
        return Finding("group size", Level.FAIL, message, f"Raise {SIZE_MAX} by one.")
    if most is None:
        limit = facts.size_limit
        message = f"Whether there is room for Bellwether beside {size} members is not known: {limit.unknown}."
        return Finding("group size", Level.WARN, message, sentence(limit.remedy))
    return Finding("group size", Level.PASS, f"There is room for Bellwether beside {size} members.")


def _brokers(facts: DoctorFacts) -> Finding:
    version = ".".join(map(str, facts.broker_version))
    if facts.broker_version >= PROVEN_FROM:
        return Finding("broker version", Level.PASS, f"The brokers are of Kafka {version} or newer.")
    message = f"The brokers are of Kafka {version}." if version else "The brokers' version is not known."
    tried = ".".join(map(str, PROVEN_FROM))
    return Finding(
        "broker version",
        Level.WARN,
        message,
        f"Use Kafka {tried} or newer: on others Bellwether takes no group over.",
    )


def _assignor(facts: DoctorFacts) -> list[Finding]:
    """Checks the assignors of Bellwether that brokers list for groups of the protocol `consumer`.

    Any broker may become the group's coordinator node. One that lacks an assignor which a member names ends all members
    of the group at its next change (measured on 4.3.0 and 4.4.0), so every broker must list the same.
    """
    seen = facts.seen
    if seen.kind != "consumer":
        return []
    lists = {
        node: [*map(str.strip, setting.split(","))]
        for node, setting in facts.assignors.items()
        if isinstance(setting, str)
    }
    named = _class_of(seen.protocol) if asks_bellwether(seen.protocol) else ""
    own = dict.fromkeys([named] if named else [])
    own |= dict.fromkeys(each for classes in lists.values() for each in classes if each.startswith(OWN_CLASSES))
    if not own:
        return []
    return [_on_every_broker(facts, lists, list(own), named), *_first_assignor(lists)]


def _class_of(assignor: str) -> str:
    """Returns the class of an assignor of Bellwether by its name."""
    policy = policy_in(assignor)  # or the name itself, which means the configured policy
    return f"{OWN_CLASSES}{''.join(map(str.capitalize, policy.split('-')))}Assignor"


def _on_every_broker(facts: DoctorFacts, lists: Mapping[int, Sequence[str]], own: Sequence[str], named: str) -> Finding:
    members = f"The members name {facts.seen.protocol}" if named else "No member may name one of Bellwether's assignors"
    lacking = {each: [str(node) for node, classes in sorted(lists.items()) if each not in classes] for each in own}
    without = [f"broker {listed(nodes)} does not list {each}" for each, nodes in lacking.items() if nodes]
    if without:
        return Finding("assignor", Level.FAIL, f"{members}: {'; '.join(without)}. {ENDED}", ON_EVERY_BROKER)
    if len(lists) < len(facts.assignors) or not lists:
        message = f"{members}; whether each broker lists {listed(own)} is not known. {ENDED}"
        return Finding("assignor", Level.WARN, message, ASK_AGAIN)
    members = members if named else "No member names one of Bellwether's assignors"
    return Finding("assignor", Level.PASS, f"{members}, and each broker lists {listed(own)}.")


def _first_assignor(lists: Mapping[int, Sequence[str]]) -> list[Finding]:
    """Warns if an assignor of Bellwether is the one that members without a choice of their own get."""
    first = sorted(node for node, classes in lists.items() if classes[0].startswith(OWN_CLASSES))
    if not first:
        return []
    message = (
        f"Broker {listed([*map(str, first)])} lists an assignor of Bellwether first. Each group whose members name none"
        " gets its plans from there, also those that are only observed, and while Bellwether does not answer, members"
        " that join get nothing."
    )
    remedy = "Put uniform first in group.consumer.assignors, and let the members of a group name the assignor."
    return [Finding("default assignor", Level.WARN, message, remedy)]


def _task_assignor(facts: DoctorFacts) -> list[Finding]:
    """Checks that every broker has the assignor of tasks if one has it. A broker before 4.4 has no such setting. Which
    assignor a group has is in its configuration, so this may be another one."""
    if facts.seen.kind != "streams":
        return []
    settings = {node: text for node, text in facts.assignors.items() if text is None or isinstance(text, str)}
    listing = {
        node for node, classes in settings.items() if TASK_ASSIGNOR in map(str.strip, (classes or "").split(","))
    }
    if not listing:
        return []
    if without := sorted(settings.keys() - listing):
        message = f"Another broker lists {TASK_ASSIGNOR}, and broker {listed([*map(str, without)])} does not list it."
        remedy = (
            "Copy the jar to it, add the class to its group.streams.assignors and restart it; until then it assigns by"
            " its own when it becomes the group's coordinator node."
        )
        return [Finding("assignor", Level.FAIL, message, remedy)]
    if len(settings) < len(facts.assignors):
        return [Finding("assignor", Level.WARN, f"Whether each broker lists {TASK_ASSIGNOR} is not known.", ASK_AGAIN)]
    return [Finding("assignor", Level.PASS, f"In this cluster each broker lists {TASK_ASSIGNOR}.")]
