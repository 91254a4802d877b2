"""Group requests over kafka-python's connection manager. Only this package uses that library.

The library has its own coroutine loop. One IO thread runs it for all groups; asyncio callers hand a request over and
get a frozen answer back. There is one connection for each broker for short requests, shared by all groups, and one for
each group for JoinGroup and SyncGroup, because brokers park these together with all requests that follow on the
connection (docs/internals/broker-behaviour.md#parked-requests). The library's bootstrap list is used only at the start.
"""

import asyncio
import logging
import socket
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast

from kafka.net.selector import NetworkSelector

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.kafka.wire import describe_groups, node_requests, temporary_members
from bellwether_kafka.coordinator.kafka.wire.client_properties import KEEPER, KEYTAB, check_login, client_config
from bellwether_kafka.coordinator.kafka.wire.connections import Connections, release_of
from bellwether_kafka.coordinator.kafka.wire.describe_groups import BrokerGroup, BrokerProtocol, SentTopology
from bellwether_kafka.coordinator.kafka.wire.group_messages import (
    answer,
    failure_of,
    message,
    reason_at_advertised,
    reason_of,
    unreachable,
)
from bellwether_kafka.coordinator.kafka.wire.kerberos import KerberosError, log_in
from bellwether_kafka.coordinator.kafka.wire.node_requests import (
    AnyCommitted,
    DescribeMany,
    DescribeManyByBroker,
    GroupList,
    InSync,
    ListAllGroups,
)
from bellwether_kafka.coordinator.kafka.wire.tokens import TokenError, TokenKeeper
from bellwether_kafka.coordinator.membership import Failure, Node, RequestFailed

T = TypeVar("T")

IN_FLIGHT_MAX = 10_000  # heartbeats of all groups on one broker; the library pauses a connection at its limit
CONNECT_TIMEOUT_MS = 5_000
CONNECT_TIMEOUT_MAX_MS = 10_000
RECONNECT_MAX_MS = 2_000
REQUEST_TIMEOUT_MS = 5_000
PAUSE_POLL_S = 0.02
# A dead connection (a pod got another address, a firewall dropped an idle entry) looks open to both sides. A JoinGroup
# sent on it would wait for minutes, as long as a rebalance may take. With these options the kernel ends the connection.
# Not every system has all of them.
_SILENCE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 3, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 10_000}  # s, s, -, ms
SOCKET_OPTIONS = (
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *((socket.IPPROTO_TCP, getattr(socket, name), value) for name, value in _SILENCE.items() if hasattr(socket, name)),
)
CLOSE_TIMEOUT_MS = 5_000
PROBE_GROUP = "bellwether"  # any name will do: an error code is an answer

log = logging.getLogger(__name__)


class TransportError(Exception):
    """A group request got no answer. The message is for users."""

    def __init__(self, failure: Failure, reason: str) -> None:
        super().__init__(reason)
        self.failure = failure


class UnreachableError(TransportError):
    """No bootstrap server could be used. The message is a sentence that names them or the property to check."""


class Transport:
    """Sends the requests of all groups, from any event loop. Requests on a group's join connections (JoinGroup,
    SyncGroup, `abandon`) must come from one loop. Close it once. Properties are librdkafka's and
    "bellwether.api.version", which pins the broker version instead of querying it."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        config = client_config(properties)
        config.pop("_verify", None)
        check_login(config)
        self._keytab: tuple[str, str] | None = config.pop(KEYTAB, None)
        self._tokens: TokenKeeper | None = config.pop(KEEPER, None)
        defaults: dict[str, Any] = {
            "max_in_flight_requests_per_connection": IN_FLIGHT_MAX,
            "socket_connection_setup_timeout_ms": CONNECT_TIMEOUT_MS,
            "socket_connection_setup_timeout_max_ms": CONNECT_TIMEOUT_MAX_MS,
            "reconnect_backoff_max_ms": RECONNECT_MAX_MS,
            "socket_options": SOCKET_OPTIONS,
        }
        self._config = defaults | config
        self._net: Any = NetworkSelector(client_id=self._config["client_id"])
        self._connections = Connections(self._net, self._tokens, **self._config)
        self._dropped_joins: dict[str, int] = {}  # how often a group has dropped its join connections
        self._lanes: dict[str, set[int]] = {}  # the join connections that a group has used since
        self._answering: set[Node | None] = set()  # brokers whose advertised address has worked
        self._closed = False
        self.pins_version = self._config.get("api_version") is not None
        self.broker_version: tuple[int, ...] = ()  # derived from the request versions that a broker supports

    # ---- for the runtime (asyncio side) ------------------------------------------------------------------------

    async def start(self, timeout_ms: int = 10_000) -> None:
        """Connects to one bootstrap server. May be called again after UnreachableError, which it raises."""
        try:
            if self._keytab is not None:
                await asyncio.to_thread(log_in, *self._keytab)
            if self._tokens is not None:
                await asyncio.to_thread(self._tokens.token)
        except (KerberosError, TokenError) as none:
            raise UnreachableError(Failure.AUTHENTICATION, str(none)) from None
        self._net.start()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                connection, error = await self._on_io_thread(self._connections.any_broker)
        except TimeoutError:
            raise UnreachableError(Failure.TIMED_OUT, self._unreachable("no answer in time")) from None
        if error is not None:
            failure = failure_of(error)
            raise UnreachableError(failure, self._unreachable(reason_of(error), failure))
        self.broker_version = release_of(connection)
        # A listener that requires a login answers ApiVersions without one, and closes at the first real request.
        reply = await self.request(membership.FindCoordinator(0, PROBE_GROUP, timeout_ms))
        if isinstance(reply, RequestFailed) and reply.failure is Failure.DISCONNECTED:
            why = "the connection was closed at the first request"
            raise UnreachableError(Failure.AUTHENTICATION, self._unreachable(why, Failure.AUTHENTICATION))

    @property
    def thread(self) -> threading.Thread | None:
        """The I/O thread since `start`. No request is answered after it has ended."""
        return cast("threading.Thread | None", self._net._io_thread)  # noqa: SLF001 - not shown otherwise

    async def request(self, command: membership.Request) -> membership.Answer | RequestFailed:
        """Sends one request on its connection. Never raises for errors of a broker or the network. Cancelling it does
        not free the connection of a parked JoinGroup; use `abandon`."""
        key = self._key(command)
        reply, error = await self._on_io_thread(lambda: self._exchange(key, command))
        if error is None:
            self._answering.add(getattr(command, "node", None))
            return cast("membership.Answer", reply)
        return RequestFailed(command.request_id, failure_of(error), self._reason(error, getattr(command, "node", None)))

    def abandon(self, group_id: str) -> None:
        """Drops the group's join connections, and with them the requests that the broker has parked. The next request
        gets a new one. Call it also when a group has stopped."""
        number = self._dropped_joins.get(group_id, 0)
        self._dropped_joins[group_id] = number + 1
        for lane in self._lanes.pop(group_id, set()):
            self._soon(partial(self._connections.drop, _join_key(group_id, number, lane)))

    async def describe_group(self, group_id: str) -> membership.DescribeAnswer:
        """Returns state, protocol and members with metadata and assignment bytes (both empty unless Stable), from the
        group's coordinator node. Raises TransportError; an error code of the broker is in the answer."""
        node, error = await self._coordinator_of(group_id, REQUEST_TIMEOUT_MS)
        if node is None:
            return membership.DescribeAnswer(0, error)
        answer = await self.request(membership.Describe(0, node, group_id, REQUEST_TIMEOUT_MS))
        if isinstance(answer, RequestFailed):
            raise TransportError(answer.failure, answer.reason)
        return answer if isinstance(answer, membership.DescribeAnswer) else membership.DescribeAnswer(0, answer.error)

    async def any_committed(self, group_id: str) -> AnyCommitted:
        """Returns whether the group has committed offsets, and for which topics, from its coordinator node. Raises
        TransportError; an error code of the broker is in the answer."""
        node, error = await self._coordinator_of(group_id, REQUEST_TIMEOUT_MS)
        if node is None:
            return AnyCommitted(False, error)
        return await self._ask(node_requests.FindAnyOffset(node, group_id, REQUEST_TIMEOUT_MS))

    async def describe_by_broker(self, group_id: str, protocol: BrokerProtocol) -> BrokerGroup:
        """Returns a group whose broker assigns. Raises TransportError; an error code of the broker is in the answer."""
        node, error = await self._coordinator_of(group_id, REQUEST_TIMEOUT_MS)
        if node is None:
            return BrokerGroup(group_id, protocol, error)
        answers = await self._ask(DescribeManyByBroker(node, [group_id], protocol, REQUEST_TIMEOUT_MS))
        return answers[group_id]

    async def rebalance_by_broker(self, group_id: str, member_id: str) -> int:
        """Makes the broker of a `consumer` group compute its assignment anew: a temporary member joins under this id,
        and leaves at once. Returns Kafka's error code. Raises TransportError."""
        node, error = await self._coordinator_of(group_id, REQUEST_TIMEOUT_MS)
        if node is None:
            return error
        joins = temporary_members.TemporaryMember(node, group_id, member_id, joins=True, timeout_ms=REQUEST_TIMEOUT_MS)
        return await self._join_and_leave(joins, replace(joins, joins=False))

    async def rebalance_streams_by_broker(self, group_id: str, member_id: str, topology: SentTopology) -> int:
        """Does the same as `rebalance_by_broker` in a `streams` group. The error is INVALID_REQUEST if the group has
        another topology."""
        node, error = await self._coordinator_of(group_id, REQUEST_TIMEOUT_MS)
        if node is None:
            return error
        joins = temporary_members.TemporaryStreamsMember(node, group_id, member_id, topology, REQUEST_TIMEOUT_MS)
        leaves = describe_groups.RemoveStreamsMember(node, group_id, member_id, REQUEST_TIMEOUT_MS)
        return await self._join_and_leave(joins, leaves)

    async def _join_and_leave(
        self, joins: node_requests.NodeRequest[int], leaves: node_requests.NodeRequest[int]
    ) -> int:
        """Returns the error code of the join, else that of the leave. The member leaves even if the answer to its join
        was lost, and a leave without an answer is sent again: otherwise it would stay until its session ends."""
        try:
            error = await self._ask(joins)
        except TransportError:
            with suppress(TransportError):
                await self._ask(leaves)
            raise
        if error:
            return error
        try:
            return await self._ask(leaves)
        except TransportError:
            return await self._ask(leaves)

    async def list_groups(self, node: Node) -> GroupList:
        """Returns this node's groups; with an error the list may be incomplete. Raises TransportError."""
        return await self._ask(ListAllGroups(node, REQUEST_TIMEOUT_MS))

    async def describe_groups(self, node: Node, group_ids: Sequence[str]) -> dict[str, membership.DescribeAnswer]:
        """Returns the answers of `describe_group` by id, for classic groups that this node coordinates, in one request.
        Raises TransportError; error codes of the broker are in the answers."""
        return await self._ask(DescribeMany(node, group_ids, REQUEST_TIMEOUT_MS))

    async def log_sizes(self, node: Node, topics: Mapping[str, int]) -> dict[tuple[str, int], int]:
        """Returns the bytes on disk of the replicas of partitions 0..n-1 of each topic that this broker has. Raises
        TransportError. Empty without the ACL DESCRIBE on the cluster. Its broker may read its disks for long."""
        return await self._ask(node_requests.LogSizes(node, topics, REQUEST_TIMEOUT_MS), "-sizes")

    async def largest_logs(
        self, nodes: Iterable[Node], topics: Mapping[str, int], in_sync: InSync | None = None
    ) -> dict[tuple[str, int], int]:
        """Returns the bytes on disk of the largest replica of partitions 0..n-1 of each topic, or with `in_sync` of
        the largest in-sync one: others lag behind. Partitions that no broker reports are left out, all of them without
        the ACL DESCRIBE on the cluster. Raises TransportError if no broker answers."""
        asked = tuple(nodes)
        answers = await asyncio.gather(*(self.log_sizes(node, topics) for node in asked), return_exceptions=True)
        failures = [answer for answer in answers if isinstance(answer, TransportError)]
        if failures and len(failures) == len(answers):
            raise failures[0]
        largest: dict[tuple[str, int], int] = {}
        for node, sizes in zip(asked, answers, strict=True):
            if isinstance(sizes, TransportError):
                continue
            if isinstance(sizes, BaseException):
                raise sizes
            counted = sizes if in_sync is None else {p: size for p, size in sizes.items() if p in in_sync[node]}
            largest |= {partition: max(size, largest.get(partition, 0)) for partition, size in counted.items()}
        return largest

    async def ask(self, request: node_requests.NodeRequest[T]) -> T:
        """Sends a request to one node. Raises TransportError; an error code of the broker is in the answer."""
        return await self._ask(request)

    async def _coordinator_of(self, group_id: str, timeout_ms: int) -> tuple[Node | None, int]:
        """Returns the group's coordinator node, or None and the broker's error code. Raises TransportError."""
        answer = await self.request(membership.FindCoordinator(0, group_id, timeout_ms))
        if isinstance(answer, RequestFailed):
            raise TransportError(answer.failure, answer.reason)
        return (answer.node, answer.error) if isinstance(answer, membership.CoordinatorAnswer) else (None, answer.error)

    async def _ask(self, request: node_requests.NodeRequest[T], kind: str = "") -> T:
        """Sends a request that belongs to no membership and returns its answer. Brokers answer the requests of a
        connection one after the other, so each `kind` has its own. Raises TransportError."""
        reply, error = await self._on_io_thread(lambda: self._exchange_with_node(request, kind))
        if error is not None:
            raise TransportError(failure_of(error), self._reason(error, request.node))
        self._answering.add(request.node)
        return cast("T", reply)

    async def close(self) -> None:
        """Closes every connection and ends the IO thread."""
        if self._closed:
            return
        self._closed = True
        self._soon(self._connections.close)
        await asyncio.to_thread(self._shut)

    def _shut(self) -> None:
        self._net.stop(timeout_ms=CLOSE_TIMEOUT_MS)
        self._net.close()

    def _soon(self, action: Callable[[], object]) -> None:
        def run() -> None:
            action()

        try:
            self._net.call_soon_threadsafe(run)
        except Exception:  # noqa: BLE001 - the library raises what ended its thread
            log.debug("the IO thread has ended")

    async def _on_io_thread(self, work: Callable[[], Awaitable[Any]]) -> tuple[Any, BaseException | None]:
        """Runs a coroutine of the library's kind on the IO thread. Returns its value, or its error."""
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

        def settle(value: object, error: BaseException | None) -> None:
            if not outcome.done():
                outcome.set_result((value, error))

        def hand_back(value: object, error: BaseException | None) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, value, error)

        async def job() -> Any:
            return await work()

        future = self._net.call_soon_with_future(job)
        future.add_callback(lambda value: hand_back(value, None))
        future.add_errback(lambda error: hand_back(None, error))
        return await outcome

    def _key(self, command: membership.Request) -> str:
        match command:
            case membership.FindCoordinator():
                return ""
            case membership.Join(lane=int(lane)) | membership.Evict(lane=int(lane)):
                return self._lane_key(command.group_id, lane)
            case membership.Sync():
                return self._lane_key(command.group_id, 0)
        return _control_key(command.node)

    def _lane_key(self, group_id: str, lane: int) -> str:
        self._lanes.setdefault(group_id, set()).add(lane)
        return _join_key(group_id, self._dropped_joins.get(group_id, 0), lane)

    def _unreachable(self, why: str, failure: Failure = Failure.DISCONNECTED) -> str:
        return unreachable(self._config["bootstrap_servers"], self._config.get("security_protocol"), why, failure)

    def _reason(self, error: BaseException, node: Node | None) -> str:
        if node is None or node in self._answering:
            return reason_of(error)
        return reason_at_advertised(error, node, self._config["bootstrap_servers"])

    # ---- on the IO thread --------------------------------------------------------------------------------------

    async def _exchange(self, key: str, command: membership.Request) -> Any:
        if isinstance(command, membership.FindCoordinator):
            connection = await self._connections.any_broker(command.attempt)
        else:
            connection = self._connections.named(key, command.node)
        return answer(command, await self._send(connection, message(command), command.timeout_ms))

    async def _exchange_with_node(self, request: node_requests.NodeRequest[T], kind: str) -> T:
        node = request.node
        connection = (
            self._connections.named(f"{_control_key(node)}{kind}", node)
            if node is not None
            else await self._connections.any_broker()
        )
        return request.answer(await self._send(connection, request.message(), request.timeout_ms))

    async def _send(self, connection: Any, sent: Any, timeout_ms: int) -> Any:
        waited_s = 0.0
        while connection.connected and connection.paused and waited_s * 1000 < timeout_ms:
            # Throttled by a quota, or the write buffer is full: the library would refuse at once.
            await self._net.sleep(PAUSE_POLL_S)
            waited_s += PAUSE_POLL_S
        return await connection.send_request(sent, request_timeout_ms=timeout_ms)


def _control_key(node: Node) -> str:
    """The key has the address: requests to the former one of a broker, or to another of its listeners, would otherwise
    close the connection of all others."""
    return f"control-{node.node_id}-{node.host}-{node.port}"


def _join_key(group_id: str, number: int, lane: int) -> str:
    return f"join-{group_id}-{number}-{lane}"
