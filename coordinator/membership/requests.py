"""What a `GroupMembership` asks of its runtime, a closed union of frozen values; and which requests and timers of one
group are under way, and whose answers are still needed. Nothing here makes a decision.

A broker that parks a JoinGroup or SyncGroup also holds up everything queued behind it on the same connection. So these
two use a connection of the group's own, and short requests share another
(docs/internals/broker-behaviour.md#parked-requests). At most one request of each kind is under way, except JoinGroups
of temporary members.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from bellwether_kafka.coordinator.membership import events
from bellwether_kafka.coordinator.membership.config import MembershipConfig
from bellwether_kafka.coordinator.membership.events import JoinAnswer, Node

NO_GENERATION = -1
REASON_LENGTH_MAX = 255  # Java clients send no more


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


Request = FindCoordinator | Describe | Join | Sync | Heartbeat | Leave | Evict
Command = Request | Abandon | events.Told


class Kind(Enum):
    FIND = auto()
    DESCRIBE = auto()
    JOIN = auto()
    JOIN_AGAIN = auto()  # under the same instance id, while the first is parked
    BLOCKER = auto()  # a JoinGroup that only reserves a pending id
    GIVE_BACK = auto()  # LeaveGroup of Bellwether's pending ids
    TEMPORARY = auto()  # JoinGroups of temporary members, many at once
    SHRINK = auto()  # LeaveGroup of temporary members
    OPEN = auto()  # LeaveGroup of the opener, queued behind its JoinGroup: opens the next rebalance
    EVICT = auto()  # LeaveGroup of another member
    SYNC = auto()
    HEARTBEAT = auto()
    LEAVE = auto()


class Timer(Enum):
    WATCH = auto()
    RETRY = auto()
    HEARTBEAT = auto()
    DECISION = auto()
    COALESCE = auto()
    LINGER = auto()
    FOLLOWUP = auto()
    REBALANCE = auto()
    LEAVE = auto()
    TAKEOVER = auto()


class Sent(NamedTuple):
    """What is sent for a kind. `limit`: the setting that limits how long its answer may take; a broker that parks a
    JoinGroup also parks what is queued behind it. `own`: for Bellwether's own member; only a take-over needs answers to
    those for other members and pending ids. `parks`: the broker may keep it until a rebalance ends, which costs a
    connection, usually that of the `lane`."""

    request: Callable[..., "Request"]
    limit: str
    own: bool = False
    parks: bool = False
    lane: int = 0


SENT: dict[Kind, Sent] = {
    Kind.FIND: Sent(FindCoordinator, "request_timeout_ms", own=True),
    Kind.DESCRIBE: Sent(Describe, "request_timeout_ms", own=True),
    Kind.JOIN: Sent(Join, "join_timeout_ms", own=True, parks=True),
    Kind.JOIN_AGAIN: Sent(Join, "join_timeout_ms", parks=True, lane=1),
    Kind.BLOCKER: Sent(Join, "join_timeout_ms", parks=True, lane=1),
    Kind.TEMPORARY: Sent(Join, "join_timeout_ms", lane=2),  # the first one's; each has its own
    Kind.OPEN: Sent(Evict, "join_timeout_ms"),
    Kind.GIVE_BACK: Sent(Evict, "leave_ms_max"),
    Kind.SHRINK: Sent(Evict, "leave_ms_max"),
    Kind.EVICT: Sent(Evict, "leave_ms_max"),
    Kind.SYNC: Sent(Sync, "session_timeout_ms", own=True, parks=True),
    Kind.HEARTBEAT: Sent(Heartbeat, "request_timeout_ms", own=True),
    Kind.LEAVE: Sent(Leave, "leave_ms_max", own=True),
}


class Timers:
    """Named deadlines in seconds, at most one per name."""

    def __init__(self) -> None:
        self._at: dict[Timer, float] = {}

    def __contains__(self, timer: Timer) -> bool:
        return timer in self._at

    def set(self, timer: Timer, at: float) -> None:
        self._at[timer] = at

    def at(self, timer: Timer) -> float | None:
        return self._at.get(timer)

    def clear(self, *timers: Timer) -> None:
        for timer in timers:
            self._at.pop(timer, None)

    def earliest(self) -> float | None:
        return min(self._at.values(), default=None)

    def take_due(self, now: float) -> Timer | None:
        """Removes and returns the timer that has been due for longest."""
        due = [(at, timer.value, timer) for timer, at in self._at.items() if at <= now]
        if not due:
            return None
        timer = min(due)[2]
        del self._at[timer]
        return timer


class Requests:
    """Builds the commands that are requests. `node` is the coordinator node, None until it is found. While `paused` (a
    back-off) nothing is sent; leaving the group ends the back-off."""

    def __init__(self, config: MembershipConfig) -> None:
        self.config = config
        self.out: list[Command] = []
        self.node: Node | None = None
        self.member_id = ""
        self.generation = NO_GENERATION
        self.protocol = ""
        self.protocols = config.protocols  # what Bellwether offers
        self.paused = False
        self._last_id = 0
        self._searches = 0
        self._waiting: dict[Kind, int] = {}
        self._temporary: set[int] = set()  # unanswered JoinGroups of temporary members
        self._temporary_last = 0  # the last request since their connections were dropped; 0 for none
        self._parked_at: Node | None = None

    def drain(self) -> tuple[Command, ...]:
        out, self.out = tuple(self.out), []
        return out

    def waits_for(self, kind: Kind) -> bool:
        return bool(self._temporary) if kind is Kind.TEMPORARY else kind in self._waiting

    def arrived(self, request_id: int) -> Kind | None:
        """Returns the kind of the request that this answers; None if its answer is no longer needed."""
        if request_id in self._temporary:
            self._temporary.remove(request_id)
            return Kind.TEMPORARY
        for kind, waiting in self._waiting.items():
            if waiting == request_id:
                del self._waiting[kind]
                return kind
        return None

    def abandon(self, *kinds: Kind) -> None:
        if Kind.TEMPORARY in kinds:
            self._drop_temporary()
        for kind in kinds:
            request_id = self._waiting.pop(kind, None)
            if request_id is not None and SENT[kind].parks:
                self.out.append(Abandon(request_id))

    def _drop_temporary(self) -> None:
        """Drops the connections of temporary members, even if all are answered: there may be a hundred."""
        if self._temporary_last:
            self.out.append(Abandon(self._temporary_last))
        self._temporary.clear()
        self._temporary_last = 0

    def admitted(self, answer: JoinAnswer) -> None:
        """Takes over the member id, generation and protocol of the answer."""
        self.member_id, self.generation, self.protocol = answer.member_id, answer.generation, answer.protocol

    @property
    def ready(self) -> bool:
        """True if a request would be sent at once."""
        return self.node is not None and not self.paused

    def parked_elsewhere(self) -> bool:
        """Returns whether a JoinGroup or SyncGroup is parked at a node that is no longer the coordinator node."""
        parked = Kind.JOIN in self._waiting or Kind.SYNC in self._waiting
        return parked and self._parked_at != self.node

    def _send(self, kind: Kind, **fields: object) -> bool:
        """Sends a request unless one of its kind is under way; if the coordinator node is not known, searches for it
        instead. Returns whether it was sent."""
        if kind in self._waiting or self.paused:
            return False
        if self.node is None and kind is not Kind.FIND:
            self.find()
            return False
        self._last_id += 1
        self._waiting[kind] = self._last_id
        self.out.append(self._request(kind, self._last_id, **fields))
        if kind in (Kind.JOIN, Kind.SYNC):
            self._parked_at = self.node
        return True

    def _request(self, kind: Kind, request_id: int, **fields: object) -> Request:
        if kind is not Kind.FIND:
            fields["node"] = self.node
        group, timeout_ms = self.config.group_id, getattr(self.config, SENT[kind].limit)
        return SENT[kind].request(request_id=request_id, group_id=group, timeout_ms=timeout_ms, **fields)

    def find(self) -> None:
        # A broker with outdated metadata names a dead node repeatedly: ask another broker next time.
        if self._send(Kind.FIND, attempt=self._searches):
            self._searches += 1

    def describe(self) -> bool:
        return self._send(Kind.DESCRIBE)

    def join(
        self,
        metadata: bytes,
        reason: str,
        *,
        kind: Kind = Kind.JOIN,
        member_id: str | None = None,
        static: bool = True,
        besides: tuple[str, ...] = (),
        lane: int | None = None,
    ) -> None:
        """Sends JoinGroup, by default as Bellwether's own member. `besides`: protocol names to offer last."""
        own = self.member_id if member_id is None else member_id
        lane = SENT[kind].lane if lane is None else lane
        self._send(kind, **self._joining(metadata, reason, own, lane, static=static, besides=besides))

    def join_temporary(self, metadata: bytes, reason: str, member_id: str, number: int) -> None:
        """Sends JoinGroup of a temporary member; an empty `member_id` requests an id. `number` selects its connection,
        as each member needs its own."""
        if not self.ready:
            return
        self._last_id += 1
        self._temporary.add(self._last_id)
        self._temporary_last = self._last_id
        fields = self._joining(metadata, reason, member_id, SENT[Kind.TEMPORARY].lane + number, static=False)
        self.out.append(self._request(Kind.TEMPORARY, self._last_id, **fields))

    def _joining(
        self, metadata: bytes, reason: str, member_id: str, lane: int, *, static: bool, besides: tuple[str, ...] = ()
    ) -> dict[str, object]:
        config = self.config
        return {
            "member_id": member_id,
            "instance_id": config.instance_id if static else None,
            "protocols": tuple((name, metadata) for name in (*self.protocols, *besides)),
            "reason": reason[:REASON_LENGTH_MAX],
            "session_timeout_ms": config.session_timeout_ms,
            "rebalance_timeout_ms": config.rebalance_timeout_ms,
            "lane": lane,
        }

    def _as_member(self) -> dict[str, object]:
        return {"member_id": self.member_id, "instance_id": self.config.instance_id}

    def sync(self, assignments: tuple[tuple[str, bytes], ...]) -> None:
        of = {"generation": self.generation, "protocol": self.protocol, "assignments": assignments}
        self._send(Kind.SYNC, **self._as_member(), **of)

    def heartbeat(self) -> bool:
        return self._send(Kind.HEARTBEAT, **self._as_member(), generation=self.generation)

    def evict(
        self, member_ids: tuple[str, ...], reason: str, *, kind: Kind = Kind.EVICT, lane: int | None = None
    ) -> None:
        """Sends LeaveGroup for other members: a leader that Bellwether replaces, or Bellwether's pending ids. With a
        `lane` the broker reads it once it has answered the JoinGroup parked there."""
        self._send(kind, member_ids=member_ids, reason=reason[:REASON_LENGTH_MAX], lane=lane)

    def leave(self, reason: str) -> None:
        self._send(Kind.LEAVE, **self._as_member(), reason=reason[:REASON_LENGTH_MAX])

    def last_leave(self, reason: str) -> Request | None:
        if self.node is None or not self.member_id:
            return None
        return self._request(Kind.LEAVE, 0, **self._as_member(), reason=reason[:REASON_LENGTH_MAX])
