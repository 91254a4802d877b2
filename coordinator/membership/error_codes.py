"""What each Kafka error code means for a leader that owns no partitions
(docs/reference/broker-behaviour.md#error-codes)."""

from enum import Enum, IntEnum, auto

from bellwether_kafka.coordinator.membership.config import MembershipConfig
from bellwether_kafka.coordinator.membership.role import NotLeading

EXIT_CONFIG = 2
EXIT_FENCED = 3


class Code(IntEnum):
    """Kafka's error codes that answer group requests and that Bellwether distinguishes."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    UNSUPPORTED_VERSION = 35
    GROUP_ID_NOT_FOUND = 69
    MEMBER_ID_REQUIRED = 79
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82


class Action(Enum):
    RETRY = auto()  # same request, same node, after a back-off
    FIND = auto()  # the coordinator node has moved
    REJOIN = auto()  # still a member, but the generation is outdated
    LOST = auto()  # no longer a member
    USE_MEMBER_ID = auto()  # join again with the member id in the answer
    FATAL = auto()
    UNCLEAR = auto()  # meaning unknown: back off for a bounded time, then leave


_ACTIONS: dict[int, Action] = {
    Code.COORDINATOR_LOAD_IN_PROGRESS: Action.RETRY,
    Code.COORDINATOR_NOT_AVAILABLE: Action.FIND,
    Code.NOT_COORDINATOR: Action.FIND,
    Code.ILLEGAL_GENERATION: Action.REJOIN,
    Code.REBALANCE_IN_PROGRESS: Action.REJOIN,
    Code.UNKNOWN_MEMBER_ID: Action.LOST,
    Code.MEMBER_ID_REQUIRED: Action.USE_MEMBER_ID,
}

_SENTENCES: dict[int, str] = {
    Code.FENCED_INSTANCE_ID: "Group '{group}': another process has joined with the same group.instance.id '{instance}';"
    " this one stops and must not be restarted while the other runs.",
    Code.INCONSISTENT_GROUP_PROTOCOL: "Group '{group}': the broker refused the protocols ({protocols}): its members use"
    " a name that is missing from the list, or it is not a consumer group; set protocols to a superset of the members'"
    " assignor names.",
    Code.INVALID_GROUP_ID: "Group '{group}': the broker refuses it as an invalid group id; correct the setting"
    " that names the group.",
    Code.INVALID_SESSION_TIMEOUT: "Group '{group}': session_timeout_ms ({session}) is outside the broker's"
    " group.min.session.timeout.ms to group.max.session.timeout.ms; change it.",
    Code.GROUP_AUTHORIZATION_FAILED: "Group '{group}': Bellwether's principal may not use this group; grant it the ACL"
    " READ on Group '{group}'.",
    Code.CLUSTER_AUTHORIZATION_FAILED: "Group '{group}': the broker requires a cluster-wide permission; grant"
    " Bellwether's principal the ACL READ on Group '{group}' and check the cluster's authorizer.",
    Code.UNSUPPORTED_VERSION: "Group '{group}': the broker does not support a request that Bellwether needs; use Kafka"
    " 2.3 or newer, or unset instance_id.",
    Code.GROUP_MAX_SIZE_REACHED: "Group '{group}': it has reached the broker's group.max.size, which counts Bellwether"
    " as well; raise group.max.size by one.",
}


# The role that follows from a fatal code; the codes that are not listed mean UNFIT.
NOT_LEADING: dict[int, NotLeading] = {
    Code.FENCED_INSTANCE_ID: NotLeading.FENCED,
    Code.GROUP_AUTHORIZATION_FAILED: NotLeading.DENIED,
    Code.CLUSTER_AUTHORIZATION_FAILED: NotLeading.DENIED,
}


def action_for(code: int) -> Action:
    if code in _SENTENCES:
        return Action.FATAL
    return _ACTIONS.get(code, Action.UNCLEAR)


def name_of(code: int) -> str:
    """Returns Kafka's name of the code, or "error" and its number if Bellwether does not know it."""
    try:
        return Code(code).name
    except ValueError:
        return f"error {code}"


def fatal_sentence(code: int, config: MembershipConfig) -> str:
    """Returns one sentence with the remedy. The action of `code` must be FATAL."""
    group, protocols, session = config.group_id, ", ".join(config.protocols), config.session_timeout_ms
    return _SENTENCES[code].format(group=group, instance=config.instance_id, protocols=protocols, session=session)
