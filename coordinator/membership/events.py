"""Everything that can happen to a `GroupMembership`, and what it tells its runtime besides requests: closed unions of
frozen values.

An answer carries the `request_id` of its request; the machine ignores answers that it no longer expects. `error` is
Kafka's error code, 0 for none. Bytes are passed on undecoded.
"""

from dataclasses import dataclass
from enum import Enum, StrEnum, auto

from bellwether_kafka.coordinator.membership.config import SizeLimit


class GroupState(StrEnum):
    """The states of a classic group, as brokers name them."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


REBALANCING = frozenset({GroupState.PREPARING, GroupState.COMPLETING})
# Every dynamic member has rejoined for this generation, so each member listed was alive a moment ago.
FINISHED = frozenset({GroupState.STABLE, GroupState.COMPLETING})
AT_REST = frozenset({GroupState.STABLE, GroupState.EMPTY})
VACANT = frozenset({GroupState.EMPTY, GroupState.DEAD})


@dataclass(frozen=True, slots=True)
class Node:
    """A broker, as FindCoordinator names it."""

    node_id: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """One entry of the members array in a JoinGroup answer, which only the leader receives. `metadata` is that of the
    chosen protocol. `client_id` is set in a dry run of a group that its broker assigns, where the member id does not
    begin with it."""

    member_id: str
    instance_id: str | None
    metadata: bytes
    client_id: str = ""


@dataclass(frozen=True, slots=True)
class DescribedMember:
    """One member of a DescribeGroups answer. Metadata and assignment are empty unless the group is Stable."""

    member_id: str
    instance_id: str | None
    metadata: bytes = b""
    assignment: bytes = b""
    client_id: str = ""
    client_host: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    request_id: int
    error: int


@dataclass(frozen=True, slots=True)
class CoordinatorAnswer(Answer):
    node: Node | None = None


@dataclass(frozen=True, slots=True)
class DescribeAnswer(Answer):
    """An answer to DescribeGroups. `state` is a GroupState; groups of KIP-848 have other states."""

    state: str = ""
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()
    message: str = ""


@dataclass(frozen=True, slots=True)
class JoinAnswer(Answer):
    """An answer to JoinGroup. `member_id` is also set with MEMBER_ID_REQUIRED. `members` is empty unless Bellwether
    leads."""

    generation: int = -1
    protocol: str = ""
    leader: str = ""
    member_id: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True)
class SyncAnswer(Answer):
    assignment: bytes = b""


class HeartbeatAnswer(Answer):
    __slots__ = ()


class LeaveAnswer(Answer):
    __slots__ = ()


class Failure(Enum):
    """Why a request got no answer."""

    DISCONNECTED = auto()
    TIMED_OUT = auto()
    AUTHENTICATION = auto()
    UNSUPPORTED = auto()  # broker and client share no version of the request
    MALFORMED = auto()  # an answer that cannot be decoded, or larger than the receive limit


@dataclass(frozen=True, slots=True)
class RequestFailed:
    request_id: int
    failure: Failure
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Wake:
    """The deadline that `GroupMembership.deadline` returned has come."""


@dataclass(frozen=True, slots=True)
class DecisionReady:
    """The plan for one generation, after the guard has accepted it. `pending`: some partitions are left to the next
    generation. `topics` are the application's, for Bellwether's own subscription later. `called_in_ms`: after this time
    the plan makes the first members rejoin by themselves; None if it does not."""

    generation: int
    assignments: tuple[tuple[str, bytes], ...]
    pending: bool = False
    topics: tuple[str, ...] = ()
    called_in_ms: int | None = None


@dataclass(frozen=True, slots=True)
class DecisionFailed:
    """No plan may be sent for this generation, for this reason."""

    generation: int
    reason: str


@dataclass(frozen=True, slots=True)
class ComparisonReady:
    """Answer to `Decide(dry=True)`. `worth_moving`: the plan that Bellwether would send now is worth a rebalance."""

    generation: int
    worth_moving: bool
    reason: str = ""
    topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ComparisonFailed:
    """The other answer to `Decide(dry=True)`: Bellwether could not lead this group now, for this reason."""

    generation: int
    reason: str


@dataclass(frozen=True, slots=True)
class RebalanceWanted:
    """Something that Bellwether watches requests a rebalance. `subject` is the kind, which damps it (`Reactions`): the
    same each time, whatever numbers the reason has."""

    reason: str
    subject: str


@dataclass(frozen=True, slots=True)
class StepAsideWanted:
    """Members do not work by Bellwether's plan: another member should lead. Handled only while Bellwether leads a
    stable group."""

    reason: str


@dataclass(frozen=True, slots=True)
class WorkSuspected:
    """Members do not work as before, without proof that the plan is the cause: alerts the operator."""

    reason: str


@dataclass(frozen=True, slots=True)
class HandBackRemembered:
    """An earlier process handed this group back `ago_s` seconds ago. `waits`: the topology that did harm then is still
    in use, and nothing has shown since that members work by it."""

    ago_s: float
    reason: str
    waits: bool


@dataclass(frozen=True, slots=True)
class OrdersInForce:
    """The operators' orders that are in force; sent as a whole and possibly repeated. Each is a sentence, "" for no
    such order. `leave`: leave the group and stay out. `pause`: begin no rebalance. `release`: stay out while no other
    member is in it."""

    leave: str
    pause: str
    release: str = ""


@dataclass(frozen=True, slots=True)
class RebalanceOrdered:
    """An operator orders a rebalance now, even during a pause or soon after the last one."""

    reason: str


@dataclass(frozen=True, slots=True)
class ActiveRoleChanged:
    """Whether this instance is to lead, among those that share the instance id. May be repeated."""

    active: bool
    reason: str


@dataclass(frozen=True, slots=True)
class OffsetsFound:
    """The group has committed offsets, so members have worked in it, although no answer has shown a member."""


@dataclass(frozen=True, slots=True)
class DeathsProven:
    """Members of this description are proven dead. They are removed as soon as Bellwether sorts first, or does not try
    to."""

    seen: DescribeAnswer
    dead: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OffsetsRead:
    """One reading of a group's offsets while it had no member. `committed`: it has some. `moves`: how often they have
    risen since the group has had no member. `rest_s`: for how long readings have shown the same."""

    committed: bool
    moves: int = 0
    rest_s: float = 0.0


@dataclass(frozen=True, slots=True)
class LeadRemembered:
    """An earlier process of Bellwether was still a member of this group `ago_s` seconds ago."""

    ago_s: float


@dataclass(frozen=True, slots=True)
class SizeLimitRead:
    """The result of another attempt to read the brokers' group.max.size, which was unknown."""

    limit: SizeLimit


@dataclass(frozen=True, slots=True)
class StopRequested:
    """The process is shutting down (SIGTERM)."""


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


Decided = DecisionReady | DecisionFailed | ComparisonReady | ComparisonFailed
Wanted = RebalanceWanted | RebalanceOrdered | StepAsideWanted | OrdersInForce | ActiveRoleChanged | StopRequested
Remembered = HandBackRemembered | LeadRemembered
Seen = OffsetsFound | OffsetsRead | DeathsProven | WorkSuspected | Remembered | SizeLimitRead
Event = Answer | RequestFailed | Wake | Decided | Wanted | Seen
Told = Decide | RebuildMemory | PlanDelivered | Note | Fatal | MembershipStopped
