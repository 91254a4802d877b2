"""One script for the model of the group and for a real broker: the same requests in the same order, every answer noted.

Member ids differ, so notes name members by who they are. JoinGroup goes out in version 5 and SyncGroup in version 3;
what only later versions have (skipAssignment) is left out.
"""

import select
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from coordinator import commands as c
from coordinator import events as e
from tests.interop import raw
from tests.simulation.clock import Clock
from tests.simulation.group_model import Group, Hooks

PARKED = "parked"
UNHEARD_S = 1.5  # a real broker that has not answered by then has parked the request
PARKED_LIMIT_S = 12.0
NODE = e.Node(1, "broker1", 9092)
Note = tuple[Any, ...]


@dataclass
class Person:
    """A member as the script knows it. `knows` are the ids that it has been given, the latest last."""

    name: str
    instance_id: str | None = None
    member_id: str = ""
    generation: int = -1
    knows: tuple[str, ...] = ()

    def learn(self, member_id: str, generation: int) -> None:
        if member_id and member_id != self.member_id:
            self.member_id, self.knows = member_id, (*self.knows, member_id)
        if generation >= 0:
            self.generation = generation


class Side(Protocol):
    """The model or a real broker. Each call returns a note; PARKED when the answer is yet to come (`later`)."""

    def join(self, who: Person, metadata: bytes, protocol: str, session_ms: int) -> Note: ...
    def sync(self, who: Person, plan: tuple[tuple[str, bytes], ...], generation: int) -> Note: ...
    def later(self, who: Person) -> Note: ...
    def heartbeat(self, who: Person, member_id: str, generation: int) -> Note: ...
    def leave(self, who: Person, member_id: str) -> Note: ...


class Script:
    """`run` plays it; `notes` are the answers in their order."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.notes: list[Note] = []
        self.people = [Person("a"), Person("b"), Person("s", instance_id="static")]

    def run(self) -> None:
        for work in (self.first_round, self.second_round, self.at_rest, self.third_round, self.static, self.goodbye):
            self.notes.append((work.__name__,))
            work()

    def first_round(self) -> None:
        a = self.people[0]
        self._join(a)
        self._join(a)
        self._later(a)
        self._sync(a, (a,))
        self._beat(a)

    def second_round(self) -> None:
        a, b, _ = self.people
        self._join(b)
        self._join(b)  # parked: a has not come back
        self._beat(a)
        self._sync(a, (a,))  # of the round before
        self._join(a)
        self._later(a)
        self._later(b)
        self._sync(b)  # parked: the leader has no plan yet
        self._beat(a)
        self._join(a)  # unchanged while the plan is awaited: the same generation
        self._sync(a, (a, b))
        self._later(b)

    def at_rest(self) -> None:
        a, b, _ = self.people
        self._join(b)  # a follower, unchanged
        self._sync(b)
        self._sync(a, (a,))  # a second plan changes nothing
        self._sync(b)
        self._beat(a, generation=a.generation - 1)
        self._beat(a, member_id="nobody")
        self._sync(b, generation=b.generation - 1)
        stranger = Person("x")
        self._join(stranger, protocol="unheard-of")
        self._join(stranger, session_ms=5_999)
        stranger.member_id = "nobody"
        self._join(stranger)
        self.notes.append(("leave", self.side.leave(stranger, "nobody")))

    def third_round(self) -> None:
        a, b, _ = self.people
        self._join(b, b"new")  # a follower with other bytes starts a round
        self._beat(b)
        self._beat(a)
        self._join(a)
        self._later(a)
        self._later(b)
        self._sync(b)
        self._sync(a, (a,))  # b is left out
        self._later(b)
        self._join(a)  # the leader starts a round by coming back
        self._beat(b)
        self._join(b, b"new")
        self._later(a)
        self._sync(b)
        self._join(b, b"newer")  # changed while the plan is awaited: the round is void
        self._join(a)
        self._later(b)
        self._sync(a, (a, b))
        self._sync(b)

    def static(self) -> None:
        a, b, s = self.people
        self._join(s)
        self._beat(a)
        self._join(a)
        self._join(b, b"newer")
        self._later(a)
        self._later(s)
        self._sync(a, (a, b, s))
        self._sync(s)
        self._sync(b)
        former = s.member_id
        s.member_id = ""
        self._join(s)  # the same instance in a new process: no round
        self._sync(s)
        self._beat(s)
        self._beat(s, member_id=former)
        self._sync(s, member_id=former)
        self._beat(a)

    def goodbye(self) -> None:
        a, b, s = self.people
        self.notes.append(("leave", self.side.leave(a, a.member_id)))
        self._beat(a)
        self._beat(b)
        self._join(b, b"newer")
        self._join(s)
        self._later(b)
        self._sync(b, (b, s))
        self._sync(s, (b, s))
        self._beat(b)

    # ---- one request each ------------------------------------------------------------------------------------------

    def _join(
        self, who: Person, metadata: bytes = b"topics", *, protocol: str = "range", session_ms: int = 30_000
    ) -> None:
        self.notes.append(("join", who.name, self._named(self.side.join(who, metadata, protocol, session_ms))))

    def _sync(
        self,
        who: Person,
        given: tuple[Person, ...] = (),
        *,
        generation: int | None = None,
        member_id: str | None = None,
    ) -> None:
        plan = tuple((person.member_id, f"for {person.name}".encode()) for person in given)
        now, who.member_id = who.member_id, member_id or who.member_id
        self.notes.append(("sync", who.name, self.side.sync(who, plan, generation or who.generation)))
        who.member_id = now

    def _later(self, who: Person) -> None:
        self.notes.append(("later", who.name, self._named(self.side.later(who))))

    def _beat(self, who: Person, *, member_id: str | None = None, generation: int | None = None) -> None:
        answer = self.side.heartbeat(who, member_id or who.member_id, generation or who.generation)
        self.notes.append(("heartbeat", who.name, answer))

    def _named(self, note: Note) -> Note:
        return tuple(tuple(map(self._name, v)) if isinstance(v, tuple) else self._name(v) for v in note)

    def _name(self, value: Any) -> Any:
        for person in self.people:
            if isinstance(value, str) and value in person.knows:
                return f"{person.name}, id {person.knows.index(value) + 1}"
        return value


class Real:
    """A broker on loopback; `ids` are those that it has made, in their order."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self._bootstrap, self._group = bootstrap, group
        self._connections: dict[str, raw.Connection] = {}
        self._others: dict[str, raw.Connection] = {}
        self._waiting: dict[str, Callable[[Any], Note]] = {}
        self.ids: list[str] = []

    def close(self) -> None:
        for connection in (*self._connections.values(), *self._others.values()):
            connection.close()

    def _connection(self, who: Person, among: dict[str, raw.Connection]) -> raw.Connection:
        if who.name not in among:
            among[who.name] = raw.connect_to_coordinator(self._bootstrap, self._group)
        return among[who.name]

    def join(self, who: Person, metadata: bytes, protocol: str, session_ms: int) -> Note:
        body = raw.text(self._group) + struct.pack(">ii", session_ms, 30_000) + raw.text(who.member_id)
        body += raw.text(who.instance_id) + raw.text("consumer") + struct.pack(">i", 1) + raw.text(protocol)
        body += struct.pack(">i", len(metadata)) + metadata
        return self._park(who, raw.JOIN, body, lambda answer: self._joined(who, answer))

    def _joined(self, who: Person, answer: Any) -> Note:
        answer.take("i")
        error, generation = answer.take("h"), answer.take("i")
        protocol, leader, member_id = answer.text(), answer.text(), answer.text()
        members = []
        for _ in range(answer.take("i")):
            members.append(answer.text())
            answer.text()
            answer.blob()
        if not error or error == raw.MEMBER_ID_REQUIRED:
            if member_id not in self.ids:
                self.ids.append(member_id)
            who.learn(member_id, generation)
        return (error, generation, protocol, leader, tuple(members)) if not error else (error,)

    def sync(self, who: Person, plan: tuple[tuple[str, bytes], ...], generation: int) -> Note:
        body = raw.text(self._group) + struct.pack(">i", generation) + raw.text(who.member_id)
        body += raw.text(who.instance_id) + struct.pack(">i", len(plan))
        for member_id, blob in plan:
            body += raw.text(member_id) + struct.pack(">i", len(blob)) + blob
        return self._park(who, raw.SYNC, body, _synced)

    def _park(self, who: Person, key: int, body: bytes, read: Callable[[Any], Note]) -> Note:
        if self._waiting.pop(who.name, None) is not None:  # a broker reads nothing behind a parked request
            self._connections.pop(who.name).close()
        connection = self._connection(who, self._connections)
        connection.send(key, body)
        if _heard(connection, UNHEARD_S):
            return read(connection.receive())
        self._waiting[who.name] = read
        return (PARKED,)

    def later(self, who: Person) -> Note:
        read = self._waiting.pop(who.name, None)
        if read is None:
            return ("nothing is awaited",)
        connection = self._connections[who.name]
        return read(connection.receive()) if _heard(connection, PARKED_LIMIT_S) else ("no answer",)

    def heartbeat(self, who: Person, member_id: str, generation: int) -> Note:
        body = raw.text(self._group) + struct.pack(">i", generation) + raw.text(member_id) + raw.text(who.instance_id)
        answer = self._connection(who, self._others).ask(raw.HEARTBEAT, body)
        answer.take("i")
        return (answer.take("h"),)

    def leave(self, who: Person, member_id: str) -> Note:
        answer = self._connection(who, self._others).ask(raw.LEAVE, raw.text(self._group) + raw.text(member_id))
        answer.take("i")
        return (answer.take("h"),)


def _heard(connection: raw.Connection, limit_s: float) -> bool:
    return bool(select.select([connection._socket], [], [], limit_s)[0])


def _synced(answer: Any) -> Note:
    answer.take("i")
    error = answer.take("h")
    return (error, answer.blob()) if not error else (error,)


class Model:
    """The model, fed with the ids that the real broker has made."""

    def __init__(self, ids: list[str], initial_delay_s: float) -> None:
        self.clock = Clock()
        self._ids: Iterator[str] = iter(ids)
        self._heard: dict[str, list[Any]] = {}
        self._waiting: dict[str, Callable[[Any], Note]] = {}
        self.group = Group(
            self.clock,
            Hooks(
                lambda _: None,
                lambda _: next(self._ids),
                lambda: None,
                lambda *_: None,
                lambda _: None,
                initial_delay_s=initial_delay_s,
            ),
        )

    def join(self, who: Person, metadata: bytes, protocol: str, session_ms: int) -> Note:
        request = c.Join(
            0, NODE, "g", who.member_id, who.instance_id, ((protocol, metadata),), "", session_ms, 30_000, 0
        )
        heard: list[Any] = []
        self.group.join(request, "raw", heard.append)
        return self._park(who, heard, lambda answer: self._joined(who, answer))

    def _joined(self, who: Person, answer: e.JoinAnswer) -> Note:
        if not answer.error or answer.error == raw.MEMBER_ID_REQUIRED:
            who.learn(answer.member_id, answer.generation)
        if answer.error:
            return (int(answer.error),)
        members = tuple(member.member_id for member in answer.members)
        return (0, answer.generation, answer.protocol, answer.leader, members)

    def sync(self, who: Person, plan: tuple[tuple[str, bytes], ...], generation: int) -> Note:
        request = c.Sync(0, NODE, "g", who.member_id, who.instance_id, generation, self.group.protocol, plan, 0)
        heard: list[Any] = []
        self.group.sync(request, heard.append)
        return self._park(who, heard, lambda a: (int(a.error),) if a.error else (0, a.assignment))

    def _park(self, who: Person, heard: list[Any], read: Callable[[Any], Note]) -> Note:
        self._live(UNHEARD_S)
        if heard:
            return read(heard[0])
        self._heard[who.name], self._waiting[who.name] = heard, read
        return (PARKED,)

    def later(self, who: Person) -> Note:
        read = self._waiting.pop(who.name, None)
        if read is None:
            return ("nothing is awaited",)
        heard = self._heard[who.name]
        limit = self.clock.now + PARKED_LIMIT_S
        while not heard and self.clock.step(limit):
            pass
        return read(heard[0]) if heard else ("no answer",)

    def heartbeat(self, who: Person, member_id: str, generation: int) -> Note:
        heard: list[Any] = []
        self.group.heartbeat(member_id, who.instance_id, generation, heard.append)
        return (int(heard[0].error),)

    def leave(self, who: Person, member_id: str) -> Note:
        return (int(self.group.remove(member_id, None)),)

    def _live(self, seconds: float) -> None:
        end = self.clock.now + seconds
        while self.clock.step(end):
            pass
