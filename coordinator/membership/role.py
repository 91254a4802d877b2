"""Whether Bellwether leads a group and, if not, why, since when, and when it tries again; and what each error code of
Kafka's means for that (docs/internals/broker-behaviour.md#error-codes).

`/api`, `/readyz`, metrics, page, `top` and logs all report the role. It follows only from the brokers' latest answers:
a leader that has received none for a session timeout no longer leads, because the broker has expelled it by then.
"""

from dataclasses import dataclass, replace
from enum import Enum, IntEnum, StrEnum, auto
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from bellwether_kafka.coordinator.membership.config import MembershipConfig


class NotLeading(StrEnum):
    """Why Bellwether does not lead a group that is configured to be led: the value, what is true then, and what to do.
    `docs/generate.py` writes them into the runbooks."""

    meaning: str
    remedy: str

    def __new__(cls, value: str, meaning: str = "", remedy: str = "") -> Self:
        reason = str.__new__(cls, value)
        reason._value_, reason.meaning, reason.remedy = value, meaning, remedy
        return reason

    STARTING = (
        "starting",
        "Bellwether has not described the group yet",
        "Wait: the group has not been described yet.",
    )
    UNREACHABLE = (
        "unreachable",
        "no broker answers for the group, or none has answered for a session timeout",
        "Check the brokers, the network and bootstrap.servers; Bellwether keeps trying.",
    )
    EMPTY = (
        "empty",
        "the group has no other members now, but has had some",
        "Nothing to do: Bellwether leads once members join.",
    )
    UNKNOWN_GROUP = (
        "unknown_group",
        "no other member has ever been seen, and the group has no committed offsets",
        "Check the name of the group; if its application is yet to start, nothing is to be done.",
    )
    NO_SUBSCRIBERS = (
        "no_subscribers",
        "no member that subscribes has been seen: consumers may assign themselves partitions",
        "If its members subscribe (no assign()), set subscribes = true; else Bellwether joins once members do.",
    )
    JOINING = (
        "joining",
        "Bellwether's first JoinGroup is under way",
        "Wait: the broker holds the rebalance open until its members are back.",
    )
    TAKING_OVER = (
        "taking_over",
        "a take-over is being prepared or is under way",
        "Wait: this takes seconds.",
    )
    REBALANCING = (
        "rebalancing",
        "the group rebalances under another leader",
        "Wait: Bellwether takes a group over when it is Stable.",
    )
    MEMBER_LEADS = (
        "member_leads",
        "a member leads that may not be removed",
        (
            'With adopt = "when-empty", set "succeed" or "take-over"; otherwise restart the instances one after'
            " another, as `bellwether doctor` says."
        ),
    )
    UNDECLARED = (
        "undeclared",
        "a take-over needs a declaration that the settings lack",
        "Add the declaration that is named to the group's settings.",
    )
    BLOCKED = (
        "blocked",
        "a take-over would not succeed with the present members",
        "Do what the reason says, or stop all members for a moment.",
    )
    NO_PLAN = (
        "no_plan",
        "there is no plan that may be sent",
        "Fix what the reason names; `bellwether doctor` has the details. Bellwether keeps trying.",
    )
    SET_BACK = (
        "set_back",
        "the last attempt failed, or Bellwether gave the group back",
        (
            "Wait: Bellwether tries again by itself, at the time of the next attempt; `bellwether leave` and "
            "then `bellwether resume` have it try at once."
        ),
    )
    HANDED_BACK = (
        "handed_back",
        "members could not work by Bellwether's plan, so it gave the lead to one",
        (
            "Compare the topology file with `Topology.describe()`. Bellwether returns when its own plan would "
            "differ no more, or after `bellwether leave` and `bellwether resume`."
        ),
    )
    LEAVING = (
        "leaving",
        "Bellwether's LeaveGroup is under way",
        "Wait: a member takes over.",
    )
    ORDERED_OUT = (
        "ordered_out",
        "an operator ordered Bellwether to leave, or to release the empty group",
        "End the order with `bellwether resume`.",
    )
    STANDBY = (
        "standby",
        "another instance with the same instance id is to lead",
        "Nothing to do: another instance leads the group, and this one takes over when it stops.",
    )
    FENCED = (
        "fenced",
        "another process has joined with the same instance id",
        "Give each process an instance_id of its own, or set standby = true; then restart this one.",
    )
    CONVERTED = (
        "converted",
        "the group has been converted to KIP-848",
        'Set group.protocol=classic in its members, or mode = "observe" in the group\'s settings.',
    )
    UNFIT = (
        "unfit",
        "the group, or a setting, makes it impossible to lead",
        "Correct the setting that the reason names, then restart.",
    )
    DENIED = (
        "denied",
        "the brokers refuse Bellwether, or the group is full or has members with other protocols",
        "Do what the reason says: grant the ACL, correct the credentials or make room; Bellwether keeps trying.",
    )
    STOPPED = (
        "stopped",
        "the process is shutting down",
        "Start Bellwether again.",
    )
    FAILED = (
        "failed",
        "an internal error ended Bellwether's membership",
        "Report the error in the log, then restart.",
    )


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
        return self.reason.remedy if self.reason is not None else ""

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
