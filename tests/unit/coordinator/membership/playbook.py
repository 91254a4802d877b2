"""A small language for scenarios about `GroupMembership`: events go in, the commands that come out are looked at.

A `Play` has a clock that only the scenario moves. Its group's members subscribe unless it says otherwise.
Answers are addressed to the last request of their kind by themselves. The group has no offsets, unless `offsets` is
another reading, or None for none.
"""

from typing import Any, TypeVar

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.membership import (
    INTERNAL_ERROR,
    Edge,
    Fatal,
    GroupMembership,
    MembershipConfig,
    NoteKind,
    SearchTurns,
    State,
)

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
    def __init__(self, *, turns: SearchTurns | None = None, **settings: object) -> None:
        settings = {"subscribes": True, "group_id": "orders", **settings}
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

    def described(self, state: str = "Empty", *members: membership.DescribedMember, **more: object) -> "Play":
        answer = {"error": 0, "protocol_type": "consumer" if members else "", **more}
        return self.send(
            membership.DescribeAnswer(self.requests[membership.Describe], state=state, members=members, **answer)
        )

    def joined(
        self, *members: membership.JoinedMember, generation: int = 1, leader: str = ME, **more: object
    ) -> "Play":
        answer = {"error": 0, "protocol": "range", "member_id": ME, "members": members, **more}
        return self.send(
            membership.JoinAnswer(self.requests[membership.Join], generation=generation, leader=leader, **answer)
        )

    def refused(self, error: int, **more: str) -> "Play":
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
        return self.machine.state

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
