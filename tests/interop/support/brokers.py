"""Real Kafka for tests: KRaft nodes from Maven jars on loopback, each broker and controller in one process.

A cluster is a context manager. It takes ports that no other test run can take, keeps everything in one temporary
directory, stops what it started by pid, and shows the tail of each node's log when it cannot start.
"""

import base64
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.interop.support.jvm import CURRENT, Java, Release, java
from tests.interop.support.ports import LOOPBACK, PortLease
from tests.interop.support.raw import find_coordinator, led_partitions
from tests.patience import PATIENCE

START_TIMEOUT_S = 240.0


STOP_TIMEOUT_S = 20.0


Assignment = Sequence[Sequence[int]]


def _listening(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((LOOPBACK, port)) == 0


@dataclass(slots=True)
class Node:
    """One KRaft node: its identity, where it lives and its process while it runs."""

    node_id: int
    rack: str | None
    port: int
    controller_port: int
    directory: Path
    process: subprocess.Popen[bytes] | None = None
    log: IO[bytes] | None = None

    @property
    def config(self) -> Path:
        return self.directory / "server.properties"

    @property
    def log_path(self) -> Path:
        return self.directory / "node.log"

    def tail(self, size: int = 4000) -> str:
        if not self.log_path.exists():
            return "(no log)"
        return self.log_path.read_bytes()[-size:].decode(errors="replace")


@dataclass(slots=True)
class KafkaCluster:
    """`nodes` combined KRaft nodes, node ids from 1; node i is in `racks[(i - 1) % len(racks)]`.

    `properties` are added to every node's configuration. With `users` (name -> password) clients must log in by
    SASL/PLAIN and StandardAuthorizer allows nothing but to the super user "admin", whose password is "admin".
    `options` are more options of each node's JVM.
    """

    nodes: int = 3
    racks: Sequence[str | None] = ("az1", "az2", "az3")
    initial_rebalance_delay_ms: int = 500
    heap_mb: int = 320
    properties: Mapping[str, str] = field(default_factory=dict)
    users: Mapping[str, str] | None = None
    release: Release = CURRENT
    options: Sequence[str] = ()
    _java: Java | None = None
    _members: dict[int, Node] = field(default_factory=dict)
    _leases: list[PortLease] = field(default_factory=list)
    _directory: Path | None = None
    _admin: AdminClient | None = None

    def __enter__(self) -> Self:
        try:
            self._start_all()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def bootstrap(self) -> str:
        """Every node's client address, whether it runs or not."""
        return ",".join(f"{LOOPBACK}:{node.port}" for node in self._members.values())

    @property
    def admin(self) -> AdminClient:
        """An admin client, made on first use (the super user's where the cluster has users)."""
        if self._admin is None:
            self._admin = AdminClient(self.client_config("admin", "admin"))
        return self._admin

    def client_config(self, user: str, password: str) -> dict[str, str]:
        """librdkafka-style properties of a client; the user counts only where the cluster has users."""
        config = {"bootstrap.servers": self.bootstrap, "log_level": "0"}
        if self.users is not None:
            config |= {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": user,
                "sasl.password": password,
            }
        return config

    def create_topic(
        self, name: str, partitions: int = 1, *, rf: int = 1, assignment: Assignment | None = None
    ) -> None:
        """Creates a topic and waits until brokers serve it. `assignment[p]` lists node ids, the leader first."""
        if assignment is not None:
            topic = NewTopic(name, num_partitions=len(assignment), replica_assignment=[list(r) for r in assignment])
        else:
            topic = NewTopic(name, num_partitions=partitions, replication_factor=rf)
        self.admin.create_topics([topic], operation_timeout=20)[name].result(timeout=30)
        self.wait_for_topic(name, partitions if assignment is None else len(assignment))

    def ensure_topic(self, name: str, partitions: int = 1) -> None:
        """Creates a topic unless another test of this cluster has."""
        if name not in self.admin.list_topics(timeout=10).topics:
            self.create_topic(name, partitions)

    def add_partitions(self, name: str, total: int) -> None:
        """Grows a topic to `total` partitions and waits until brokers serve them."""
        self.admin.create_partitions([NewPartitions(name, total)], operation_timeout=20)[name].result(timeout=30)
        self.wait_for_topic(name, total)

    def delete_topic(self, name: str) -> None:
        self.admin.delete_topics([name], operation_timeout=20)[name].result(timeout=30)

    def wait_for_topic(self, name: str, partitions: int) -> None:
        """Returns once every running node knows `partitions` partitions, all of them with a leader.

        One node may know them a while before another, and clients ask any. Where clients log in, one is asked.
        """

        def served() -> bool:
            if self.users is None and "listener.security.protocol.map" not in self.properties:
                running = [node.port for node in self._members.values() if node.process is not None]
                return all(led_partitions(LOOPBACK, port, name) == partitions for port in running)
            topic = self.admin.list_topics(name, timeout=5).topics[name]
            return len(topic.partitions) == partitions and all(p.leader >= 0 for p in topic.partitions.values())

        _wait(served, 30, f"topic {name} with {partitions} partitions")

    def start_node(self, node_id: int, *, wait: bool = True) -> None:
        """Starts a stopped or killed node on its old port and data."""
        node = self._members[node_id]
        assert self._java is not None
        options = [
            f"-Xms{self.heap_mb // 2}m",
            f"-Xmx{self.heap_mb}m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.coordinator.group=info",
            "-Dorg.slf4j.simpleLogger.log.kafka.coordinator.group=info",  # up to 3.9
            "-Dorg.slf4j.simpleLogger.log.kafka.coordinator.transaction.TransactionCoordinator=info",  # time-outs
            "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
            "-Dorg.slf4j.simpleLogger.log.kafka.server.ReplicaFetcherThread=error",
            *self.options,
        ]
        node.log = node.log_path.open("ab")
        node.process = subprocess.Popen(
            self._java.command("bellwether.BrokerMain", str(node.config), options=options),
            stdin=subprocess.PIPE,
            stdout=node.log,
            stderr=subprocess.STDOUT,
        )
        if wait:
            self._wait_for_nodes()

    def stop_node(self, node_id: int) -> None:
        """Stops a node the orderly way: leaders move first."""
        self._end(self._members[node_id], signal.SIGTERM)

    def kill_node(self, node_id: int) -> None:
        """SIGKILL: nothing is flushed, and no client is notified."""
        self._end(self._members[node_id], signal.SIGKILL)

    def coordinator_node(self, group_id: str) -> int:
        """The node id of the broker that coordinates a group.

        Asked without librdkafka, whose admin client may abort the process when a broker that it has asked about a
        group dies (its issue 4605).
        """
        return find_coordinator(self.bootstrap, group_id)[0]

    def pids(self) -> list[int]:
        return [n.process.pid for n in self._members.values() if n.process is not None]

    def log_of(self, node_id: int) -> str:
        """Everything that a node has written."""
        return self._members[node_id].log_path.read_text(errors="replace")

    def log_paths(self) -> list[Path]:
        return [node.log_path for node in self._members.values()]

    def logs(self, size: int = 4000) -> dict[str, str]:
        """The tail of each node's log, for a failure report."""
        return {f"node {n.node_id} ({n.rack})": n.tail(size) for n in self._members.values()}

    def close(self) -> None:
        self._admin = None
        for node in self._members.values():
            self._end(node, signal.SIGKILL)
        for lease in self._leases:
            lease.release()
        self._leases.clear()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def _start_all(self) -> None:
        self._java = java(self.release)
        self._directory = Path(tempfile.mkdtemp(prefix="bellwether-kafka-"))
        for node_id in range(1, self.nodes + 1):
            ports = [PortLease(), PortLease()]
            self._leases += ports
            directory = self._directory / f"node{node_id}"
            directory.mkdir()
            rack = self.racks[(node_id - 1) % len(self.racks)] if self.racks else None
            self._members[node_id] = Node(node_id, rack, ports[0].port, ports[1].port, directory)
        self._format()
        for node_id in self._members:
            self.start_node(node_id, wait=False)
        self._wait_for_nodes()
        self._wait_for_groups()

    def _format(self) -> None:
        """Writes the configurations and formats the data directories, all nodes at once."""
        assert self._java is not None
        # A leading dash would read as an option.
        cluster_id = "A" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
        running = []
        for node in self._members.values():
            lines = [f"{key}={value}\n" for key, value in self._configuration(node).items()]
            node.config.write_text("".join(lines))
            arguments = ("format", "-t", cluster_id, "-c", str(node.config))
            command = self._java.command(
                "kafka.tools.StorageTool", *arguments, options=("-Xmx128m", "-XX:TieredStopAtLevel=1")
            )
            running.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        outputs = [process.communicate(timeout=180)[0] for process in running]
        for process, output in zip(running, outputs, strict=True):
            if process.returncode != 0:
                raise RuntimeError(f"StorageTool could not format a node:\n{output[-2000:]}")

    def _configuration(self, node: Node) -> dict[str, str]:
        replicas = str(min(3, self.nodes))
        protocol = "PLAINTEXT" if self.users is None else "SASL_PLAINTEXT"
        config = {
            "process.roles": "broker,controller",
            "node.id": str(node.node_id),
            "controller.quorum.voters": ",".join(
                f"{n.node_id}@{LOOPBACK}:{n.controller_port}" for n in self._members.values()
            ),
            "listeners": f"CLIENTS://{LOOPBACK}:{node.port},CONTROLLER://{LOOPBACK}:{node.controller_port}",
            "advertised.listeners": f"CLIENTS://{LOOPBACK}:{node.port}",
            "listener.security.protocol.map": f"CLIENTS:{protocol},CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "CLIENTS",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(node.directory / "data"),
            "auto.create.topics.enable": "false",
            # Minutes after a test has restarted a node, leaders would go back to it in the midst of another test.
            "auto.leader.rebalance.enable": "false",
            "num.partitions": "1",
            "num.network.threads": "2",
            "num.io.threads": "4",
            "background.threads": "2",
            "log.cleaner.dedupe.buffer.size": "4194304",
            "log.segment.bytes": "67108864",
            "offsets.topic.num.partitions": "6",
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.num.partitions": "2",
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": str(self.initial_rebalance_delay_ms),
        }
        if node.rack is not None:
            config["broker.rack"] = node.rack
        if self.users is not None:
            config |= _secured(self.users)
        return config | dict(self.properties)

    def _wait_for_nodes(self) -> None:
        expected = {n.node_id for n in self._members.values() if n.process is not None}

        def registered() -> bool:
            for node in self._members.values():
                if node.process is None:
                    continue
                if node.process.poll() is not None:
                    raise RuntimeError(f"Kafka node {node.node_id} ended by itself:\n{node.tail()}")
                if not _listening(node.port):  # metadata alone would still show a node that was killed a moment ago
                    return False
            return expected <= set(self.admin.list_topics(timeout=2).brokers)

        try:
            _wait(registered, START_TIMEOUT_S, f"nodes {sorted(expected)}")
        except TimeoutError as late:
            logs = "\n".join(f"--- {name}\n{tail}" for name, tail in self.logs(2000).items())
            raise RuntimeError(f"Kafka did not come up: {late}\n{logs}") from late

    def _wait_for_groups(self) -> None:
        """The first lookup of a group creates the offsets topic; later ones succeed once it is loaded."""

        # A consumer asks for it, not the admin client: see `coordinator_node`.
        consumer = Consumer(self.client_config("admin", "admin") | {"group.id": "warm-up"})

        def answered() -> bool:
            consumer.committed([TopicPartition("any", 0)], timeout=5)
            return True

        try:
            _wait(answered, 60, "the offsets topic")
        finally:
            consumer.close()

    def _end(self, node: Node, how: signal.Signals) -> None:
        process = node.process
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_TIMEOUT_S)
        if process.stdin is not None:
            process.stdin.close()
        node.process = None
        if node.log is not None:
            node.log.close()
            node.log = None


def _secured(users: Mapping[str, str]) -> dict[str, str]:
    """SASL/PLAIN on the client listener and an authorizer that denies by default.

    Controllers talk to each other on their own plain listener and are ANONYMOUS there; no client can be.
    """
    passwords = {"admin": "admin", **users}
    entries = " ".join(f'user_{name}="{password}"' for name, password in passwords.items())
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    return {
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": f'{login} username="admin" password="admin" {entries};',
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
        "allow.everyone.if.no.acl.found": "false",
    }


def _wait(condition: Callable[[], bool], limit_s: float, what: str) -> None:
    """Polls until the condition holds; Kafka errors mean "not yet"."""
    deadline = time.monotonic() + limit_s * PATIENCE
    last = ""
    while time.monotonic() < deadline:
        try:
            if condition():
                return
        except (KafkaException, OSError) as error:
            last = f" ({error})"
        time.sleep(0.1)
    raise TimeoutError(f"waited {limit_s:.0f} s for {what}{last}")
