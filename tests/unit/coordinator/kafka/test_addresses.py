"""Every address of a name is tried, and none for so long that the next has no time."""

import contextlib
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from bellwether_kafka.coordinator.kafka.wire import Transport
from bellwether_kafka.coordinator.kafka.wire.transport import _control_key
from bellwether_kafka.coordinator.membership import Heartbeat, Node, RequestFailed
from tests.unit.coordinator.kafka.brokers import Broker, broker


@contextlib.contextmanager
def dead_address(port: int) -> Iterator[str]:
    """One that drops packets: the queue of its listener is full."""
    with contextlib.ExitStack() as open_:
        dead = open_.enter_context(socket.socket())
        dead.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        dead.bind(("127.0.0.2", port))
        dead.listen(0)
        for _ in range(6):
            filling = open_.enter_context(socket.socket())
            filling.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                filling.connect(("127.0.0.2", port))
        yield "127.0.0.2"


def resolve(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    def lookup(_: str, port: int, *__: Any, **___: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)


async def reached(to: Broker, times: int) -> list[float]:
    """Seconds until a heartbeat is answered over a new connection, some times."""
    transport = Transport({"bootstrap.servers": f"kafka.test:{to.port}", "bellwether.api.version": "2.3"})
    took = []
    try:
        for _ in range(times):
            began = time.monotonic()
            command = Heartbeat(1, Node(1, "kafka.test", to.port), "orders", 30_000, "m", None, 1)
            answer = await transport.request(command)
            assert not isinstance(answer, RequestFailed), answer
            took.append(time.monotonic() - began)
            transport._connections.drop(_control_key(command.node))
    finally:
        await transport.close()
    return took


@pytest.mark.slow
async def test_the_second_address_is_tried_within_the_same_timeout_and_first_at_the_next_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with broker() as to, dead_address(to.port) as dead:
        resolve(monkeypatch, dead, "127.0.0.1")
        first, second = await reached(to, 2)
    assert first < 5.0
    assert second < 1.0, "the address that worked is tried first"


@pytest.mark.slow
async def test_the_last_of_many_addresses_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    with broker() as to, dead_address(to.port) as dead:
        resolve(monkeypatch, dead, dead, dead, "127.0.0.1")
        (took,) = await reached(to, 1)
    assert took < 5.0
