"""Group requests, and others, over named connections. One client is for one event loop: the memberships have one on
their own loop, all else of the process another.

There is one connection for each broker for short requests, shared by all groups, and one for each group for JoinGroup
and SyncGroup, because brokers park these together with all requests that follow on the connection
(docs/internals/broker-behaviour.md#parked-requests).
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

from kafka import errors as kafka_errors
from kafka.protocol.broker_version_data import BrokerVersionData

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.kafka.wire import describe_groups, node_requests, temporary_members
from bellwether_kafka.coordinator.kafka.wire.client_properties import KEEPER, KEYTAB, check_login, client_config
from bellwether_kafka.coordinator.kafka.wire.connection import release_of
from bellwether_kafka.coordinator.kafka.wire.connections import Connections
from bellwether_kafka.coordinator.kafka.wire.describe_groups import BrokerGroup, BrokerProtocol, SentTopology
from bellwether_kafka.coordinator.kafka.wire.group_messages import (
    answer,
    failure_of,
    message,
    reason_at_advertised,
    reason_of,
    unreachable,
)
from bellwether_kafka.coordinator.kafka.wire.kerberos import KerberosError
from bellwether_kafka.coordinator.kafka.wire.logins import Logins
from bellwether_kafka.coordinator.kafka.wire.node_requests import (
    AnyCommitted,
    DescribeMany,
    DescribeManyByBroker,
    GroupList,
    InSync,
    ListAllGroups,
)
from bellwether_kafka.coordinator.kafka.wire.tokens import TokenError
from bellwether_kafka.coordinator.membership import Failure, Node, RequestFailed

T = TypeVar("T")
GroupRequest = (
    membership.Describe | membership.Join | membership.Sync | membership.Heartbeat | membership.Leave | membership.Evict
)

DEFAULTS = {
    "socket_connection_setup_timeout_ms": 5_000,
    "socket_connection_setup_timeout_max_ms": 10_000,
    "reconnect_backoff_ms": 50,
    "reconnect_backoff_max_ms": 2_000,
    "connections_max_idle_ms": 540_000,  # brokers close a connection after ten minutes
}
REQUEST_TIMEOUT_MS = 5_000
PROBE_GROUP = "bellwether"  # any name will do: an error code is an answer


class TransportError(Exception):
    """A group request got no answer. The message is for users."""

    def __init__(self, failure: Failure, reason: str) -> None:
        super().__init__(reason)
        self.failure = failure


class UnreachableError(TransportError):
    """No bootstrap server could be used. The message is a sentence that names them or the property to check."""


class Transport:
    """Sends the requests of all groups. For one event loop, from `start` or the first request to `close`. Properties
    are librdkafka's and "bellwether.api.version", which pins the broker version instead of querying it."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        config = DEFAULTS | client_config(properties)
        check_login(config)
        release = config.get("api_version")
        self._config = config
        self._logins = (
            Logins(config, config.get(KEEPER), config.get(KEYTAB)) if config.get("sasl_mechanism") is not None else None
        )
        self._connections = Connections(config, BrokerVersionData(release) if release else None, self._logins)
        self._dropped_joins: dict[str, int] = {}  # how often a group has dropped its join connections
        self._lanes: dict[str, set[int]] = {}  # the join connections that a group has used since
        self._answering: set[Node | None] = set()  # brokers whose advertised address has worked
        self.pins_version = release is not None
        self.broker_version: tuple[int, ...] = ()  # derived from the request versions that a broker supports

    async def start(self, timeout_ms: int = 10_000) -> None:
        """Connects to one bootstrap server. May be called again after UnreachableError, which it raises."""
        try:
            if self._logins is not None:
                await self._logins.prepare()
        except (KerberosError, TokenError) as none:
            raise UnreachableError(Failure.AUTHENTICATION, str(none)) from None
        except kafka_errors.KafkaTimeoutError as late:
            why = self._unreachable(str(late), Failure.AUTHENTICATION)
            raise UnreachableError(Failure.AUTHENTICATION, why) from None
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                connection = await self._connections.any_broker()
        except TimeoutError:
            raise UnreachableError(Failure.TIMED_OUT, self._unreachable("no answer in time")) from None
        except Exception as error:  # noqa: BLE001 - whatever TLS, SASL and the library raise
            failure = failure_of(error)
            raise UnreachableError(failure, self._unreachable(reason_of(error), failure)) from None
        self.broker_version = release_of(connection.versions)
        # A listener that requires a login answers ApiVersions without one, and closes at the first real request.
        reply = await self.request(membership.FindCoordinator(0, PROBE_GROUP, timeout_ms))
        if isinstance(reply, RequestFailed) and reply.failure is Failure.DISCONNECTED:
            why = "the connection was closed at the first request"
            raise UnreachableError(Failure.AUTHENTICATION, self._unreachable(why, Failure.AUTHENTICATION))

    async def request(self, command: membership.Request) -> membership.Answer | RequestFailed:
        """Sends one request on its connection. Never raises for errors of a broker or the network. Cancelling it does
        not free the connection of a parked JoinGroup; use `abandon`."""
        node = None
        try:
            if isinstance(command, membership.FindCoordinator):
                connection = await self._connections.any_broker(command.attempt)
            else:
                node = command.node
                connection = self._connections.named(self._key(command), node)
            reply = await connection.send(message(command), command.timeout_ms, partial(answer, command))
        except Exception as error:  # noqa: BLE001 - whatever TLS, SASL and the library raise
            return RequestFailed(command.request_id, failure_of(error), self._reason(error, node))
        self._answering.add(node)
        return reply

    def abandon(self, group_id: str) -> None:
        """Drops the group's join connections, and with them the requests that the broker has parked. The next request
        gets a new one. Call it also when a group has stopped."""
        number = self._dropped_joins.get(group_id, 0)
        self._dropped_joins[group_id] = number + 1
        for lane in self._lanes.pop(group_id, set()):
            self._connections.drop(_join_key(group_id, number, lane))

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
        node = request.node
        try:
            connection = (
                self._connections.named(f"{_control_key(node)}{kind}", node)
                if node is not None
                else await self._connections.any_broker()
            )
            reply = await connection.send(request.message(), request.timeout_ms, request.answer)
        except Exception as error:  # noqa: BLE001 - whatever TLS, SASL and the library raise
            raise TransportError(failure_of(error), self._reason(error, node)) from None
        self._answering.add(node)
        return reply

    async def close(self) -> None:
        """Closes every connection, for good."""
        await self._connections.close()

    def _key(self, command: GroupRequest) -> str:
        match command:
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


def _control_key(node: Node) -> str:
    """The key has the address: requests to the former one of a broker, or to another of its listeners, would otherwise
    close the connection of all others."""
    return f"control-{node.node_id}-{node.host}-{node.port}"


def _join_key(group_id: str, number: int, lane: int) -> str:
    return f"join-{group_id}-{number}-{lane}"
