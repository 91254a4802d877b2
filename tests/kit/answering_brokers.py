"""Three brokers that only answer looks, in a process of their own: a thousand groups at rest, whose members consume.

They speak the protocol over sockets, so the codecs of both clients and the network are in a measurement; what a broker
does to find its answers is not. Requests and bytes are counted by kind.
"""

import asyncio
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from kafka.protocol.admin.groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kafka.protocol.consumer.group import OffsetFetchRequest, OffsetFetchResponse
from kafka.protocol.consumer.offsets import ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)

from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import TopicPartition

LOOPBACK = "127.0.0.1"
NODES = 3
RECORDS_PER_S = 100  # into each partition
LAG = 50
API_VERSIONS, GROUP_TYPE = 18, "consumer"
EARLIEST = -2  # the timestamp that asks for the start of a log
# ListOffsets up to 7 says Kafka 3.0, of which several groups in one OffsetFetch are part.
VERSIONS = {ListOffsetsRequest: 7, MetadataRequest: 9, OffsetFetchRequest: 8, FindCoordinatorRequest: 4}
VERSIONS |= {ListGroupsRequest: 4, DescribeGroupsRequest: 5, ApiVersionsRequest: 3}
REQUESTS = {kind.API_KEY: kind for kind in VERSIONS}


@dataclass(frozen=True, slots=True)
class Size:
    """Each group has one topic, whose partitions its members share."""

    groups: int
    partitions: int
    members: int

    def group(self, number: int) -> str:
        return f"team-{number % 10}-orders-{number:04}"

    def topic(self, number: int) -> str:
        return f"orders-{number:04}"

    def partitions_of(self, _topic: str) -> int:
        return self.partitions


class Brokers:
    """All nodes, on ports of their own."""

    def __init__(self, size: Size) -> None:
        self.size = size
        self.ports: list[int] = []
        self._servers: list[asyncio.Server] = []
        self.requests: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()
        self.described = 0  # groups, in all requests
        self._began = time.time()
        self._groups = {size.group(number): number for number in range(size.groups)}
        self._topics = {size.topic(number): number for number in range(size.groups)}
        self._described: dict[str, Any] = {}
        self._everything: bytes = b""
        self._answers: dict[type, Callable[[Any, int, int], Any]] = {
            ApiVersionsRequest: self._api_versions,
            MetadataRequest: self._metadata,
            FindCoordinatorRequest: self._coordinator,
            ListGroupsRequest: self._list,
            DescribeGroupsRequest: self._describe,
            OffsetFetchRequest: self._committed,
            ListOffsetsRequest: self._ends,
        }

    async def serve(self) -> None:
        for node in range(NODES):
            server = await asyncio.start_server(self._connected(node), LOOPBACK, 0, limit=2**24)
            self._servers.append(server)
            self.ports.append(server.sockets[0].getsockname()[1])

    def close(self) -> None:
        for server in self._servers:
            server.close()

    def _connected(self, node: int) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while True:
                    (size,) = struct.unpack(">i", await reader.readexactly(4))
                    sent = self._answer(await reader.readexactly(size), node)
                    writer.write(sent)
                    await writer.drain()
            except (asyncio.IncompleteReadError, ConnectionError):
                pass
            finally:
                writer.close()

        return talk

    def _answer(self, data: bytes, node: int) -> bytes:
        key, version, correlation = struct.unpack_from(">hhi", data)
        kind = REQUESTS[key]
        if version > VERSIONS[kind]:
            kind, version = ApiVersionsRequest, 0
            response = self._api_versions(None, 0, node)
            response.error_code = 35
        else:
            request = kind.decode(data, version=version, header=True)
            response = self._answers[kind](request, version, node)
        body = response if isinstance(response, bytes) else bytes(response.encode(version=version))
        tags = b"\0" if kind.flexible_version_q(version) and key != API_VERSIONS else b""
        sent = struct.pack(">ii", 4 + len(tags) + len(body), correlation) + tags + body
        self.requests[kind.name] += 1
        self.bytes[kind.name] += 4 + len(data) + len(sent)
        return sent

    def _api_versions(self, _request: Any, _version: int, _node: int) -> Any:
        entry = ApiVersionsResponse.ApiVersion
        keys = [entry(api_key=kind.API_KEY, min_version=0, max_version=most) for kind, most in VERSIONS.items()]
        return ApiVersionsResponse(
            error_code=0,
            api_keys=keys,
            throttle_time_ms=0,
            supported_features=[],
            finalized_features_epoch=-1,
            finalized_features=[],
            zk_migration_ready=False,
        )

    def _metadata(self, request: Any, version: int, _node: int) -> Any:
        if request.topics is not None:
            return self._metadata_of([topic.name for topic in request.topics])
        if not self._everything:
            self._everything = bytes(self._metadata_of(list(self._topics)).encode(version=version))
        return self._everything

    def _metadata_of(self, topics: list[str]) -> Any:
        broker, topic = MetadataResponse.MetadataResponseBroker, MetadataResponse.MetadataResponseTopic
        partition = topic.MetadataResponsePartition
        brokers = [
            broker(node_id=node, host=LOOPBACK, port=port, rack=f"az{node}") for node, port in enumerate(self.ports)
        ]

        def entry(number: int) -> Any:
            nodes = [number % NODES, (number + 1) % NODES]
            return partition(
                error_code=0,
                partition_index=number,
                leader_id=nodes[0],
                leader_epoch=0,
                replica_nodes=nodes,
                isr_nodes=nodes,
                offline_replicas=[],
            )

        def described(name: str) -> Any:
            there = name in self._topics
            count = self.size.partitions_of(name) if there else 0
            return topic(
                error_code=0 if there else 3,
                name=name,
                is_internal=False,
                partitions=[entry(number) for number in range(count)],
            )

        return MetadataResponse(
            throttle_time_ms=0,
            brokers=brokers,
            cluster_id="observed",
            controller_id=0,
            topics=[described(name) for name in topics],
        )

    def _node_of(self, group_id: str) -> int:
        return self._groups.get(group_id, 0) % NODES

    def _coordinator(self, request: Any, _version: int, _node: int) -> Any:
        entry = FindCoordinatorResponse.Coordinator

        def coordinator(key: str) -> dict[str, Any]:
            node = self._node_of(key)
            return {
                "node_id": node,
                "host": LOOPBACK,
                "port": self.ports[node],
                "error_code": 0,
                "error_message": None,
            }

        keys = list(request.coordinator_keys or [request.key])
        return FindCoordinatorResponse(
            throttle_time_ms=0,
            coordinators=[entry(key=key, **coordinator(key)) for key in keys],
            **coordinator(keys[0]),
        )

    def _list(self, _request: Any, _version: int, node: int) -> Any:
        entry = ListGroupsResponse.ListedGroup
        mine = [group for group in self._groups if self._node_of(group) == node]
        groups = [entry(group_id=group, protocol_type=GROUP_TYPE, group_state=self._state(group)) for group in mine]
        return ListGroupsResponse(throttle_time_ms=0, error_code=0, groups=groups)

    def _describe(self, request: Any, _version: int, _node: int) -> Any:
        groups = [self._described_group(group) for group in request.groups]
        self.described += len(groups)
        return DescribeGroupsResponse(throttle_time_ms=0, groups=groups)

    def _described_group(self, group_id: str) -> Any:
        if group_id not in self._described:
            self._described[group_id] = self._describe_anew(group_id)
        return self._described[group_id]

    def _describe_anew(self, group_id: str) -> Any:
        return DescribeGroupsResponse.DescribedGroup(
            error_code=0,
            group_id=group_id,
            group_state=self._state(group_id),
            protocol_type=GROUP_TYPE,
            protocol_data="range",
            members=self._members(group_id),
            authorized_operations=[],
        )

    def _state(self, _group_id: str) -> str:
        return "Stable"

    def _members(self, group_id: str) -> list[Any]:
        topic, share = self.size.topic(self._groups[group_id]), self.size.partitions // self.size.members
        shares = (range(number * share, (number + 1) * share) for number in range(self.size.members))
        return [self._member(group_id, topic, number, f"az{number % NODES}", own) for number, own in enumerate(shares)]

    def _member(self, group_id: str, topic: str, number: int, rack: str, partitions: Iterable[int]) -> Any:
        member = DescribeGroupsResponse.DescribedGroup.DescribedGroupMember
        owned = tuple(TopicPartition(topic, p) for p in partitions)
        return member(
            member_id=f"consumer-{number}-9c1f7a3e-0000-4000-8000-00000000{number:04}",
            group_instance_id=None,
            client_id=f"{group_id}-{number}",
            client_host="/10.0.0.1",
            member_metadata=ConsumerProtocolSubscription(3, (topic,), None, (), -1, rack).encode(),
            member_assignment=ConsumerProtocolAssignment(partitions=owned).encode(),
        )

    def _end(self) -> int:
        return int((time.time() - self._began) * RECORDS_PER_S) + LAG

    def _lag(self, _group_id: str, _partition: int) -> int | None:
        return LAG

    def _committed(self, request: Any, _version: int, _node: int) -> Any:
        group = OffsetFetchResponse.OffsetFetchResponseGroup
        topic = group.OffsetFetchResponseTopics
        entry, end = topic.OffsetFetchResponsePartitions, self._end()

        def partition(group_id: str, number: int) -> Any:
            lag = self._lag(group_id, number)
            at = -1 if lag is None else max(0, end - lag)
            return entry(
                partition_index=number, committed_offset=at, committed_leader_epoch=0, metadata="", error_code=0
            )

        def topics(asked: Any) -> list[Any]:
            own = self.size.topic(self._groups[asked.group_id])
            wanted = (
                [(t.name, t.partition_indexes) for t in asked.topics]
                if asked.topics is not None
                else [(own, range(self.size.partitions_of(own)))]
            )
            return [topic(name=t, partitions=[partition(asked.group_id, p) for p in some]) for t, some in wanted]

        groups = [group(group_id=asked.group_id, topics=topics(asked), error_code=0) for asked in request.groups]
        return OffsetFetchResponse(throttle_time_ms=0, groups=groups)

    def _ends(self, request: Any, _version: int, _node: int) -> Any:
        topic = ListOffsetsResponse.ListOffsetsTopicResponse
        entry, end = topic.ListOffsetsPartitionResponse, self._end()

        def partition(asked: Any) -> Any:
            offset = 0 if asked.timestamp == EARLIEST else end
            return entry(
                partition_index=asked.partition_index, error_code=0, timestamp=-1, offset=offset, leader_epoch=0
            )

        topics = [topic(name=t.name, partitions=list(map(partition, t.partitions))) for t in request.topics]
        return ListOffsetsResponse(throttle_time_ms=0, topics=topics)


def serve(size: Size, parent: Connection, kind: type[Brokers] = Brokers) -> None:
    """The process: prints its ports, then the counters whenever a line comes, and ends with its parent."""

    async def run() -> None:
        brokers, ended = kind(size), asyncio.Event()
        await brokers.serve()
        parent.send(brokers.ports)

        def asked() -> None:
            try:
                parent.recv()
                parent.send((dict(brokers.requests), dict(brokers.bytes), brokers.described))
            except (EOFError, OSError):
                ended.set()

        asyncio.get_running_loop().add_reader(parent.fileno(), asked)
        await ended.wait()

    asyncio.run(run())
