"""Requests about one group: describes it and removes members. Finds the coordinator node again when it has moved. An
error that a retry cannot fix is reported as a sentence. LeaveGroup removes members of classic groups and of groups of
the consumer protocol, the heartbeat of their own protocol those of the streams protocol
(docs/internals/broker-behaviour.md#kip-848-conversion)."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.guard.broker_group import as_described
from bellwether_kafka.coordinator.kafka.wire import (
    BrokerProtocol,
    DescribeByBroker,
    NodeRequest,
    RemovedMembers,
    RemoveMembers,
    RemoveStreamsMember,
    TransportError,
)
from bellwether_kafka.coordinator.membership import Code, DescribeAnswer, Failure, Node, RequestFailed

T = TypeVar("T")

REQUEST_TIMEOUT_MS = 2_000
RETRY_S = 0.1
# Temporary errors, while a coordinator node moves or starts. All other errors are final.
PASSING = (Code.COORDINATOR_LOAD_IN_PROGRESS, Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR)
PROTOCOLS: tuple[BrokerProtocol, ...] = ("consumer", "streams")
SHARE_GROUP = "it is neither a group of consumers nor of Kafka Streams, and a share group has no partitions to free"
DONE = (Code.NONE, Code.UNKNOWN_MEMBER_ID)  # the member was removed, or had already left


class GroupRequests(Protocol):
    """The part of `coordinator.kafka.wire.Transport` that a guard uses."""

    async def request(self, command: membership.Request) -> membership.Answer | RequestFailed: ...
    async def ask(self, request: NodeRequest[T]) -> T: ...


class GroupLink:
    """Requests about one group, for use in one event loop. `trouble` is why the last request failed, "" if it
    succeeded. `passes`: a retry may succeed soon."""

    def __init__(self, transport: GroupRequests, group_id: str) -> None:
        self.group_id = group_id
        self.transport = transport
        self.trouble = ""
        self.passes = True
        self._node: Node | None = None
        self._protocol: BrokerProtocol | None = None  # None: a classic group
        self._searches = 0

    async def node(self) -> Node | None:
        """Returns the coordinator node, None if not found. It also answers requests for which any broker will do."""
        if self._node is None:
            search = membership.FindCoordinator(0, self.group_id, REQUEST_TIMEOUT_MS, self._searches)
            self._searches += 1
            coordinator = await self.transport.request(search)
            if not isinstance(coordinator, membership.CoordinatorAnswer) or coordinator.node is None:
                self.lost(_why(coordinator, self.group_id), passes=_passes(coordinator))
                return None
            self._node, self._searches = coordinator.node, 0
        return self._node

    async def describe(self) -> DescribeAnswer | None:
        """Returns the description of the group, None if it cannot be used (`trouble` is why)."""
        node = await self.node()
        if node is None:
            return None
        answer = await self.transport.request(membership.Describe(0, node, self.group_id, REQUEST_TIMEOUT_MS))
        if isinstance(answer, DescribeAnswer) and membership.assigned_by_broker(answer):
            answer = await self._describe_by_broker(node)
        else:
            self._protocol = None  # not before: a removal may begin while a broker is asked which protocol it is
        if not isinstance(answer, DescribeAnswer) or answer.error not in (Code.NONE, Code.GROUP_ID_NOT_FOUND):
            self.lost(_why(answer, self.group_id))
            return None
        self.trouble = ""
        return answer

    async def _describe_by_broker(self, node: Node) -> DescribeAnswer | RequestFailed:
        """Returns the description of a group whose broker assigns."""
        for protocol in PROTOCOLS:
            describe = DescribeByBroker(node, self.group_id, protocol, REQUEST_TIMEOUT_MS)
            try:
                group = await self.transport.ask(describe)
            except TransportError as error:
                return RequestFailed(0, error.failure, str(error))
            if group.error != Code.GROUP_ID_NOT_FOUND:
                self._protocol = protocol
                return as_described(group)
        return RequestFailed(0, Failure.UNSUPPORTED, SHARE_GROUP)

    async def remove(self, member_ids: Sequence[str], reason: str) -> Mapping[str, int]:
        """Sends LeaveGroup for these members and retries until a broker gives a final answer. Returns Kafka's code for
        each member; empty if the whole request was refused (`trouble` says why). Call it with a timeout."""
        while True:
            node = await self.node()
            answer = await self._try_to_remove(node, member_ids, reason) if node is not None else None
            if answer is not None and answer.error not in PASSING:
                if answer.error:
                    self.lost(_why(answer, self.group_id))
                return answer.errors if not answer.error else {}
            await asyncio.sleep(RETRY_S)

    async def _try_to_remove(self, node: Node, member_ids: Sequence[str], reason: str) -> RemovedMembers | None:
        try:
            if self._protocol == "streams":
                answer = await self._end_streams_members(node, member_ids)
            else:
                members = tuple((member_id, reason) for member_id in member_ids)
                answer = await self.transport.ask(RemoveMembers(node, self.group_id, members, REQUEST_TIMEOUT_MS))
        except TransportError as error:
            self.lost(str(error))
            return None
        if answer.error in PASSING:
            self.lost(membership.name_of(answer.error))
        return answer

    async def _end_streams_members(self, node: Node, member_ids: Sequence[str]) -> RemovedMembers:
        codes = {
            member_id: await self.transport.ask(RemoveStreamsMember(node, self.group_id, member_id, REQUEST_TIMEOUT_MS))
            for member_id in member_ids
        }
        of_group = next((code for code in codes.values() if code in (*PASSING, Code.GROUP_AUTHORIZATION_FAILED)), 0)
        return RemovedMembers(of_group, codes)

    def lost(self, why: str, *, passes: bool = True) -> None:
        """Records the failure and forgets the coordinator node, so that the next request finds it again."""
        self._node = None
        self.trouble, self.passes = why, passes


def _why(answer: object, group_id: str) -> str:
    if isinstance(answer, RequestFailed):
        return answer.reason or answer.failure.name.lower()
    error = int(getattr(answer, "error", Code.UNKNOWN_SERVER_ERROR))
    if error == Code.GROUP_AUTHORIZATION_FAILED:
        return f"Bellwether's principal needs the ACL READ on Group '{group_id}'"
    return membership.name_of(error)


def _passes(answer: object) -> bool:
    if isinstance(answer, RequestFailed):
        return answer.failure in (Failure.DISCONNECTED, Failure.TIMED_OUT)
    return getattr(answer, "error", Code.UNKNOWN_SERVER_ERROR) in PASSING
