"""The members of the broker's classic group, as its coordinator node holds, orders and persists them."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from bellwether_kafka.coordinator.membership import DescribedMember, Join, JoinAnswer, SyncAnswer
from tests.kit.membership import BrokerTable, HashOrder
from tests.simulation.clock import Handle

Reply = Callable[[Any], None]


@dataclass
class GroupMember:
    """One member, as the coordinator node holds it."""

    member_id: str
    instance_id: str | None
    client_id: str
    protocols: tuple[tuple[str, bytes], ...]
    session_s: float
    rebalance_s: float
    assignment: bytes = b""
    is_new: bool = True
    join: Reply | None = None
    sync: Reply | None = None
    timer: Handle | None = None

    def metadata(self, protocol: str) -> bytes:
        return dict(self.protocols).get(protocol, b"")

    def kept(self) -> "GroupMember":
        """What a record holds."""
        return replace(self, is_new=False, join=None, sync=None, timer=None)

    @classmethod
    def of(cls, request: Join, member_id: str, client_id: str, reply: Reply) -> "GroupMember":
        """A new one, by its first JoinGroup."""
        times_s = request.session_timeout_ms / 1000, request.rebalance_timeout_ms / 1000
        return cls(member_id, request.instance_id, client_id, request.protocols, *times_s, join=reply)

    def update(self, request: Join, reply: Reply | None) -> None:
        """By another JoinGroup. One that this one replaces is never answered: its sender has given it up."""
        self.protocols = request.protocols
        self.session_s = request.session_timeout_ms / 1000
        self.rebalance_s = request.rebalance_timeout_ms / 1000
        self.join = reply

    def answer_join(self, answer: JoinAnswer) -> None:
        reply, self.join = self.join, None
        if reply is not None:
            reply(answer)

    def answer_sync(self, answer: SyncAnswer) -> bool:
        """Whether a SyncGroup was parked."""
        reply, self.sync = self.sync, None
        if reply is not None:
            reply(answer)
        return reply is not None

    def described(self, protocol: str, *, stable: bool, shown: bool) -> DescribedMember:
        metadata = self.metadata(protocol) if stable else b""
        assignment = self.assignment if shown else b""
        return DescribedMember(self.member_id, self.instance_id, metadata, assignment, self.client_id, "host")


@dataclass
class Record:
    """The group as it was last persisted."""

    generation: int
    protocol: str
    leader: str | None
    member_entries: tuple[GroupMember, ...]


@dataclass
class Table:
    """The broker's hash table: by bucket, then by arrival (Java) or by hash (Scala); it never shrinks."""

    order: HashOrder = HashOrder.JAVA
    member_entries: dict[str, GroupMember] = field(default_factory=dict)
    shape: BrokerTable = field(init=False)

    def __post_init__(self) -> None:
        self.shape = BrokerTable(self.order)

    def put(self, member_entry: GroupMember) -> None:
        self.member_entries[member_entry.member_id] = member_entry
        self.shape = self.shape.grown(len(self.member_entries))

    def holder(self, instance_id: str) -> GroupMember | None:
        return next((s for s in self.member_entries.values() if s.instance_id == instance_id), None)

    def listed(self) -> list[GroupMember]:
        return [self.member_entries[member_id] for member_id in self.shape.listed(self.member_entries)]
