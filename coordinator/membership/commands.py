"""Everything that a `GroupMembership` can request of its runtime: a closed union of frozen values.

A broker parks JoinGroup and SyncGroup together with everything queued behind them on the same connection, so those two
travel on a connection of the group's own, and the short ones share another
(docs/reference/broker-behaviour.md#parked-requests).
"""

from dataclasses import dataclass
from enum import Enum, auto

from bellwether_kafka.coordinator.membership.events import JoinedMember, Node


@dataclass(frozen=True, slots=True)
class FindCoordinator:
    """Key type 0 (group). Any broker can answer; `attempt` counts the searches, so that each asks another broker."""

    request_id: int
    group_id: str
    timeout_ms: int
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class GroupRequest:
    """What all requests to a coordinator node begin with."""

    request_id: int
    node: Node
    group_id: str
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class MemberRequest(GroupRequest):
    """What all requests of Bellwether's own member begin with."""

    member_id: str
    instance_id: str | None


class Describe(GroupRequest):
    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Join(MemberRequest):
    protocols: tuple[tuple[str, bytes], ...]
    reason: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    lane: int = 0  # a second JoinGroup of the group needs a second connection while the first is parked


@dataclass(frozen=True, slots=True)
class Sync(MemberRequest):
    generation: int
    protocol: str
    assignments: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Heartbeat(MemberRequest):
    generation: int


@dataclass(frozen=True, slots=True)
class Leave(MemberRequest):
    """LeaveGroup for one member; an empty member id with an instance id removes the static member."""

    reason: str


@dataclass(frozen=True, slots=True)
class Evict(GroupRequest):
    """LeaveGroup for other members, by member id: they find out by their next request. With a lane it waits behind the
    JoinGroup that is parked there: brokers read the next request of a connection when they have answered the last."""

    member_ids: tuple[str, ...]
    reason: str
    lane: int | None = None


@dataclass(frozen=True, slots=True)
class Abandon:
    """Nobody waits for this JoinGroup or SyncGroup any more: drop the connection on which the broker parks it."""

    request_id: int


@dataclass(frozen=True, slots=True)
class Decide:
    """Plan for this generation until `deadline` (seconds, monotonic). A dry one is only compared with what is.
    `removed` are members that Bellwether has removed to lead: they are back under other ids, and have not restarted."""

    generation: int
    protocol: str
    members: tuple[JoinedMember, ...]
    own_member_id: str
    deadline: float
    dry: bool = False
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RebuildMemory:
    """The broker kept the assignment of a returned static leader: read what every member holds from DescribeGroups."""

    generation: int
    protocol: str
    members: tuple[JoinedMember, ...]


@dataclass(frozen=True, slots=True)
class PlanDelivered:
    """The broker took Bellwether's assignments for this generation: they are history from now on."""

    generation: int


class NoteKind(Enum):
    LEADING = auto()
    ADOPTED = auto()  # a group that a member led is Bellwether's now
    REFUSED = auto()  # a generation that Bellwether led and gave back without a plan: always with a reason
    LEFT = auto()
    REJOINING = auto()
    WATCHING = auto()
    ALERT = auto()  # an operator should look
    GHOST = auto()  # a dead member was removed


@dataclass(frozen=True, slots=True)
class Note:
    """One line for logs and metrics. `reason` is a sentence, which may name members; `code` is the reason not to lead
    of a note of the kinds REFUSED and LEFT, one of few words, "" of others."""

    kind: NoteKind
    reason: str
    generation: int = -1
    code: str = ""


@dataclass(frozen=True, slots=True)
class Fatal:
    """This group cannot be led. One sentence that names the group, the setting or the ACL, and the remedy."""

    message: str
    exit_code: int


@dataclass(frozen=True, slots=True)
class MembershipStopped:
    """Last command of a machine; it ignores every later event."""


Request = FindCoordinator | Describe | Join | Sync | Heartbeat | Leave | Evict
Command = Request | Abandon | Decide | RebuildMemory | PlanDelivered | Note | Fatal | MembershipStopped
