"""The model of the group and a real broker, side by side: each request goes to both, and after each one every answer
that is due, and what DescribeGroups shows, must be equal.

Requests and answers are the product's own (`coordinator.kafka.wire.group_messages`), in the newest versions. The real
broker goes first, because it makes the member ids; the model is given them. What the model parks must be parked by it.
"""

import os
import re
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from kafka.protocol.admin.groups import DescribeGroupsResponse
from kafka.protocol.consumer.group import HeartbeatResponse, JoinGroupResponse, LeaveGroupResponse, SyncGroupResponse

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.kafka.wire.group_messages import answer, message
from bellwether_kafka.coordinator.membership import Code
from tests.interop.support.raw import find_coordinator
from tests.kit.membership import HashOrder
from tests.simulation.brokers.broker import serve
from tests.simulation.brokers.group_model import Group
from tests.simulation.brokers.group_states import EMPTY, PREPARING
from tests.simulation.brokers.hooks import Hooks
from tests.simulation.clock import Clock

NODE = membership.Node(1, "broker1", 9092)
CLIENT_ID = "duel"
ANSWER_LIMIT_S = float(os.environ.get("BELLWETHER_DUEL_LIMIT_S", "60"))
Scenario = list[str]
NOISE = re.compile(r"request_id=0, |node=Node\(.*?\), |group_id='.*?', |, timeout_ms=0(, lane=(0|None))?")

VERSIONS: dict[type[Any], tuple[int, Any]] = {
    membership.Join: (9, JoinGroupResponse),
    membership.Sync: (5, SyncGroupResponse),
    membership.Heartbeat: (4, HeartbeatResponse),
    membership.Leave: (5, LeaveGroupResponse),
    membership.Evict: (5, LeaveGroupResponse),
    membership.Describe: (5, DescribeGroupsResponse),
}


class MismatchError(AssertionError):
    """Model and broker differ; the message is the scenario so far."""


class Wire:
    """One connection with at most one request under way."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), timeout=ANSWER_LIMIT_S)
        self._number = 0
        self._sent: membership.Request | None = None

    @property
    def busy(self) -> bool:
        return self._sent is not None

    def send(self, command: membership.Request) -> None:
        self._number += 1
        self._sent = command
        request = message(command)
        request.API_VERSION = VERSIONS[type(command)][0]
        request.with_header(correlation_id=self._number, client_id=CLIENT_ID)
        self._socket.sendall(request.encode(header=True, framed=True))

    def poll(self, limit_s: float) -> Any:
        """The answer if it comes within `limit_s`, else None."""
        if not select.select([self._socket], [], [], limit_s)[0]:
            return None
        data = self._exactly(struct.unpack(">i", self._exactly(4))[0])
        command, self._sent = self._sent, None
        assert command is not None
        version, kind = VERSIONS[type(command)]
        return answer(command, kind.decode(data, version=version, header=True))

    def ask(self, command: membership.Request) -> Any:
        self.send(command)
        return self.poll(ANSWER_LIMIT_S)

    def close(self) -> None:
        self._socket.close()

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            if not part:
                raise ConnectionError("the broker closed the connection")
            data += part
        return data


@dataclass
class Person:
    """One process that wants to be a member, as far as it knows itself."""

    name: str
    instance_id: str | None = None
    member_id: str = ""
    generation: int = -1
    parked: bool = False


@dataclass
class Call:
    """One request at both; answered by the model as soon as `heard` has something."""

    who: Person
    command: membership.Request
    wire: Wire
    received: list[Any] = field(default_factory=list)
    came: Any = None  # the broker's answer, if it was read before the model was asked

    def poll(self, limit_s: float) -> Any:
        return self.came if self.came is not None else self.wire.poll(limit_s)


class Duel:
    """One group. `scenario` has a line for each request and answer."""

    def __init__(
        self,
        bootstrap: str,
        group_id: str,
        initial_delay_s: float,
        order: HashOrder = HashOrder.JAVA,
        size_max: int | None = None,
    ) -> None:
        self.group_id = group_id
        self.answers = 0
        self.clock = Clock()
        self.scenario: Scenario = []
        self._ids: deque[str] = deque()
        nothing: Callable[..., None] = lambda *_: None  # noqa: E731 - four hooks that nobody listens to
        hooks = Hooks(nothing, self._new_id, nothing, nothing, nothing, initial_delay_s, order, size_max)
        self.group = Group(self.clock, hooks)
        self._address = find_coordinator(bootstrap, group_id)[1:]
        self._wires: list[Wire] = []
        self._observer = Wire(*self._address)
        self._open: list[Call] = []
        self._names: dict[str, str] = {}

    def close(self) -> None:
        for wire in (self._observer, *self._wires):
            wire.close()

    # ---- requests --------------------------------------------------------------------------------------------------

    def join(
        self,
        who: Person,
        protocols: tuple[tuple[str, bytes], ...],
        *,
        session_ms: int = 120_000,
        rebalance_ms: int = 120_000,
    ) -> None:
        self.do(
            who,
            membership.Join(
                0,
                NODE,
                self.group_id,
                0,
                who.member_id,
                who.instance_id,
                protocols,
                "",
                session_ms,
                rebalance_ms,
            ),
        )

    def sync(
        self,
        who: Person,
        plan: tuple[tuple[str, bytes], ...] = (),
        *,
        generation: int | None = None,
        protocol: str | None = None,
    ) -> None:
        generation = who.generation if generation is None else generation
        protocol = self.group.protocol if protocol is None else protocol
        self.do(
            who,
            membership.Sync(
                0, NODE, self.group_id, 0, who.member_id, who.instance_id, generation, protocol or "x", plan
            ),
        )

    def heartbeat(self, who: Person, *, generation: int | None = None) -> None:
        generation = who.generation if generation is None else generation
        self.do(who, membership.Heartbeat(0, NODE, self.group_id, 0, who.member_id, who.instance_id, generation))

    def leave(self, who: Person, *, member_id: str | None = None, instance_id: str | None = None) -> None:
        """Itself by default; another member by its id; a static one by its instance id and an empty member id."""
        target = who.member_id if member_id is None else member_id
        self.do(who, membership.Leave(0, NODE, self.group_id, 0, target, instance_id, ""))

    def do(self, who: Person, command: membership.Request) -> None:
        self.scenario.append(f"{who.name}: {self._short(command)}")
        wire = self._idle_wire()
        wire.send(command)
        call = Call(who, command, wire)
        if isinstance(command, membership.Join):
            call.came = self._learn_id(call)
        self._ask_model(call)
        self._open.append(call)
        self.settle()

    def settle(self) -> None:
        """Lets the wait for the first members of an empty group pass, and compares all that is to be seen."""
        self.clock.run_until(lambda: self.group.state != PREPARING or not self.group._initial)
        self._compare_all()

    def until(self, over: Callable[[], bool]) -> None:
        """Lets time pass until this has come true in the model; the broker must follow."""
        self.clock.run_until(over)
        self.scenario.append(f"... {self.clock.now:.1f} s")
        self._compare_all()

    def _idle_wire(self) -> Wire:
        for wire in self._wires:
            if not wire.busy:
                return wire
        self._wires.append(Wire(*self._address))
        return self._wires[-1]

    # ---- ids -------------------------------------------------------------------------------------------------------

    def _new_id(self, _: str) -> str:
        return self._ids.popleft() if self._ids else "an id that the broker did not make"

    def _learn_id(self, call: Call) -> Any:
        """The id that the broker makes for a JoinGroup without one; its answer too if it has come with it."""
        command = call.command
        assert isinstance(command, membership.Join)
        if command.member_id:
            return None
        deadline = time.monotonic() + ANSWER_LIMIT_S
        while time.monotonic() < deadline:
            came = call.wire.poll(0.02)
            if came is not None:
                if came.member_id:
                    self._give_id(call.who, came.member_id)
                return came
            if command.instance_id is None:
                continue
            holder = [m.member_id for m in self._described().members if m.instance_id == command.instance_id]
            if holder and holder[0] not in self._names:
                self._give_id(call.who, holder[0])
                return None
        raise self._mismatch("the broker makes no member id")

    def _give_id(self, who: Person, member_id: str) -> None:
        self._ids.append(member_id)
        times = sum(name.startswith(who.name) for name in self._names.values())
        self._names[member_id] = f"{who.name}{times + 1}"

    # ---- both sides ------------------------------------------------------------------------------------------------

    def _ask_model(self, call: Call) -> None:
        if isinstance(call.command, membership.Join):
            call.who.parked = True
        serve(self.group, call.command, CLIENT_ID, call.received.append)

    def _compare_all(self) -> None:
        """Every call that the model has answered, those that it has not, and the group as it can be seen."""
        for call in [call for call in self._open if call.received]:
            self._open.remove(call)
            came = call.poll(ANSWER_LIMIT_S)
            if came is None:
                raise self._mismatch(f"{call.who.name} hears {self._short(call.received[0])} from the model only")
            self._compare(call, came)
        self._compare_pictures()
        for call in self._open:
            came = call.poll(0)
            if came is not None:
                raise self._mismatch(f"{call.who.name} hears {self._short(came)} from the broker only")

    def _compare(self, call: Call, came: Any) -> None:
        if not call.received:
            raise self._mismatch(f"{call.who.name} hears {self._short(came)} from the broker only")
        self.answers += 1
        expected = call.received[0]
        self.scenario.append(f"    {call.who.name} hears {self._short(came)}")
        if _essence(expected) != _essence(came):
            raise self._mismatch(f"the model said {self._short(expected)}")
        if isinstance(came, membership.JoinAnswer):
            call.who.parked = False
            if came.error in (0, Code.MEMBER_ID_REQUIRED):
                call.who.member_id = came.member_id
            if not came.error:
                call.who.generation = came.generation

    def _described(self) -> membership.DescribeAnswer:
        seen: membership.DescribeAnswer = self._observer.ask(membership.Describe(0, NODE, self.group_id, 0))
        return seen

    def _compare_pictures(self) -> None:
        if self.group.generation == 0 and not self.group.member_entries:
            return  # whether a group exists before its first member is nobody's business
        expected = _picture(self.group.describe())
        deadline = time.monotonic() + ANSWER_LIMIT_S
        while (seen := _picture(self._described())) != expected:
            if time.monotonic() > deadline:
                raise self._mismatch(f"the broker shows {self._short(seen)}, the model {self._short(expected)}")
            time.sleep(0.02)

    def _short(self, what: Any) -> str:
        text = NOISE.sub("", str(what))
        for member_id, name in self._names.items():
            text = text.replace(member_id, name)
        return text

    def _mismatch(self, text: str) -> MismatchError:
        return MismatchError("\n".join([*self.scenario, f"MISMATCH: {text}"]))


def _essence(received: Any) -> Any:
    """An answer without what nobody reads: fields beside an error."""
    if isinstance(received, membership.JoinAnswer) and received.error:
        return membership.JoinAnswer(
            0, received.error, member_id=received.member_id if received.error == Code.MEMBER_ID_REQUIRED else ""
        )
    return (
        replace(received, assignment=b"")
        if isinstance(received, membership.SyncAnswer) and received.error
        else received
    )


def _picture(seen: membership.DescribeAnswer) -> membership.DescribeAnswer:
    """What DescribeGroups shows without the address of the client; an empty group has nothing but its state."""
    members = tuple(replace(member, client_host="") for member in seen.members)
    return replace(seen, members=members, message="", protocol_type="" if seen.state == EMPTY else seen.protocol_type)
