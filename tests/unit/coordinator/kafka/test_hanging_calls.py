"""Whatever hangs outside of the brokers, heartbeats on open connections go on, and known answers serve meanwhile."""

import asyncio
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from bellwether_kafka.coordinator.kafka.wire import Transport, tokens
from bellwether_kafka.coordinator.kafka.wire.transport import _control_key
from bellwether_kafka.coordinator.membership import Heartbeat, Node, RequestFailed
from tests.unit.coordinator.kafka.brokers import Broker, Hanging, broker

NEVER_MS = 600_000  # longer than any test may take: what would wait so long fails it
HEARTBEATS = 10


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    call = Hanging()
    yield call
    call.release()


@asynccontextmanager
async def connected(to: Broker, host: str = "127.0.0.1", **properties: str) -> AsyncIterator[Transport]:
    """A transport whose connection to the first node is open and logged in."""
    named = {name.replace("_", "."): value for name, value in properties.items()}
    transport = Transport({"bootstrap.servers": f"{host}:{to.port}", "bellwether.api.version": "2.3", **named})
    try:
        assert not isinstance(await heartbeat(transport, Node(1, host, to.port)), RequestFailed)
        yield transport
    finally:
        await transport.close()


async def heartbeat(transport: Transport, node: Node, timeout_ms: int = 5_000) -> object:
    return await transport.request(Heartbeat(1, node, "orders", timeout_ms, "m", None, 1))


async def hangs(call: Hanging) -> None:
    """Returns when it waits. On a busy machine all heartbeats of another connection may be answered before."""
    while not call.waited:  # noqa: ASYNC110 - another thread makes the call
        await asyncio.sleep(0.01)


async def is_answered(transport: Transport, node: Node) -> bool:
    """Sends some heartbeats. Each has five seconds, and what hangs, hangs until it is released."""
    for _ in range(HEARTBEATS):
        answer = await heartbeat(transport, node)
        assert not isinstance(answer, RequestFailed), answer
        await asyncio.sleep(0)
    return True


@pytest.fixture
def slow_name(hanging: Hanging, monkeypatch: pytest.MonkeyPatch) -> Hanging:
    real = socket.getaddrinfo

    def lookup(host: Any, *rest: Any, **more: Any) -> Any:
        return real("127.0.0.1" if str(host).endswith(".kafka.test") else host, *rest, **more)

    named = hanging.before(lookup, when=lambda host, *_: str(host).endswith(".kafka.test"))
    monkeypatch.setattr(socket, "getaddrinfo", named)
    return hanging


async def test_a_name_that_is_resolved_for_long_stops_no_other_heartbeat(slow_name: Hanging) -> None:
    with broker() as to:
        async with connected(to) as transport:
            slow_name.hang()
            other = asyncio.create_task(heartbeat(transport, Node(2, "broker-2.kafka.test", to.port), 60_000))
            await hangs(slow_name)
            assert await is_answered(transport, Node(1, "127.0.0.1", to.port))
            assert slow_name.waited == 1
            assert not other.done()
            slow_name.release()
            assert not isinstance(await other, RequestFailed)


async def test_the_last_known_addresses_serve_while_a_name_is_resolved_for_long(slow_name: Hanging) -> None:
    with broker() as to:
        async with connected(to, "broker-1.kafka.test") as transport:
            node = Node(1, "broker-1.kafka.test", to.port)
            slow_name.hang()
            transport._connections.drop(_control_key(node))
            assert await is_answered(transport, node)
            assert slow_name.waited == 1


@pytest.mark.slow
async def test_a_name_that_is_never_found_fails_within_the_connection_timeout(slow_name: Hanging) -> None:
    with broker() as to:
        async with connected(to, socket_connection_setup_timeout_ms="500") as transport:
            slow_name.hang()
            failed = await heartbeat(transport, Node(2, "broker-2.kafka.test", to.port), NEVER_MS)
            assert isinstance(failed, RequestFailed)
            assert "broker-2.kafka.test" in failed.reason


class Endpoint(BaseHTTPRequestHandler):
    hanging: Hanging
    life_s: float

    def do_POST(self) -> None:
        self.hanging.wait()
        body = json.dumps({"access_token": "opaque", "expires_in": self.life_s}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def endpoint(hanging: Hanging) -> Iterator[str]:
    handler = type("Handler", (Endpoint,), {"hanging": hanging, "life_s": 2.0})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/token"
    hanging.release()
    server.shutdown()
    server.server_close()


def oidc(endpoint: str) -> dict[str, str]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauthbearer_method": "oidc",
        "sasl_oauthbearer_client_id": "bellwether",
        "sasl_oauthbearer_client_secret": "s",
        "sasl_oauthbearer_token_endpoint_url": endpoint,
    }


@pytest.mark.slow
async def test_a_token_endpoint_that_hangs_stops_no_connection_that_is_open(hanging: Hanging, endpoint: str) -> None:
    tokens._keeper.cache_clear()
    with broker(mechanism="OAUTHBEARER") as to:
        async with connected(to, **oidc(endpoint)) as transport:
            hanging.hang()
            await asyncio.sleep(2.2)  # the token's life
            other = asyncio.create_task(heartbeat(transport, Node(2, "127.0.0.1", to.port), 60_000))
            assert await is_answered(transport, Node(1, "127.0.0.1", to.port))
            assert not other.done()
            assert len(to.logins) == 1
            hanging.release()
            await other


@pytest.mark.slow
async def test_a_token_endpoint_that_hangs_stops_no_connection_whose_login_has_to_be_repeated(
    hanging: Hanging, endpoint: str
) -> None:
    """KIP-368: a login holds back what is sent, so the token is there before it begins."""
    tokens._keeper.cache_clear()
    with broker(mechanism="OAUTHBEARER", lives_ms=3_000) as to:
        async with connected(to, **oidc(endpoint)) as transport:
            hanging.hang()
            until = time.monotonic() + 4.0
            while time.monotonic() < until:
                assert await is_answered(transport, Node(1, "127.0.0.1", to.port))
            assert hanging.waited
            assert len(to.logins) == 1
            hanging.release()
            until = time.monotonic() + 20.0
            while len(to.logins) < 2 and time.monotonic() < until:
                assert await is_answered(transport, Node(1, "127.0.0.1", to.port))
            assert len(to.logins) == 2, "once the token is there, the login is repeated on the same connection"


def kerberos(hanging: Hanging) -> ModuleType:
    """Takes the place of the library of the system: its first step asks a KDC for a ticket."""

    class SecurityContext:
        def __init__(self, **_: object) -> None:
            self.complete = False

        def step(self, token: bytes | None) -> bytes:
            hanging.wait()
            self.complete = token is not None
            return b"ticket"

        def unwrap(self, message: bytes) -> object:
            return SimpleNamespace(message=message)

        def wrap(self, message: bytes, _: bool) -> object:
            return SimpleNamespace(message=message)

    made: Any = ModuleType("gssapi")
    made.Name = lambda *_, **__: SimpleNamespace(canonicalize=lambda _: "name")
    made.NameType, made.MechType = SimpleNamespace(hostbased_service=1), SimpleNamespace(kerberos=1)
    made.SecurityContext = SecurityContext
    return made


def test_a_kdc_that_hangs_stops_no_connection_that_is_open(hanging: Hanging, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", kerberos(hanging))
    monkeypatch.setattr("bellwether_kafka.coordinator.kafka.wire.kerberos.check_packages", lambda: None)

    async def scenario(to: Broker) -> None:
        properties = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "GSSAPI"}
        async with connected(to, **properties) as transport:
            hanging.hang()
            other = asyncio.create_task(heartbeat(transport, Node(2, "127.0.0.1", to.port), 60_000))
            await hangs(hanging)
            assert await is_answered(transport, Node(1, "127.0.0.1", to.port))
            assert hanging.waited == 1
            assert not other.done()
            hanging.release()
            assert not isinstance(await other, RequestFailed)

    with broker(mechanism="GSSAPI", answers=(b"token", b"\x01\x00\x00\x00", b"")) as to:
        asyncio.run(scenario(to))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="a certificate is made by openssl")
def test_a_certificate_on_a_file_system_that_hangs_stops_nothing(tmp_path: Path) -> None:
    """A pipe that nobody writes into is read for ever, as a file of a network file system that is gone."""
    certificate, key, trusted = (tmp_path / name for name in ("broker.pem", "broker.key", "trusted.pem"))
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "2"]
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run([*made, *names, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    shutil.copy(certificate, trusted)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    async def scenario(to: Broker) -> None:
        async with connected(to, security_protocol="SSL", ssl_ca_location=str(trusted)) as transport:
            trusted.unlink()
            os.mkfifo(trusted)
            other = asyncio.create_task(heartbeat(transport, Node(2, "127.0.0.1", to.port)))
            assert await is_answered(transport, Node(1, "127.0.0.1", to.port))
            assert not isinstance(await other, RequestFailed), "the certificates that were read last serve"
            trusted.write_bytes(certificate.read_bytes())  # what has waited for the pipe may end

    with broker(tls=context) as to:
        asyncio.run(scenario(to))


@pytest.mark.slow
async def test_a_peer_that_never_shakes_hands_fails_within_the_connection_timeout() -> None:
    async def scenario(port: int) -> None:
        properties = {"bootstrap.servers": f"127.0.0.1:{port}", "security.protocol": "SSL"}
        transport = Transport({**properties, "socket.connection.setup.timeout.ms": "500"})
        assert isinstance(await heartbeat(transport, Node(1, "127.0.0.1", port), NEVER_MS), RequestFailed)
        await transport.close()

    with socket.create_server(("127.0.0.1", 0)) as silent:
        await scenario(silent.getsockname()[1])
