"""What a connection promises whatever a broker sends: in parts, late, in another order, to nobody, or nothing."""

import asyncio
import shutil
import socket
import ssl
import struct
import subprocess
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.admin.groups import DescribeGroupsRequest, DescribeGroupsResponse

from bellwether_kafka.coordinator.kafka.wire import Transport, TransportError, UnreachableError
from bellwether_kafka.coordinator.kafka.wire.connections import server_of
from bellwether_kafka.coordinator.membership import Failure, Heartbeat, HeartbeatAnswer, Join, Node, RequestFailed

FETCH, API_VERSIONS, HEARTBEAT, DESCRIBE, SASL_HANDSHAKE, SASL_AUTHENTICATE = 1, 18, 12, 15, 17, 36
VERSIONS = {
    FETCH: 8,
    API_VERSIONS: 2,
    HEARTBEAT: 3,
    DESCRIBE: 4,
    SASL_HANDSHAKE: 1,
    SASL_AUTHENTICATE: 1,
}  # of Kafka 2.0
UNSUPPORTED_VERSION = 35
PLAIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"}

Send = Callable[[int, bytes], None]  # to the request with this number
Handle = Callable[[int, int, Send], Awaitable[None] | None]  # api key, number, ...


def versions_body(error: int = 0, newest: int = 2, throttle_ms: int = 0) -> bytes:
    ranges = b"".join(struct.pack(">hhh", key, 0, most) for key, most in (VERSIONS | {API_VERSIONS: newest}).items())
    throttle = struct.pack(">i", throttle_ms) if not error else b""  # with this error the layout is that of version 0
    return struct.pack(">hi", error, len(VERSIONS)) + ranges + throttle


def heartbeat_body(error: int = 0, throttle_ms: int = 0) -> bytes:
    return struct.pack(">ih", throttle_ms, error)


def frame(number: int, body: bytes) -> bytes:
    return struct.pack(">ii", 4 + len(body), number) + body


class Broker:
    """Answers ApiVersions and logins, and leaves all else to `handle`. `requests` are the kinds that came, by
    connection; `versions` those of ApiVersions."""

    def __init__(self, handle: Handle) -> None:
        self.handle = handle
        self.requests: list[list[int]] = []
        self.versions: list[int] = []
        self.writers: list[asyncio.StreamWriter] = []
        self.lives_ms = 0
        self.throttle_ms = 0  # in the answer to ApiVersions
        self.port = 0

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came: list[int] = []
        self.requests.append(came)
        self.writers.append(writer)

        def send(number: int, body: bytes) -> None:
            writer.write(frame(number, body))

        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                key, version, number = struct.unpack_from(">hhi", await reader.readexactly(size))
                came.append(key)
                if key == API_VERSIONS:
                    self.versions.append(version)
                    known = version <= VERSIONS[API_VERSIONS]
                    send(number, versions_body(0 if known else UNSUPPORTED_VERSION, throttle_ms=self.throttle_ms))
                elif key == SASL_HANDSHAKE:
                    send(number, struct.pack(">hih5s", 0, 1, 5, b"PLAIN"))
                elif key == SASL_AUTHENTICATE:
                    send(number, struct.pack(">hhiq", 0, -1, 0, self.lives_ms))
                elif (handled := self.handle(key, number, send)) is not None:
                    await handled
        writer.close()


@asynccontextmanager
async def talking(broker: Broker, tls: ssl.SSLContext | None = None, **properties: str) -> AsyncIterator[Transport]:
    server = await asyncio.start_server(broker.talk, "127.0.0.1", 0, ssl=tls)
    broker.port = server.sockets[0].getsockname()[1]
    transport = Transport({"bootstrap.servers": f"127.0.0.1:{broker.port}", **properties})
    try:
        yield transport
    finally:
        await transport.close()
        server.close()
        for writer in broker.writers:
            writer.close()


async def heartbeat(transport: Transport, broker: Broker, number: int = 1, timeout_ms: int = 30_000) -> Any:
    return await transport.request(
        Heartbeat(number, Node(1, "127.0.0.1", broker.port), "orders", timeout_ms, "m", None, 1)
    )


def answers(key: int, number: int, send: Send) -> None:
    del key
    send(number, heartbeat_body())


async def test_an_answer_that_comes_byte_by_byte_is_read() -> None:
    async def in_parts(_: int, number: int, __: Send) -> None:
        for byte in frame(number, heartbeat_body(27)):
            broker.writers[0].write(bytes([byte]))
            await asyncio.sleep(0)

    broker = Broker(in_parts)
    async with talking(broker) as transport:
        assert await heartbeat(transport, broker, 7) == HeartbeatAnswer(7, 27)


async def test_answers_that_come_at_once_and_in_another_order_are_those_of_their_requests() -> None:
    waiting: list[int] = []

    def reversed_in_threes(_: int, number: int, __: Send) -> None:
        waiting.append(number)
        if len(waiting) == 3:
            each = [frame(number, heartbeat_body(error)) for error, number in enumerate(waiting, 20)]
            broker.writers[0].write(b"".join(reversed(each)))

    broker = Broker(reversed_in_threes)
    async with talking(broker) as transport:
        read = await asyncio.gather(*(heartbeat(transport, broker, number) for number in (1, 2, 3)))
    assert read == [HeartbeatAnswer(1, 20), HeartbeatAnswer(2, 21), HeartbeatAnswer(3, 22)]
    assert len(broker.requests) == 1, "on one connection"


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (lambda number: frame(number + 1, heartbeat_body()), "which was not sent"),
        (lambda _: struct.pack(">i", -1), "no length"),
        (lambda _: b"HTTP/1.1 400 Bad Request", "no length"),
        (lambda number: frame(number, b""), "cannot be decoded"),
    ],
)
async def test_bytes_that_are_no_answer_end_the_connection_with_all_requests_on_it(
    sent: Callable[[int], bytes], reason: str
) -> None:
    def nonsense(_: int, number: int, __: Send) -> None:
        if broker.requests[0].count(HEARTBEAT) == 2:
            broker.writers[0].write(sent(number))

    broker = Broker(nonsense)
    async with talking(broker) as transport:
        read = await asyncio.gather(heartbeat(transport, broker, 1), heartbeat(transport, broker, 2))
        assert [each.failure for each in read] == [Failure.MALFORMED] * 2
        assert all(reason in each.reason for each in read)
        broker.handle = answers
        assert await heartbeat(transport, broker, 3) == HeartbeatAnswer(3, 0), "on another connection"
    assert len(broker.requests) == 2


@pytest.mark.parametrize("pause_ms", ["0", "60000"])
async def test_what_speaks_no_kafka_has_answered_no_request(pause_ms: str) -> None:
    """A JoinGroup whose answer cannot be read is given up for good. It was, too, where something else was at the
    address for a moment, or a listener with TLS."""

    class Web(Broker):
        async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1_000)
            writer.write(b"HTTP/1.1 400 Bad Request")
            writer.close()

    broker = Web(answers)
    async with talking(broker, **{"reconnect.backoff.ms": pause_ms}) as transport:
        for _ in range(2):
            answer = await heartbeat(transport, broker)
            assert answer.failure is Failure.DISCONNECTED
            assert "no length" in answer.reason
        with pytest.raises(UnreachableError, match="does not speak Kafka's protocol"):
            await transport.start()


@pytest.mark.slow
async def test_a_request_without_an_answer_in_its_time_ends_the_connection() -> None:
    """What follows it on the connection would wait as well. The reason has no figures: it is logged when it changes."""
    broker = Broker(answers)
    async with talking(broker) as transport:
        assert await heartbeat(transport, broker, 0) == HeartbeatAnswer(0, 0), "it is open before their time begins"
        broker.handle = lambda *_: None
        read = await asyncio.gather(heartbeat(transport, broker, 1), heartbeat(transport, broker, 2, timeout_ms=50))
        assert [each.failure for each in read] == [Failure.TIMED_OUT] * 2
        assert read[0].reason == read[1].reason
        assert " ms" not in read[0].reason
        broker.handle = answers
        assert await heartbeat(transport, broker, 3) == HeartbeatAnswer(3, 0)


async def test_a_request_that_nobody_waits_for_any_more_takes_no_other_answer() -> None:
    held: list[int] = []
    came = asyncio.Event()

    def late(_: int, number: int, send: Send) -> None:
        held.append(number)
        came.set()
        if len(held) == 2:
            send(held[0], heartbeat_body(22))
            send(held[1], heartbeat_body(0))

    broker = Broker(late)
    async with talking(broker) as transport:
        first = asyncio.create_task(heartbeat(transport, broker, 1))
        await came.wait()
        first.cancel()
        assert await heartbeat(transport, broker, 2) == HeartbeatAnswer(2, 0)
    assert len(broker.requests) == 1


@dataclass(frozen=True, slots=True)
class Where:
    """DescribeGroups; the answer is the thread in which it is read."""

    node: Node
    timeout_ms: int = 30_000

    def message(self) -> Any:
        return DescribeGroupsRequest(groups=["orders"], include_authorized_operations=False)

    def answer(self, _: Any) -> threading.Thread:
        return threading.current_thread()


async def test_a_request_whose_answer_cannot_be_handed_over_does_not_wait_for_ever() -> None:
    """No future takes StopIteration: a parser's `next` of nothing left its sender without a deadline."""

    class Ends(Where):
        def answer(self, _: Any) -> Any:
            return next(iter(()))

    def no_groups(_: int, number: int, send: Send) -> None:
        send(number, bytes(DescribeGroupsResponse(throttle_time_ms=0, groups=[]).encode(version=4)))

    broker = Broker(no_groups)
    async with talking(broker) as transport:
        with pytest.raises(TransportError) as refused:
            await asyncio.wait_for(transport.ask(Ends(Node(1, "127.0.0.1", broker.port))), 20)
        assert refused.value.failure is Failure.MALFORMED


@pytest.mark.slow
async def test_a_large_answer_is_read_beside_the_loop() -> None:
    """It would delay the heartbeats of all groups."""

    def described(members: int) -> bytes:
        member = DescribeGroupsResponse.DescribedGroup.DescribedGroupMember(
            member_id="m", group_instance_id=None, client_id="c", client_host="h",
            member_metadata=bytes(1_000), member_assignment=bytes(1_000),
        )  # fmt: skip
        group = DescribeGroupsResponse.DescribedGroup(
            error_code=0, group_id="orders", group_state="Stable", protocol_type="consumer", protocol_data="range",
            members=[member] * members, authorized_operations=[],
        )  # fmt: skip
        return bytes(DescribeGroupsResponse(throttle_time_ms=0, groups=[group]).encode(version=4))

    bodies = iter((described(1), described(1_000)))
    broker = Broker(lambda _, number, send: send(number, next(bodies)))
    async with talking(broker) as transport:
        where = Where(Node(1, "127.0.0.1", broker.port))
        assert await transport.ask(where) is threading.current_thread()
        assert await transport.ask(where) is not threading.current_thread()


@pytest.mark.slow
async def test_a_broker_that_throttles_is_left_in_peace_for_as_long_as_it_says() -> None:
    """KIP-219: it would not read the request before, and the time-out of that would run."""
    came: list[float] = []
    loop = asyncio.get_running_loop()

    def throttles(_: int, number: int, send: Send) -> None:
        came.append(loop.time())
        send(number, heartbeat_body(throttle_ms=200 if len(came) == 1 else 0))

    broker = Broker(throttles)
    async with talking(broker) as transport:
        for number in (1, 2, 3):
            assert await heartbeat(transport, broker, number) == HeartbeatAnswer(number, 0)
    assert came[1] - came[0] >= 0.2


async def test_a_broker_whose_quota_is_used_up_when_the_connection_opens_is_used() -> None:
    """Its answer to ApiVersions ended the connection: whether the broker itself delays was not known yet."""
    broker = Broker(answers)
    broker.throttle_ms = 1
    async with talking(broker) as transport:
        assert await heartbeat(transport, broker) == HeartbeatAnswer(1, 0)
    assert len(broker.requests) == 1


async def test_the_newest_version_of_api_versions_that_both_know_is_asked() -> None:
    broker = Broker(answers)
    async with talking(broker) as transport:
        assert await heartbeat(transport, broker) == HeartbeatAnswer(1, 0)
    assert broker.versions[0] > VERSIONS[API_VERSIONS]
    assert broker.versions[1:] == [VERSIONS[API_VERSIONS]]


async def test_a_request_that_no_broker_version_knows_is_named_as_unsupported() -> None:
    broker = Broker(answers)
    async with talking(broker) as transport:
        with pytest.raises(TransportError) as refused:
            await transport.list_groups(Node(1, "127.0.0.1", broker.port))
        assert refused.value.failure is Failure.UNSUPPORTED
        assert await heartbeat(transport, broker) == HeartbeatAnswer(1, 0), "the connection goes on"
    assert len(broker.requests) == 1


@pytest.mark.slow
async def test_a_later_login_waits_for_requests_on_their_way_and_keeps_others_back() -> None:
    """KIP-368: a broker takes a login only alone."""
    held: list[tuple[int, Send]] = []

    def parks_the_first(_: int, number: int, send: Send) -> None:
        if held:
            send(number, heartbeat_body())
        else:
            held.append((number, send))

    broker = Broker(parks_the_first)
    async with talking(broker, **PLAIN) as transport:
        broker.lives_ms = 1_000
        first = asyncio.create_task(heartbeat(transport, broker, 1))
        await asyncio.sleep(0)
        ((_, connection),) = transport._connections.by_name.values()
        await connection.opened()
        while connection._open.is_set():  # noqa: ASYNC110 - until the next login is due
            await asyncio.sleep(0.01)
        second = asyncio.create_task(heartbeat(transport, broker, 2))
        await asyncio.sleep(0.1)
        login = [API_VERSIONS, API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE, HEARTBEAT]
        assert broker.requests == [login]
        number, send = held[0]
        send(number, heartbeat_body())
        assert await first == HeartbeatAnswer(1, 0)
        assert await second == HeartbeatAnswer(2, 0)
        assert broker.requests == [[*login, SASL_HANDSHAKE, SASL_AUTHENTICATE, HEARTBEAT]]


async def test_an_address_that_has_just_failed_is_left_alone_for_a_moment_and_the_reason_stays() -> None:
    class Refusing(Broker):
        async def talk(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.requests.append([])
            writer.close()

    pauses = {f"reconnect.backoff.{name}": "60000" for name in ("ms", "max.ms")}
    broker = Refusing(answers)
    async with talking(broker, **pauses) as transport:
        first, second = [await heartbeat(transport, broker, number) for number in (1, 1)]
    assert isinstance(first, RequestFailed)
    assert first == second
    assert first.failure is Failure.DISCONNECTED
    assert len(broker.requests) == 1


async def test_connections_that_fail_together_are_one_attempt_at_their_address() -> None:
    """Each doubled the pause: after one refusal with many groups, heartbeats waited for two seconds."""
    with socket.create_server(("127.0.0.1", 0)) as gone:
        node = Node(1, "127.0.0.1", gone.getsockname()[1])
    transport = Transport({"bootstrap.servers": f"127.0.0.1:{node.port}", "reconnect.backoff.ms": "60000"})
    joins = [Join(1, node, f"group-{n}", 30_000, "", None, (("range", b""),), "", 6_000, 6_000) for n in range(20)]
    failed = await asyncio.gather(*map(transport.request, joins))
    assert {answer.failure for answer in failed if isinstance(answer, RequestFailed)} == {Failure.DISCONNECTED}
    assert transport._connections._attempts((node.host, node.port)) == 1
    await transport.close()


@pytest.mark.parametrize(("idle_ms", "connections"), [("1", 2), ("0", 1)])
async def test_an_idle_connection_is_not_used_again(idle_ms: str, connections: int) -> None:
    """Its broker would close it, perhaps just when a request is on its way. 0 is for ever, as librdkafka reads it."""
    broker = Broker(answers)
    async with talking(broker, **{"connections.max.idle.ms": idle_ms}) as transport:
        for number in (1, 2):
            assert await heartbeat(transport, broker, number) == HeartbeatAnswer(number, 0)
            await asyncio.sleep(0.002)
    assert [requests[-1] for requests in broker.requests] == [HEARTBEAT] * connections


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="certificates are made by openssl")
@pytest.mark.parametrize("revoked", [False, True])
async def test_a_broker_whose_certificate_is_revoked_is_refused(tmp_path: Path, revoked: bool) -> None:
    """ssl.crl.location ended every connection, whatever the file said."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority(tmp_path, revoked=revoked))
    tls = {"security.protocol": "SSL", "ssl.ca.location": str(tmp_path / "ca.pem")}
    broker = Broker(answers)
    async with talking(broker, context, **tls, **{"ssl.crl.location": str(tmp_path / "crl.pem")}) as transport:
        answer = await heartbeat(transport, broker)
    if revoked:
        assert answer.failure is Failure.AUTHENTICATION
        assert "revoked" in answer.reason
    else:
        assert answer == HeartbeatAnswer(1, 0)


def authority(folder: Path, *, revoked: bool) -> tuple[Path, Path]:
    """Makes an authority and its list of what is revoked. Returns a broker's certificate and key."""
    settings = "[ca]\ndefault_ca=d\n[d]\ndatabase=index\ndefault_md=sha256\ndefault_crl_days=2\n"
    (folder / "ca.cnf").write_text(settings)
    (folder / "index").write_text("")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    key, own = ("-newkey", "rsa:2048", "-nodes"), ("-keyfile", "ca.key", "-cert", "ca.pem", "-config", "ca.cnf")
    openssl("req", "-x509", *key, "-subj", "/CN=authority", "-days", "2", "-keyout", "ca.key", "-out", "ca.pem")
    openssl("req", *key, "-subj", "/CN=broker", "-keyout", "broker.key", "-out", "broker.csr")
    issued = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names")
    openssl("x509", "-req", "-in", "broker.csr", *issued, "-out", "broker.pem")
    if revoked:
        openssl("ca", "-revoke", "broker.pem", *own)
    openssl("ca", "-gencrl", "-out", "crl.pem", *own)
    return folder / "broker.pem", folder / "broker.key"


@pytest.mark.parametrize(
    ("text", "server"),
    [
        ("kafka:9093", ("kafka", 9093)),
        ("kafka", ("kafka", 9092)),
        ("SASL_SSL://kafka:9093", ("kafka", 9093)),
        ("[::1]:9093", ("::1", 9093)),
        ("[::1]", ("::1", 9092)),
        ("fe80::1", ("fe80::1", 9092)),
    ],
)
def test_bootstrap_servers_are_read_as_librdkafka_reads_them(text: str, server: tuple[str, int]) -> None:
    assert server_of(text) == server
