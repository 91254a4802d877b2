"""A small language for scenarios about `GroupMembership`: events go in, the commands that come out are looked at.
And the members that brokers describe.

A `Play` has a clock that only the scenario moves. Its group's members subscribe unless it says otherwise.
Answers are addressed to the last request of their kind by themselves. The group has no offsets, unless `offsets` is
another reading, or None for none.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, TypeVar

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.membership import (
    INTERNAL_ERROR,
    DescribeAnswer,
    DescribedMember,
    Edge,
    Fatal,
    GroupMembership,
    MembershipConfig,
    NoteKind,
    SearchTurns,
    State,
    Timer,
    Transitions,
)
from bellwether_kafka.protocol.messages import (
    AssignmentInfo,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    SubscriptionInfo,
)
from bellwether_kafka.protocol.primitives import ProcessId, TopicPartition, string_code

NODE = membership.Node(1, "broker1", 9092)
OTHER_NODE = membership.Node(2, "broker2", 9092)
ME = "bw-1"
DRY_RUN = -1  # the generation of a plan that is only compared
C = TypeVar("C", bound=membership.Command)


def member(member_id: str, instance_id: str | None = None) -> membership.JoinedMember:
    return membership.JoinedMember(member_id, instance_id, b"metadata of " + member_id.encode())


def seen(member_id: str, instance_id: str | None = None) -> membership.DescribedMember:
    return membership.DescribedMember(member_id, instance_id)


class Play:
    def __init__(self, *, turns: SearchTurns | None = None, **changes: Any) -> None:
        settings: dict[str, Any] = {"subscribes": True, "group_id": "orders", **changes}
        offsets = settings.pop("offsets", membership.OffsetsRead(committed=False))
        self.config = MembershipConfig(**settings)
        self.edges: list[Edge[Any]] = []
        self.machine = GroupMembership(self.config, self.edges.append, turns)
        self.now = 100.0
        self.seen: list[membership.Command] = []
        self.requests: dict[type, int] = {}
        self.last = self._take(self.machine.start(self.now))
        if isinstance(offsets, membership.OffsetsRead):
            self._take(self.machine.handle(offsets, self.now))

    # ---- what happens ----

    def send(self, event: membership.Event) -> "Play":
        self.last = self._take(self.machine.handle(event, self.now))
        return self

    def later(self, seconds: float) -> "Play":
        """Time passes without an event: the process was paused."""
        self.now += seconds
        return self

    def wake(self) -> "Play":
        """On to the next deadline."""
        deadline = self.machine.deadline()
        assert deadline is not None, "nothing is due ever"
        self.now = max(self.now, deadline)
        return self.send(membership.Wake())

    def run(self, seconds: float, heartbeats: int | None = 0) -> list[membership.Command]:
        """Lives through this time, with every heartbeat answered by `heartbeats` (None: not at all)."""
        end, out = self.now + seconds, list[membership.Command]()
        while (deadline := self.machine.deadline()) is not None and deadline <= end:
            self.wake()
            out += self.last
            while heartbeats is not None and any(isinstance(command, membership.Heartbeat) for command in self.last):
                self.heartbeat(heartbeats)
                out += self.last
        self.now = end
        return out

    def until_join(self, counts: list[int | None]) -> float:
        """Lives on until a Join comes and returns how long that took. Heartbeats are answered with 27, head counts with
        these numbers of members (the last one again and again), None for a broker that describes no groups."""
        began, refreshes, todo = self.now, 0, list(self.last)
        for _ in range(500):
            match todo.pop(0) if todo else None:
                case None:
                    self.wake()
                case membership.Join():
                    return self.now - began
                case membership.Heartbeat():
                    self.heartbeat(27)
                case membership.Describe():
                    count = counts[min(refreshes, len(counts) - 1)]
                    refreshes += 1
                    people = [seen(str(i)) for i in range(count or 0)]
                    self.described("PreparingRebalance", *people, error=69 if count is None else 0)
                case _:
                    continue
            todo += self.last
        raise AssertionError("it never came back")

    def coordinator_found(self, node: membership.Node | None = NODE, error: int = 0) -> "Play":
        return self.send(
            membership.CoordinatorAnswer(self.requests[membership.FindCoordinator], error, node if not error else None)
        )

    def described(self, state: str = "Empty", *members: membership.DescribedMember, **more: Any) -> "Play":
        answer: dict[str, Any] = {"error": 0, "protocol_type": "consumer" if members else "", **more}
        return self.send(
            membership.DescribeAnswer(self.requests[membership.Describe], state=state, members=members, **answer)
        )

    def joined(self, *members: membership.JoinedMember, generation: int = 1, leader: str = ME, **more: Any) -> "Play":
        answer: dict[str, Any] = {"error": 0, "protocol": "range", "member_id": ME, "members": members, **more}
        return self.send(
            membership.JoinAnswer(self.requests[membership.Join], generation=generation, leader=leader, **answer)
        )

    def refused(self, error: int, **more: Any) -> "Play":
        return self.send(membership.JoinAnswer(self.requests[membership.Join], error, **more))

    def planned(
        self,
        generation: int = 1,
        *,
        pending: bool = False,
        topics: tuple[str, ...] = ("t",),
        called_in_ms: int | None = None,
    ) -> "Play":
        others = [m.member_id for m in self.machine.view.members if m.member_id != ME]
        plan = tuple((member_id, b"plan of " + member_id.encode()) for member_id in others)
        return self.send(membership.DecisionReady(generation, (*plan, (ME, b"nothing")), pending, topics, called_in_ms))

    def synced(self, error: int = 0) -> "Play":
        return self.send(membership.SyncAnswer(self.requests[membership.Sync], error))

    def heartbeat(self, error: int = 0) -> "Play":
        return self.send(membership.HeartbeatAnswer(self.requests[membership.Heartbeat], error))

    def left(self, error: int = 0) -> "Play":
        return self.send(membership.LeaveAnswer(self.requests[membership.Leave], error))

    def failed(
        self,
        kind: type[membership.Request],
        failure: membership.Failure = membership.Failure.DISCONNECTED,
        reason: str = "x",
    ) -> "Play":
        return self.send(membership.RequestFailed(self.requests[kind], failure, reason))

    # ---- beginnings ----

    def joining(self) -> "Play":
        return self.coordinator_found().described()

    def deciding(self, generation: int = 1, *others: str) -> "Play":
        members = [member(ME), *map(member, others or ("a",))]
        return self.joining().joined(*members, generation=generation)

    def stable(self) -> "Play":
        """Leads member "a" in generation 1."""
        return self.deciding().planned().synced()

    def stable_alone(self) -> "Play":
        return self.joining().joined(member(ME)).synced()

    # ---- what came of it ----

    @property
    def state(self) -> State:
        return self.machine.view.state

    def sent(self, kind: type[C]) -> C:
        """The one command of this kind in the last answer."""
        (command,) = [command for command in self.last if isinstance(command, kind)]
        return command

    def kinds(self) -> list[str]:
        """The last answer without its notes."""
        return [type(command).__name__ for command in self.last if not isinstance(command, membership.Note)]

    def notes(self) -> list[tuple[membership.NoteKind, str]]:
        return [(command.kind, command.reason) for command in self.seen if isinstance(command, membership.Note)]

    def _take(self, commands: tuple[membership.Command, ...]) -> tuple[membership.Command, ...]:
        for command in commands:
            self.seen.append(command)
            assert not (isinstance(command, membership.Note) and command.reason.startswith(INTERNAL_ERROR)), (
                command.reason
            )
            if isinstance(command, membership.Request):
                self.requests[type(command)] = command.request_id
        return commands


UNKNOWN_SERVER_ERROR, UNNAMED_ERROR = -1, 99


def fatal_of(play: Play) -> Fatal:
    (fatal,) = [command for command in play.seen if isinstance(command, Fatal)]
    return fatal


def alerts(play: Play) -> list[str]:
    return [reason for kind, reason in play.notes() if kind is NoteKind.ALERT]


def edges(transitions: Transitions[Any]) -> Iterator[Edge[Any]]:
    for state, by_trigger in transitions.items():
        for on, by_next in by_trigger.items():
            yield from (Edge(state, on, to) for to in by_next)


def trigger_name(on: Timer | type) -> str:
    return f"timer {on.name}" if isinstance(on, Timer) else on.__name__


def own_subscription(*topics: str, streams: bool = False) -> bytes:
    return ConsumerProtocolSubscription(0, topics, SubscriptionInfo().encode() if streams else b"").encode()


def own_assignment(*, streams: bool = False) -> bytes:
    return ConsumerProtocolAssignment(user_data=AssignmentInfo().encode() if streams else None).encode()


GROUP = "wordcount"
P1 = "00112233-4455-6677-8899-aabbccddeeff"
P2 = "00112233-4455-6677-8899-aabbccddee00"


def thread_id(process: str, number: int = 1, group: str = GROUP) -> str:
    return f"{group}-{process}-StreamThread-{number}-consumer"


def subscribed(process: str) -> bytes:
    info = SubscriptionInfo(process_id=ProcessId.of_bytes(bytes.fromhex(process.replace("-", ""))))
    return ConsumerProtocolSubscription(version=3, topics=("in",), user_data=info.encode()).encode()


def thread(member_id: str, process: str = P1, number: int = 1, host: str = "/10.0.0.1") -> DescribedMember:
    return DescribedMember(member_id, None, subscribed(process), client_id=thread_id(process, number), client_host=host)


def plain(member_id: str, client_id: str = "app-1", host: str = "/10.0.0.1") -> DescribedMember:
    return DescribedMember(member_id, None, client_id=client_id, client_host=host)


def readme_member(letter: str, rack: str, partitions: range) -> DescribedMember:
    sent = ConsumerProtocolSubscription(version=3, topics=("orders",), rack_id=rack).encode()
    has = ConsumerProtocolAssignment(0, tuple(TopicPartition("orders", p) for p in partitions)).encode()
    member_id = f"checkout-{letter}-{letter}f0c2b7e-5d14-4c0a-9b57-2f1f6c1f8a3d"
    return DescribedMember(member_id, None, sent, has, f"checkout-{letter}", "/10.0.0.7")


README_MEMBERS = (readme_member("a", "az1", range(3)), readme_member("b", "az2", range(3, 6)))
README_INSTANCE = DescribedMember(
    "bellwether-1", "bellwether", own_subscription("orders"), b"", "bellwether", "/10.0.0.9"
)
README_GROUPS = {
    "billing": DescribeAnswer(0, 0, "Empty", "consumer"),
    "orders": DescribeAnswer(0, 0, "Stable", "consumer", "range", README_MEMBERS),
    "shipping": DescribeAnswer(0, 0, "Stable", "consumer", "range", (*README_MEMBERS, README_INSTANCE)),
}


BUCKETS_MIN = 16


class HashOrder(Enum):
    JAVA = "java"  # java.util.HashMap, Kafka 4: by bucket, then by arrival
    SCALA = "scala"  # scala.collection.mutable.HashMap, Kafka 3.9 and before: by bucket, then by the signed hash


@lru_cache(maxsize=100_000)
def spread_hash(key: str) -> int:
    """h ^ h >>> 16 of String.hashCode, unsigned."""
    value = string_code(key)
    return value ^ value >> 16


def buckets_for(members: int, order: HashOrder = HashOrder.JAVA) -> int:
    """The buckets of a table that never held more: it doubles above 3/4 in Java, at 3/4 in Scala."""
    buckets = BUCKETS_MIN
    while members > buckets * 3 // 4 - (order is HashOrder.SCALA):
        buckets *= 2
    return buckets


@dataclass(frozen=True, slots=True)
class BrokerTable:
    order: HashOrder = HashOrder.JAVA
    buckets: int = BUCKETS_MIN

    def place(self, member_id: str) -> tuple[int, int]:
        """What it sorts by; members with equal places are in the order of their arrival."""
        spread = spread_hash(member_id)
        signed = spread - (1 << 32) if spread >> 31 else spread
        return spread & (self.buckets - 1), signed if self.order is HashOrder.SCALA else 0

    def listed(self, member_ids: Iterable[str]) -> list[str]:
        return sorted(member_ids, key=self.place)

    def grown(self, members: int) -> "BrokerTable":
        return BrokerTable(self.order, max(self.buckets, buckets_for(members, self.order)))

    def before(self, member_ids: Iterable[str], own: str) -> list[str]:
        """Those that sort before a new member with this id."""
        return [m for m in member_ids if m != own and self.place(m) <= self.place(own)]

    def unavoidable(self, member_ids: Iterable[str]) -> list[str]:
        """Those that no new member sorts before: in Java's table the ones of the first bucket."""
        return [m for m in member_ids if self.order is HashOrder.JAVA and self.place(m) == (0, 0)]
