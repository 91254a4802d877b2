"""Whether Bellwether leads a group and, if not, why, since when, and when it tries again; and what each error code of
Kafka's means for that (docs/internals/broker-behaviour.md#error-codes).

`/api`, `/readyz`, metrics, page, `top` and logs all report the role. It follows only from the brokers' latest answers:
a leader that has received none for a session timeout no longer leads, because the broker has expelled it by then.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, IntEnum, StrEnum, auto
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from bellwether_kafka.coordinator.membership.config import MembershipConfig


class NotLeading(StrEnum):
    """Why Bellwether does not lead a group that is configured to be led."""

    STARTING = "starting"
    UNREACHABLE = "unreachable"
    EMPTY = "empty"
    UNKNOWN_GROUP = "unknown_group"
    NO_SUBSCRIBERS = "no_subscribers"
    JOINING = "joining"
    TAKING_OVER = "taking_over"
    REBALANCING = "rebalancing"
    MEMBER_LEADS = "member_leads"
    UNDECLARED = "undeclared"
    BLOCKED = "blocked"
    NO_PLAN = "no_plan"
    SET_BACK = "set_back"
    HANDED_BACK = "handed_back"
    LEAVING = "leaving"
    ORDERED_OUT = "ordered_out"
    STANDBY = "standby"
    FENCED = "fenced"
    CONVERTED = "converted"
    UNFIT = "unfit"
    DENIED = "denied"
    STOPPED = "stopped"
    FAILED = "failed"


REMEDIES: Mapping[NotLeading, str] = {
    NotLeading.STARTING: "Wait: the group has not been described yet.",
    NotLeading.UNREACHABLE: "Check the brokers, the network and bootstrap.servers; Bellwether keeps trying.",
    NotLeading.EMPTY: "Nothing to do: Bellwether leads once members join.",
    NotLeading.UNKNOWN_GROUP: "Check the name of the group; if its application is yet to start, nothing is to be done.",
    NotLeading.NO_SUBSCRIBERS: "If its members subscribe (no assign()), set subscribes = true; else Bellwether joins"
    " once members do.",
    NotLeading.JOINING: "Wait: the broker holds the rebalance open until its members are back.",
    NotLeading.TAKING_OVER: "Wait: this takes seconds.",
    NotLeading.REBALANCING: "Wait: Bellwether takes a group over when it is Stable.",
    NotLeading.MEMBER_LEADS: (
        'With adopt = "when-empty", set "succeed" or "take-over"; otherwise restart the instances one after another, as'
        " `bellwether doctor` says."
    ),
    NotLeading.UNDECLARED: "Add the declaration that is named to the group's settings.",
    NotLeading.BLOCKED: "Do what the reason says, or stop all members for a moment.",
    NotLeading.NO_PLAN: "Fix what the reason names; `bellwether doctor` has the details. Bellwether keeps trying.",
    NotLeading.SET_BACK: "Wait: Bellwether tries again by itself, at the time of the next attempt; `bellwether leave`"
    " and then `bellwether resume` have it try at once.",
    NotLeading.HANDED_BACK: "Compare the topology file with `Topology.describe()`. Bellwether returns when its own plan"
    " would differ no more, or after `bellwether leave` and `bellwether resume`.",
    NotLeading.LEAVING: "Wait: a member takes over.",
    NotLeading.ORDERED_OUT: "End the order with `bellwether resume`.",
    NotLeading.STANDBY: "Nothing to do: another instance leads the group, and this one takes over when it stops.",
    NotLeading.FENCED: "Give each process an instance_id of its own, or set standby = true; then restart this one.",
    NotLeading.CONVERTED: 'Set group.protocol=classic in its members, or mode = "observe" in the group\'s settings.',
    NotLeading.UNFIT: "Correct the setting that the reason names, then restart.",
    NotLeading.DENIED: "Do what the reason says: grant the ACL, correct the credentials or make room; Bellwether keeps"
    " trying.",
    NotLeading.STOPPED: "Start Bellwether again.",
    NotLeading.FAILED: "Report the error in the log, then restart.",
}


class Obstacle(NamedTuple):
    """What keeps Bellwether from leading: the reason, and a sentence that explains it."""

    reason: NotLeading
    sentence: str


@dataclass(frozen=True, slots=True)
class Role:
    """Whether Bellwether leads. `reason` is None while it does. `detail` explains the reason. `since` and
    `next_attempt` are seconds on the machine's clock. `next_attempt` is None if no attempt is due: Bellwether leads, an
    attempt is under way, or something else must change first."""

    reason: NotLeading | None = NotLeading.STARTING
    detail: str = "the group has not been described yet"
    since: float = 0.0
    next_attempt: float | None = None

    @property
    def leading(self) -> bool:
        return self.reason is None

    @property
    def remedy(self) -> str:
        return REMEDIES[self.reason] if self.reason is not None else ""

    def followed_by(self, now: "Role") -> "Role":
        """Returns `now`, but with the `since` of this role if the reason has not changed."""
        return replace(now, since=self.since) if now.reason is self.reason else now


# ---- error codes ----------------------------------------------------------------------------------------------------

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


def refusal(code: int, config: "MembershipConfig") -> Obstacle | None:
    """Returns why Bellwether does not lead after this code, in one sentence with the remedy; None if the code does not
    say."""
    if code not in _REFUSALS:
        return None
    _, reason, sentence = _REFUSALS[code]
    group, protocols, session = config.group_id, ", ".join(config.protocols), config.session_timeout_ms
    text = sentence.format(group=group, instance=config.instance_id, protocols=protocols, session=session)
    return Obstacle(reason, text)
