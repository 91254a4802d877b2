"""Brokers that answer nothing, or only what a test lets them."""

import socket
import struct
import threading
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from types import SimpleNamespace

from confluent_kafka import TopicCollection

from bellwether_kafka.coordinator.kafka import Transport, TransportError
from bellwether_kafka.coordinator.membership import Failure, Node


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
