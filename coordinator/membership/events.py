"""Everything that can happen to a `GroupMembership`: a closed union of frozen values.

Answers carry the `request_id` of the command that asked; the machine ignores an answer that it no longer waits for.
`error` is Kafka's error code, 0 for none. Bytes are passed on undecoded.
"""

from dataclasses import dataclass
from enum import Enum, StrEnum, auto

from bellwether_kafka.coordinator.membership.config import SizeLimit


class GroupState(StrEnum):
    """The state of a classic group, by the broker's words."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


REBALANCING = frozenset({GroupState.PREPARING, GroupState.COMPLETING})
# Every dynamic member has come back for the generation: who is listed was alive a moment ago.
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
    """One entry of the members array that only the leader gets. `metadata` belongs to the chosen protocol."""

    member_id: str
    instance_id: str | None
    metadata: bytes


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
    """`state` is one of GroupState, and a word of its own for a group of KIP-848."""

    state: str = ""
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()
    message: str = ""


@dataclass(frozen=True, slots=True)
class JoinAnswer(Answer):
    """`member_id` is also set with MEMBER_ID_REQUIRED. `members` is empty unless Bellwether leads."""

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
    """Why there is no answer at all."""

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
    """The deadline that the machine asked for has come."""


@dataclass(frozen=True, slots=True)
class DecisionReady:
    """The plan for one generation, past the guard. `topics` are the application's, for Bellwether's own subscription
    later. `called_in_ms`: so much later the plan has the first members join again by themselves; None where it does not
    say so."""

    generation: int
    assignments: tuple[tuple[str, bytes], ...]
    pending: bool = False
    topics: tuple[str, ...] = ()
    called_in_ms: int | None = None


@dataclass(frozen=True, slots=True)
class DecisionFailed:
    """No plan may be sent for this generation; the reason is for people."""

    generation: int
    reason: str


@dataclass(frozen=True, slots=True)
class ComparisonReady:
    """Answer to `Decide(dry=True)`: is what Bellwether would send now worth a rebalance?"""

    generation: int
    worth_moving: bool
    reason: str = ""
    topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ComparisonFailed:
    """The other answer to `Decide(dry=True)`: Bellwether could not lead this group now."""

    generation: int
    reason: str


@dataclass(frozen=True, slots=True)
class RebalanceWanted:
    """The metadata watch, weights or an operator ask for a new rebalance."""

    reason: str


@dataclass(frozen=True, slots=True)
class StepAsideWanted:
    """Bellwether's plan does the group no good: a member should lead. Heard while Bellwether leads a group at rest."""

    reason: str


@dataclass(frozen=True, slots=True)
class WorkSuspected:
    """Members do not work as they did, and nothing proves that the plan is to blame: an operator should look."""

    reason: str


@dataclass(frozen=True, slots=True)
class HandBackRemembered:
    """This group was handed back `ago_s` seconds ago, by an earlier process. `waits`: the topology that did harm then
    is still the one in use, and nothing has shown since that members work by it."""

    ago_s: float
    reason: str
    waits: bool


@dataclass(frozen=True, slots=True)
class OrdersInForce:
    """What operators have ordered and what stands: a level, may be repeated. Each is a sentence, "" for no such order.
    `leave`: out of the group and not back. `pause`: begin no rebalance. `release`: out of it while no other member is
    there."""

    leave: str
    pause: str
    release: str = ""


@dataclass(frozen=True, slots=True)
class RebalanceOrdered:
    """An operator wants a new rebalance now, whatever pauses or spaces Bellwether's."""

    reason: str


@dataclass(frozen=True, slots=True)
class ActiveRoleChanged:
    """Among instances with one instance id it is, or is not, for Bellwether to lead: a level, may be repeated."""

    active: bool
    reason: str


@dataclass(frozen=True, slots=True)
class OffsetsFound:
    """The group has committed offsets: members have worked in it, although no answer to Bellwether has shown
    anybody."""


@dataclass(frozen=True, slots=True)
class DeathsProven:
    """Members of this description are proven to be dead. They are removed as soon as Bellwether is in front, or does
    not try to be."""

    seen: DescribeAnswer
    dead: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OffsetsMoved:
    """Offsets have been committed while the group had no member: consumers assign themselves partitions."""


@dataclass(frozen=True, slots=True)
class SizeLimitRead:
    """The brokers have been asked again for their group.max.size, which was not known."""

    limit: SizeLimit


@dataclass(frozen=True, slots=True)
class StopRequested:
    """SIGTERM."""


Decided = DecisionReady | DecisionFailed | ComparisonReady | ComparisonFailed
Wanted = RebalanceWanted | RebalanceOrdered | StepAsideWanted | OrdersInForce | ActiveRoleChanged | StopRequested
Seen = OffsetsFound | OffsetsMoved | DeathsProven | WorkSuspected | HandBackRemembered | SizeLimitRead
Event = Answer | RequestFailed | Wake | Decided | Wanted | Seen
