"""In-process Kafka brokers with racks, for the demo and the tests: librdkafka's mock cluster, reached with ctypes in
the library that the confluent-kafka wheel brings along. No Java, no Docker, nothing to install.

It is a mock. What differs from a real broker (read in librdkafka 2.16 and seen live), and what that asks of a caller:

* Leader: the member that has been in the group longest, as on a real broker; between static members the smallest
  group.instance.id. It answers a static member's return with a new member, never with a fence or skipAssignment.
* MEMBER_ID_REQUIRED never comes: an empty member id gets an id at once.
* Protocol: the *first* one in the leader's list, whatever the others prefer, and a member whose first protocol is
  another one trips an assertion that ends the process. So an instance must list first what the members list first.
* SyncGroup: the rebalance ends the moment the leader has synced. A follower that has not synced by then gets
  INVALID_REQUEST and the group a further rebalance; a leader on a mock is wise to wait a moment before it syncs.
* Heartbeat during SyncGroup answers REBALANCE_IN_PROGRESS, where a real broker says that all is well.
* A join always lasts `session timeout - 1 s` of the member that joined last (the first rebalance of an empty group:
  `initial_rebalance_delay_ms`), even when all members are back sooner. Session timeouts have no floor: 2-3 s are
  quick. The rebalance timeout is ignored.
* There is no DescribeGroups, ListGroups, DescribeConfigs, CreateTopics or CreatePartitions. A group can be looked at by
  joining it and in no other way. A topic cannot grow; it can be created here at any time.
* Versions: flexible encodings of the group requests and the list form of LeaveGroup are advertised and then misread, so
  `EmbeddedCluster` limits the requests to what works (`LIMITS`). Its answer to ApiVersions v3+ is malformed whatever
  the limit, which librdkafka forgives and kafka-python 3 does not: that one needs its api_version pinned to 2.3, and
  then asks for JoinGroup v5, SyncGroup v3, Heartbeat v3 and LeaveGroup v2. `EmbeddedTransport` does so.
* Metadata, DescribeTopics and DescribeCluster of confluent-kafka work. A topic springs into being when a client asks
  for it and allows that (kafka-python does).
"""

import asyncio
import ctypes
import socket
import struct
import threading
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Self, TypeVar, cast

import confluent_kafka
from confluent_kafka import TopicCollection

from bellwether_kafka.coordinator.kafka.wire import DescribeMany, NodeRequest, Transport, TransportError
from bellwether_kafka.coordinator.membership import (
    Answer,
    Code,
    Describe,
    DescribeAnswer,
    Failure,
    Node,
    Request,
    RequestFailed,
    Sync,
)

LIMITS = {11: (0, 5), 14: (0, 3), 12: (0, 3), 13: (0, 2)}  # JoinGroup, SyncGroup, Heartbeat, LeaveGroup
PRODUCER = 0
ERROR_TEXT_BYTES = 512


class EmbeddedClusterError(Exception):
    """The embedded brokers could not be started or refused an order."""


def _library() -> ctypes.CDLL:
    package = Path(confluent_kafka.__file__).parent
    folders = (package.parent / "confluent_kafka.libs", package / ".dylibs", package)
    libraries = [path for folder in folders if folder.is_dir() for path in sorted(folder.glob("librdkafka*"))]
    for path in libraries:
        library = ctypes.CDLL(str(path))
        if hasattr(library, "rd_kafka_mock_cluster_new"):
            return _typed(library)
    raise EmbeddedClusterError("This build of confluent-kafka brings no librdkafka with mock brokers; use its wheel.")


def _typed(library: ctypes.CDLL) -> ctypes.CDLL:
    """Declares what is called: a pointer passed as a plain int would be cut to 32 bits."""
    pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32
    signatures: dict[str, tuple[list[type], type | None]] = {
        "rd_kafka_conf_new": ([], pointer),
        "rd_kafka_conf_set": ([pointer, text, text, text, ctypes.c_size_t], ctypes.c_int),
        "rd_kafka_new": ([ctypes.c_int, pointer, text, ctypes.c_size_t], pointer),
        "rd_kafka_destroy": ([pointer], None),
        "rd_kafka_mock_cluster_new": ([pointer, ctypes.c_int], pointer),
        "rd_kafka_mock_cluster_destroy": ([pointer], None),
        "rd_kafka_mock_cluster_bootstraps": ([pointer], text),
        "rd_kafka_mock_broker_set_rack": ([pointer, number, text], ctypes.c_int),
        "rd_kafka_mock_broker_set_down": ([pointer, number], ctypes.c_int),
        "rd_kafka_mock_broker_set_up": ([pointer, number], ctypes.c_int),
        "rd_kafka_mock_topic_create": ([pointer, text, ctypes.c_int, ctypes.c_int], ctypes.c_int),
        "rd_kafka_mock_topic_set_error": ([pointer, text, ctypes.c_int], None),
        "rd_kafka_mock_set_controller_id": ([pointer, number], ctypes.c_int),
        "rd_kafka_mock_set_apiversion": ([pointer, ctypes.c_int16, ctypes.c_int16, ctypes.c_int16], ctypes.c_int),
        "rd_kafka_mock_group_initial_rebalance_delay_ms": ([pointer, number], None),
        "rd_kafka_mock_push_request_errors_array": ([pointer, ctypes.c_int16, ctypes.c_size_t, pointer], None),
    }
    for name, (arguments, result) in signatures.items():
        function = getattr(library, name)
        function.argtypes = arguments
        function.restype = result
    return library


class EmbeddedCluster:
    """Brokers 1..n on loopback ports of their own, in the given racks (cyclically). Use it as a context manager.

    Raises EmbeddedClusterError where the library is missing or refuses.
    """

    def __init__(
        self,
        brokers: int = 3,
        racks: Sequence[str] = ("az1", "az2", "az3"),
        initial_rebalance_delay_ms: int = 500,
    ) -> None:
        self._library = _library()
        self._client = self._new_client()
        self._cluster = self._library.rd_kafka_mock_cluster_new(self._client, brokers)
        if not self._cluster:
            self.close()
            raise EmbeddedClusterError(f"librdkafka did not start {brokers} mock brokers.")
        for broker in range(1, brokers + 1):
            self.set_rack(broker, racks[(broker - 1) % len(racks)])
        self._call("set_controller_id", 1)  # without one the admin calls wait for it until they time out
        for key, (lowest, highest) in LIMITS.items():
            self._call("set_apiversion", key, lowest, highest)
        self._library.rd_kafka_mock_group_initial_rebalance_delay_ms(self._cluster, initial_rebalance_delay_ms)

    @property
    def bootstrap(self) -> str:
        """The value of bootstrap.servers."""
        return str(self._library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode())

    @property
    def properties(self) -> dict[str, str]:
        return {"bootstrap.servers": self.bootstrap}

    def create_topic(self, name: str, partitions: int, replicas: int = 1) -> None:
        """Creates a topic; librdkafka puts replica r of partition p on broker (p + r) mod n."""
        self._call("topic_create", name.encode(), partitions, replicas)

    def set_topic_error(self, name: str, code: int) -> None:
        """Metadata answers this error code for the topic from now on; 0 heals it."""
        self._library.rd_kafka_mock_topic_set_error(self._cluster, name.encode(), code)

    def push_errors(self, api_key: int, *codes: int) -> None:
        """The next requests of this kind, of whomever, are answered with these error codes."""
        errors = (ctypes.c_int * len(codes))(*codes)
        self._library.rd_kafka_mock_push_request_errors_array(self._cluster, api_key, len(codes), errors)

    def set_rack(self, broker: int, rack: str) -> None:
        self._call("broker_set_rack", broker, rack.encode())

    def set_broker_down(self, broker: int) -> None:
        self._call("broker_set_down", broker)

    def set_broker_up(self, broker: int) -> None:
        self._call("broker_set_up", broker)

    def close(self) -> None:
        """Stops the brokers. May be called twice."""
        if self._cluster:
            self._library.rd_kafka_mock_cluster_destroy(self._cluster)
            self._cluster = None
        if self._client:
            self._library.rd_kafka_destroy(self._client)
            self._client = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _new_client(self) -> int | None:
        """The cluster needs a client instance for its threads; it connects to nothing."""
        text = ctypes.create_string_buffer(ERROR_TEXT_BYTES)
        conf = self._library.rd_kafka_conf_new()
        self._library.rd_kafka_conf_set(conf, b"client.id", b"embedded-brokers", text, len(text))
        self._library.rd_kafka_conf_set(conf, b"log_level", b"0", text, len(text))
        client = self._library.rd_kafka_new(PRODUCER, conf, text, len(text))
        if not client:
            raise EmbeddedClusterError(f"librdkafka did not start a client: {text.value.decode()}.")
        return int(client)

    def _call(self, name: str, *arguments: object) -> None:
        code = getattr(self._library, f"rd_kafka_mock_{name}")(self._cluster, *arguments)
        if code:
            reason = confluent_kafka.KafkaError(code).str()
            raise EmbeddedClusterError(f"The embedded brokers refused {name}{arguments}: {reason}.")


T = TypeVar("T")

API_VERSION = {"bellwether.api.version": "2.3"}  # kafka-python cannot read the mock's answer to ApiVersions
SYNC_GRACE_S = 0.2  # a rebalance ends with the leader's request, even before followers have sent theirs


class EmbeddedTransport(Transport):
    """A `Transport` for brokers without DescribeGroups, whose rebalances end too soon."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        super().__init__({**API_VERSION, **properties})

    async def request(self, command: Request) -> Answer | RequestFailed:
        if isinstance(command, Describe):
            return DescribeAnswer(command.request_id, Code.GROUP_ID_NOT_FOUND)
        if isinstance(command, Sync):
            await asyncio.sleep(SYNC_GRACE_S)
        return await super().request(command)

    async def ask(self, request: NodeRequest[T]) -> T:
        asked: object = request
        if isinstance(asked, DescribeMany):
            missing = {group: DescribeAnswer(0, Code.GROUP_ID_NOT_FOUND) for group in asked.group_ids}
            return cast("T", missing)
        return await super().ask(request)


class Mute:
    """Answers ApiVersions, then never again: a half-open connection. `connections` counts who came."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self._socket = socket.create_server((host, 0))
        self.address: tuple[str, int] = self._socket.getsockname()
        self.connections = 0
        self.closed = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            first = connection.recv(65_536)
            (correlation,) = struct.unpack_from(">i", first, 8)
            # ApiVersions v2: no error, JoinGroup 0-5, Heartbeat 0-3, ApiVersions 0-2, DescribeLogDirs 1, not throttled
            keys = struct.pack(">i" + "hhh" * 4, 4, 11, 0, 5, 12, 0, 3, 18, 0, 2, 35, 1, 1)
            body = struct.pack(">ih", correlation, 0) + keys + struct.pack(">i", 0)
            connection.sendall(struct.pack(">i", len(body)) + body)
            while connection.recv(65_536):
                pass
            self.closed.set()

    def close(self) -> None:
        self._socket.close()


Sizes = dict[tuple[str, int], int]


FOLLOWER: Sizes = {("t", 0): 100_000}
LEADER: Sizes = {("t", 0): 500_000, ("t", 1): 7}
SILENT = TransportError(Failure.TIMED_OUT, "no answer in time")


class AnsweringBrokers(Transport):
    """The transport to brokers that report these sizes of logs, or do not answer."""

    def __init__(self, *answers: Sizes | TransportError) -> None:
        super().__init__({"bootstrap.servers": "127.0.0.1:1"})
        self._answers = answers

    async def log_sizes(self, node: Node, _topics: Mapping[str, int]) -> Sizes:
        answer = self._answers[node.node_id]
        if isinstance(answer, TransportError):
            raise answer
        return answer


class AdminOfBrokers:
    """The admin client to so many brokers. Each has all replicas, which are in sync but for those on brokers that are
    `behind`; brokers that are down are not listed."""

    def __init__(self, brokers: int, *, down: Collection[int] = (), behind: Collection[int] = ()) -> None:
        self._nodes = [SimpleNamespace(id=i, host="127.0.0.1", port=1) for i in range(brokers)]
        self._up = [node for node in self._nodes if node.id not in down]
        self._in_sync = [node for node in self._nodes if node.id not in behind]

    def describe_cluster(self, **_: float) -> Future[SimpleNamespace]:
        return answered(SimpleNamespace(nodes=self._up))

    def describe_topics(self, topics: TopicCollection, **_: float) -> dict[str, Future[SimpleNamespace]]:
        partitions = [SimpleNamespace(id=p, replicas=self._nodes, isr=self._in_sync) for p in range(2)]
        described = SimpleNamespace(partitions=partitions, topic_id=None)
        return {topic: answered(described) for topic in topics.topic_names}


def answered(answer: SimpleNamespace) -> Future[SimpleNamespace]:
    future: Future[SimpleNamespace] = Future()
    future.set_result(answer)
    return future
