"""A connection that the network has forgotten: nobody closes it, and what is sent on it arrives nowhere.

The scenario runs in a network namespace of its own, in which an address can be taken away; where none can be made, the
tests are skipped.
"""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import threading
import time

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from bellwether_kafka.coordinator.kafka.wire import Transport, librdkafka_properties
from bellwether_kafka.coordinator.membership import Join, Node, RequestFailed
from tests.kit.brokers import EmbeddedCluster, Mute

ALONE = ("unshare", "--map-root-user", "--net")
LOOPBACK = "127.0.0.1"
ADDRESS = "10.1.1.1"
JOIN_TIMEOUT_MS = 305_000  # as long as a rebalance may take
ENDED_WITHIN_S = 60.0  # the kernel gives up after about 20 s


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("sent", ["before", "after"])
def test_a_join_on_a_dead_connection_fails_long_before_its_time_is_over(sent: str) -> None:
    if subprocess.run([*ALONE, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("no network namespace can be made here")
    done = subprocess.run(
        [*ALONE, sys.executable, "-m", __spec__.name, sent], check=False, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < ENDED_WITHIN_S


class Forgetful:
    """In front of a broker: of each connection only the first two requests are answered, which ask for the versions of
    requests. `came` counts connections."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._server = socket.create_server((LOOPBACK, 0))
        self.address = f"{LOOPBACK}:{self._server.getsockname()[1]}"
        self.came = threading.Semaphore(0)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._server.accept()
                self.came.release()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        # The broker is gone before the last connections are.
        with contextlib.suppress(OSError), connection, socket.create_connection((LOOPBACK, self._port)) as broker:
            for _ in range(2):
                broker.sendall(connection.recv(65_536))
                connection.sendall(broker.recv(65_536))
            while connection.recv(65_536):
                pass

    def close(self) -> None:
        self._server.close()


@pytest.mark.slow
@pytest.mark.embedded
@pytest.mark.timeout(120)
def test_librdkafka_gives_up_a_connection_that_does_not_answer_long_before_its_own_default() -> None:
    """After Bellwether had got another address, metadata could not be read for over two minutes."""
    with EmbeddedCluster() as cluster, contextlib.closing(Forgetful(port_of(cluster))) as between:
        client = AdminClient(librdkafka_properties({"bootstrap.servers": between.address, "log_level": "0"}))
        with pytest.raises(KafkaException):
            client.list_topics(timeout=1)
        assert between.came.acquire(timeout=5)
        assert between.came.acquire(timeout=40), "the connection that does not answer is still the only one"


def port_of(cluster: EmbeddedCluster) -> int:
    return int(cluster.bootstrap.split(",")[0].rpartition(":")[2])


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


async def scenario(sent: str) -> float:
    """Seconds until the request fails that was sent before the address went, or after."""
    ip("link", "set", "lo", "up")
    ip("address", "add", f"{ADDRESS}/32", "dev", "lo")
    broker = Mute(ADDRESS)
    node = Node(1, *broker.address)
    transport = Transport({"bootstrap.servers": f"{node.host}:{node.port}", "bellwether.api.version": "2.3"})
    await transport.start(5_000)
    join = Join(1, node, "g", JOIN_TIMEOUT_MS, "", None, (), "", 1, 1)
    pending = asyncio.create_task(transport.request(join))
    await asyncio.sleep(1)
    ip("address", "del", f"{ADDRESS}/32", "dev", "lo")
    began = time.monotonic()
    if sent == "after":
        pending.cancel()
        pending = asyncio.create_task(transport.request(join))
    failed = await asyncio.wait_for(pending, ENDED_WITHIN_S)
    assert isinstance(failed, RequestFailed)
    return time.monotonic() - began


if __name__ == "__main__":
    sys.stdout.write(str(asyncio.run(scenario(sys.argv[1]))))
    sys.stdout.flush()
    os._exit(0)  # without waiting for what is left of the connections
