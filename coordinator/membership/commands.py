"""Everything that a `GroupMembership` can request of its runtime: a closed union of frozen values.

A broker that parks a JoinGroup or SyncGroup also holds up everything queued behind it on the same connection. So these
two use a connection of the group's own, and short requests share another
(docs/internals/broker-behaviour.md#parked-requests).
"""

from dataclasses import dataclass
from enum import Enum, auto

from bellwether_kafka.coordinator.membership.events import JoinedMember, Node


@dataclass(frozen=True, slots=True)
class FindCoordinator:
    """FindCoordinator with key type 0 (group). Any broker can answer; `attempt` counts the searches, so that each is
    sent to another broker."""

    request_id: int
    group_id: str
    timeout_ms: int
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class GroupRequest:
    """The fields that all requests to a coordinator node begin with."""

    request_id: int
    node: Node
    group_id: str
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class MemberRequest(GroupRequest):
    """The fields that all requests of Bellwether's own member begin with."""

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
    lane: int = 0  # which connection: a second JoinGroup needs another one while the first is parked


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
    """LeaveGroup for one member. An empty member id with an instance id removes the static member."""

    reason: str


@dataclass(frozen=True, slots=True)
class Evict(GroupRequest):
    """LeaveGroup for other members, by member id; they notice at their next request. With a `lane` it is queued behind
    the JoinGroup parked on that connection: a broker reads the next request of a connection only after answering the
    last."""

    member_ids: tuple[str, ...]
    reason: str
    lane: int | None = None


@dataclass(frozen=True, slots=True)
class Abandon:
    """Drops the connection on which the broker parks this JoinGroup or SyncGroup, whose answer is no longer needed."""

    request_id: int


@dataclass(frozen=True, slots=True)
class Decide:
    """Requests a plan for this generation by `deadline` (seconds, monotonic). If `dry`, the plan is only compared with
    the current assignment. `removed` are members that a take-over removed: they come back under other ids without a
    restart. `wanted` is why Bellwether wanted this rebalance, "" if it did not."""

    generation: int
    protocol: str
    members: tuple[JoinedMember, ...]
    own_member_id: str
    deadline: float
    dry: bool = False
    removed: tuple[str, ...] = ()
    wanted: str = ""


@dataclass(frozen=True, slots=True)
class RebuildMemory:
    """Requests reading every member's assignment by DescribeGroups: the broker kept the assignment of a returned static
    leader."""

    generation: int
    protocol: str
    members: tuple[JoinedMember, ...]


@dataclass(frozen=True, slots=True)
class PlanDelivered:
    """The broker has accepted Bellwether's assignments for this generation, which are remembered from now on."""

    generation: int


class NoteKind(Enum):
    LEADING = auto()
    ADOPTED = auto()  # Bellwether has taken over a group that a member led
    REFUSED = auto()  # Bellwether led a generation and left without a plan
    LEFT = auto()
    REJOINING = auto()
    WATCHING = auto()
    ALERT = auto()  # needs an operator's attention
    GHOST = auto()  # a dead member was removed


@dataclass(frozen=True, slots=True)
class Note:
    """One line for logs and metrics. `reason` is a sentence and may name members. `code` is a NotLeading value in notes
    of the kinds REFUSED and LEFT, "" in others."""

    kind: NoteKind
    reason: str
    generation: int = -1
    code: str = ""


@dataclass(frozen=True, slots=True)
class Fatal:
    """Bellwether can never lead this group. `message` is one sentence that names the group, the setting or ACL, and the
    remedy."""

    message: str
    exit_code: int


@dataclass(frozen=True, slots=True)
class MembershipStopped:
    """The last command of a machine, which ignores all later events."""


Request = FindCoordinator | Describe | Join | Sync | Heartbeat | Leave | Evict
Command = Request | Abandon | Decide | RebuildMemory | PlanDelivered | Note | Fatal | MembershipStopped
