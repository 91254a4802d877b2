"""Brokers of one group as a guard's requests meet them, and a process that ends on command."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bellwether_kafka.coordinator import control, membership
from bellwether_kafka.coordinator.control import Record
from bellwether_kafka.coordinator.guard.guarded import Guarded
from bellwether_kafka.coordinator.kafka.wire import (
    BrokerGroup,
    DescribeMany,
    DescribeManyByBroker,
    DescribeTransaction,
    FenceProducer,
    FindLeader,
    FindTransactionCoordinator,
    ReadRecords,
    RemovedMembers,
    RemoveMembers,
    RemoveStreamsMember,
    TransportError,
)
from bellwether_kafka.coordinator.kafka.wire.producer_requests import DescribedTransaction
from bellwether_kafka.coordinator.kafka.wire.topic_log import (
    AppendedRecord,
    AppendRecord,
    FindStart,
    LeaderFound,
    ReadLog,
    StartFound,
)
from bellwether_kafka.coordinator.membership import (
    CoordinatorAnswer,
    DescribeAnswer,
    DescribedMember,
    Failure,
    Node,
    RequestFailed,
)

NODE = Node(1, "broker", 9092)
GONE = 25  # UNKNOWN_MEMBER_ID


@dataclass
class Brokers:
    """`request` and `ask` of the transport. `down`: nobody answers. `codes` are answered in front of the good one, by
    kind of request. The next request of the kind `loses_answer_to` is carried out, but its answer is lost. `before` is
    called with each request of `ask`. Removals are carried out `answers_after_s` before they are answered."""

    group: DescribeAnswer = field(default_factory=lambda: DescribeAnswer(0, 0, "Empty"))
    down: bool = False
    removed: list[str] = field(default_factory=list)
    fenced: list[str] = field(default_factory=list)
    log: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    starts_at: int = 0
    no_topic: bool = False
    codes: dict[type, list[int]] = field(default_factory=dict)
    asked: list[Any] = field(default_factory=list)
    loses_answer_to: type | None = None
    before: Callable[[Any], object] = lambda _: None
    by_broker: BrokerGroup | None = None  # the group, if its broker assigns
    answers_after_s: float = 0.0
    broker_version: tuple[int, ...] = (4, 3)
    transaction: DescribedTransaction = field(default_factory=lambda: DescribedTransaction(0, "Ongoing", 4))

    def show(self, *members: DescribedMember, state: str = "Stable") -> None:
        self.group = DescribeAnswer(0, 0, state, "consumer", "range", members)

    def echo(self, record: Record) -> None:
        self.log.append(control.encode(record))

    async def request(self, command: membership.Request) -> membership.Answer | RequestFailed:
        await asyncio.sleep(0)
        self.asked.append(command)
        if self.down:
            return RequestFailed(0, Failure.DISCONNECTED, "no broker")
        if isinstance(command, membership.FindCoordinator):
            return CoordinatorAnswer(0, 0, NODE)
        raise AssertionError(command)

    async def ask(self, request: Any) -> Any:
        await asyncio.sleep(0)
        self.asked.append(request)
        self.before(request)
        if self.down:
            raise TransportError(Failure.DISCONNECTED, "no broker")
        code = self._code(type(request))
        match request:
            case RemoveMembers():
                answer = RemovedMembers(code, {} if code else {name: self._remove(name) for name, _ in request.members})
                await asyncio.sleep(self.answers_after_s)
                return answer
            case DescribeMany() | DescribeManyByBroker():
                return self._described(request, code)
            case RemoveStreamsMember():
                return code or self._remove(request.member_id)
            case FindTransactionCoordinator():
                return CoordinatorAnswer(0, code, None if code else NODE)
            case DescribeTransaction():
                return DescribedTransaction(code) if code else self.transaction
            case FenceProducer():
                self.fenced += [] if code else [request.transactional_id]
                return code
            case FindLeader():
                return LeaderFound(3) if self.no_topic else LeaderFound(code, None if code else NODE)
            case FindStart():
                return StartFound(code, self.starts_at)
            case ReadLog():
                return self._read(request, code)
            case AppendRecord():
                self.log += [] if code else [(request.key, request.value)]
                self._lose_answer_to(request)
                return AppendedRecord(code)
        raise AssertionError(request)

    def _described(self, request: DescribeMany | DescribeManyByBroker, code: int) -> dict[str, Any]:
        (group_id,) = request.group_ids
        if isinstance(request, DescribeManyByBroker):
            assert self.by_broker is not None
            missing = BrokerGroup(group_id, request.protocol, 69)
            return {group_id: self.by_broker if request.protocol == self.by_broker.protocol else missing}
        if self.by_broker is not None:
            return {group_id: DescribeAnswer(0, 69, message="Group is not a classic group.")}
        return {group_id: DescribeAnswer(0, code) if code else self.group}

    def _lose_answer_to(self, request: Any) -> None:
        if type(request) is self.loses_answer_to:
            self.loses_answer_to = None
            raise TransportError(Failure.TIMED_OUT, "no answer")

    def _code(self, kind: type) -> int:
        return self.codes[kind].pop(0) if self.codes.get(kind) else 0

    def _remove(self, member_id: str) -> int:
        if self.by_broker is not None:
            self.removed.append(member_id)
            return 0
        if not any(m.member_id == member_id for m in self.group.members):
            return GONE
        self.removed.append(member_id)
        left = tuple(m for m in self.group.members if m.member_id != member_id)
        self.show(*left, state="PreparingRebalance")
        return 0

    def _read(self, request: ReadLog, code: int) -> ReadRecords:
        batch = self.log[request.offset :]
        return ReadRecords(code, tuple(batch), request.offset + len(batch), len(self.log))


class Process(Guarded):
    """Ends when `end` is called, or when it is stopped and `carries_out`."""

    def __init__(self, *, own: bool = True, lived_s: float = 60.0, carries_out: bool = True) -> None:
        super().__init__()
        self.pid = 4_000_000
        self.began = time.monotonic() - lived_s
        self.stopped = False
        self.when_stopped: Callable[[], object] = lambda: None
        self.left_behind = False
        self._own, self._carries_out = own, carries_out

    @property
    def stopped_by_guard(self) -> bool:
        return self._own

    def stop(self) -> None:
        self.when_stopped()
        self.stopped = True
        if self._carries_out:
            self.end()

    def end(self) -> None:
        self._end()

    def sigterm(self) -> None:
        self._on_sigterm()

    def is_own(self, process: int) -> bool:
        return self._own

    def is_gone_whole(self) -> bool:
        return self.ended and not self.left_behind
