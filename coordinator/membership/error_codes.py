"""What each Kafka error code means for a leader that owns no partitions
(docs/internals/broker-behaviour.md#error-codes)."""

from enum import Enum, IntEnum, auto
from typing import NamedTuple

from bellwether_kafka.coordinator.membership.config import MembershipConfig
from bellwether_kafka.coordinator.membership.role import NotLeading, Obstacle

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
    """What to do after an error. The first five follow from the protocol of groups."""

    RETRY = auto()  # same request, same node, after a back-off
    FIND = auto()  # the coordinator node has moved
    REJOIN = auto()  # still a member, but the generation is outdated
    LOST = auto()  # no longer a member
    USE_MEMBER_ID = auto()  # join again with the member id in the answer
    BACK_OFF = auto()  # refused, or of an unknown meaning: back off for a bounded time, then leave, and come back later
    END = auto()  # cannot change without another setting of Bellwether


_BY_PROTOCOL: dict[int, Action] = {
    Code.COORDINATOR_LOAD_IN_PROGRESS: Action.RETRY,
    Code.COORDINATOR_NOT_AVAILABLE: Action.FIND,
    Code.NOT_COORDINATOR: Action.FIND,
    Code.ILLEGAL_GENERATION: Action.REJOIN,
    Code.REBALANCE_IN_PROGRESS: Action.REJOIN,
    Code.UNKNOWN_MEMBER_ID: Action.LOST,
    Code.MEMBER_ID_REQUIRED: Action.USE_MEMBER_ID,
}


class ExplainedRefusal(NamedTuple):
    """A refusal that brokers explain. `sentence` has its remedy, and fields for the group's values."""

    action: Action
    reason: NotLeading
    sentence: str


_BACK_OFF, _END = Action.BACK_OFF, Action.END
_DENIED, _UNFIT = NotLeading.DENIED, NotLeading.UNFIT
_REFUSALS: dict[int, ExplainedRefusal] = {
    Code.FENCED_INSTANCE_ID: ExplainedRefusal(
        _END,
        NotLeading.FENCED,
        "Group '{group}': another process has joined with the same group.instance.id '{instance}';"
        " this one stops and must not be restarted while the other runs.",
    ),
    Code.INVALID_GROUP_ID: ExplainedRefusal(
        _END,
        _UNFIT,
        "Group '{group}': the broker refuses it as an invalid group id; correct the setting that names the group.",
    ),
    Code.INVALID_SESSION_TIMEOUT: ExplainedRefusal(
        _END,
        _UNFIT,
        "Group '{group}': session_timeout_ms ({session}) is outside the broker's"
        " group.min.session.timeout.ms to group.max.session.timeout.ms; change it.",
    ),
    Code.INCONSISTENT_GROUP_PROTOCOL: ExplainedRefusal(
        _BACK_OFF,
        _DENIED,
        "Group '{group}': the broker refuses the protocols ({protocols}): its members use a name that is missing from"
        " the list, or it is not a consumer group; set protocols to a superset of the members' assignor names.",
    ),
    Code.TOPIC_AUTHORIZATION_FAILED: ExplainedRefusal(
        _BACK_OFF,
        _DENIED,
        "Group '{group}': Bellwether's principal may not see a topic of this group; grant it the ACL DESCRIBE on its"
        " topics.",
    ),
    Code.GROUP_AUTHORIZATION_FAILED: ExplainedRefusal(
        _BACK_OFF,
        _DENIED,
        "Group '{group}': Bellwether's principal may not use this group; grant it the ACL READ on Group '{group}'.",
    ),
    Code.CLUSTER_AUTHORIZATION_FAILED: ExplainedRefusal(
        _BACK_OFF,
        _DENIED,
        "Group '{group}': the broker requires a cluster-wide permission; grant Bellwether's principal the ACL READ on"
        " Group '{group}' and check the cluster's authorizer.",
    ),
    Code.UNSUPPORTED_VERSION: ExplainedRefusal(
        _BACK_OFF,
        _DENIED,
        "Group '{group}': the broker does not support a request that Bellwether needs; use Kafka 2.3 or newer, or unset"
        " instance_id.",
    ),
    Code.GROUP_MAX_SIZE_REACHED: ExplainedRefusal(
        _BACK_OFF,
        _DENIED,
        "Group '{group}': it has reached the broker's group.max.size, which counts Bellwether as well; raise"
        " group.max.size by one.",
    ),
}


def action_for(code: int) -> Action:
    if code in _REFUSALS:
        return _REFUSALS[code].action
    return _BY_PROTOCOL.get(code, Action.BACK_OFF)


def name_of(code: int) -> str:
    """Returns Kafka's name of the code, or "error" and its number if Bellwether does not know it."""
    try:
        return Code(code).name
    except ValueError:
        return f"error {code}"


def refusal(code: int, config: MembershipConfig) -> Obstacle | None:
    """Returns why Bellwether does not lead after this code, in one sentence with the remedy; None if the code does not
    say."""
    if code not in _REFUSALS:
        return None
    _, reason, sentence = _REFUSALS[code]
    group, protocols, session = config.group_id, ", ".join(config.protocols), config.session_timeout_ms
    text = sentence.format(group=group, instance=config.instance_id, protocols=protocols, session=session)
    return Obstacle(reason, text)
