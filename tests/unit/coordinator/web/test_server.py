"""The HTTP server: read-only, and bounded against all that connects."""

import asyncio
import json
import re
import threading
import time
import urllib.request
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Protocol

import pytest
from prometheus_client import CollectorRegistry, Gauge

from bellwether_kafka.coordinator.membership import NotLeading, Role
from bellwether_kafka.coordinator.observation import Group, role_status
from bellwether_kafka.coordinator.web import HttpAddressError, HttpServer, Web, responses
from bellwether_kafka.coordinator.web import server as http
from bellwether_kafka.coordinator.web.app import PAGE
from tests.paths import ROOT


class Ask(Protocol):
    """Sends bytes, and with `ends` that no more will come; returns all that is answered."""

    async def __call__(self, request: bytes, *, ends: bool = False) -> str: ...


ROLE = Role(NotLeading.EMPTY, "no other member is in the group", since=5.0, next_attempt=7.5)
STATUS = Group(
    group="orders", mode="lead", state="stable", role=role_status(ROLE, 1_700_000_000.0), generation=7, members=1
)


def request(line: str) -> bytes:
    return f"{line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()


async def served(talk: Callable[[Ask], Awaitable[None]], *, trouble: str | None = None) -> None:
    registry = CollectorRegistry()
    Gauge("answer", "A gauge.", registry=registry).set(42)
    server = HttpServer(Web(registry, lambda: trouble, lambda: [STATUS]))
    host, port = (await server.start("127.0.0.1:0")).split(":")

    async def ask(request: bytes, *, ends: bool = False) -> str:
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(request)
        if ends:
            writer.write_eof()
        try:
            return (await reader.read()).decode()
        except ConnectionError:
            return ""  # dropped without an answer, with bytes of the request unread
        finally:
            writer.close()

    try:
        await asyncio.wait_for(talk(ask), 30)
    finally:
        await server.stop()


@pytest.mark.parametrize(
    ("line", "status", "body"),
    [
        ("GET /metrics", 200, "answer 42.0"),
        ("GET /metrics?x=1", 200, "answer 42.0"),
        ("GET /livez", 200, "ok"),
        ("GET /readyz", 200, "ok"),
        ("GET /decisions", 200, "[]"),
        ("GET /api/groups", 200, '"group":"orders"'),
        ("GET /api/groups/orders", 404, "no such group"),
        ("GET /", 200, "<title>Bellwether</title>"),
        ("GET /page.js", 200, "import { group }"),
        ("GET /parts.js", 200, "export function make"),
        ("GET /page.css", 200, "color-scheme"),
        ("GET /api/overview", 200, "[]"),
        ("GET /api/overview/a%2Fb", 404, "no group of that name"),
        ("GET /page.html", 404, "There are"),
        ("GET /../cli.py", 404, "There are"),
        ("POST /metrics", 405, "Only GET"),
        ("DELETE /api/groups/orders", 405, "Only GET"),
    ],
)
async def test_answers(line: str, status: int, body: str) -> None:
    async def talk(ask: Ask) -> None:
        head, reported = (await ask(request(line))).split("\r\n\r\n", 1)
        assert head.startswith(f"HTTP/1.1 {status} ")
        assert body in reported
        assert "content-security-policy: default-src 'none'" in head

    await served(talk)


def test_every_file_of_the_page_is_served_and_every_import_is_there() -> None:
    folder = ROOT / "coordinator" / "web" / "page"
    assert {name for name, _ in PAGE.values()} == {path.name for path in folder.iterdir()}
    imported = {name for path in folder.glob("*.js") for name in re.findall(r'from "\./(.*?)"', path.read_text())}
    assert {f"/{name}" for name in imported} < PAGE.keys()


async def test_head_has_no_body() -> None:
    async def talk(ask: Ask) -> None:
        head, body = (await ask(request("HEAD /metrics"))).split("\r\n\r\n", 1)
        assert head.startswith("HTTP/1.1 200 ")
        assert body == ""

    await served(talk)


async def test_groups_are_json() -> None:
    async def talk(ask: Ask) -> None:
        (row,) = json.loads((await ask(request("GET /api/groups"))).split("\r\n\r\n", 1)[1])
        assert row == {
            "group": "orders", "mode": "lead", "state": "stable", "leading": False, "generation": 7, "members": 1,
            "role": {
                "reason": "empty", "detail": "no other member is in the group", "remedy": NotLeading.EMPTY.remedy,
                "since_ms": 1_700_000_005_000, "next_attempt_ms": 1_700_000_007_500,
            },
            "emptying": [], "applied_plan": "",
        }  # fmt: skip

    await served(talk)


async def test_not_ready_says_why_and_is_still_alive() -> None:
    async def talk(ask: Ask) -> None:
        answer = await ask(request("GET /readyz"))
        assert answer.startswith("HTTP/1.1 503 ")
        assert answer.endswith("group orders: not leading yet\n")
        assert (await ask(request("GET /livez"))).startswith("HTTP/1.1 200 ")

    await served(talk, trouble="group orders: not leading yet")


def test_a_group_that_is_refused_beside_others_is_named_by_a_probe_that_passes() -> None:
    web = Web(CollectorRegistry(), lambda: None, remark=lambda: "orders: denied")
    answer = web.answer("GET", "/readyz")
    assert (answer.status, answer.body) == (200, b"ok, but orders: denied\n")
    assert web.answer("GET", "/livez").body == b"ok\n"


async def test_an_endless_header_is_refused() -> None:
    async def talk(ask: Ask) -> None:
        refused = await ask(b"GET / HTTP/1.1\r\nX: " + b"x" * 1_000_000 + b"\r\n\r\n")
        assert refused == "" or refused.startswith("HTTP/1.1 400 ")  # if it is read before the connection is reset
        assert (await ask(request("GET /livez"))).startswith("HTTP/1.1 200 ")

    await served(talk)


@pytest.mark.slow
@pytest.mark.parametrize("words", [b"", b"GET /livez"])
async def test_a_client_that_says_nothing_is_dropped(monkeypatch: pytest.MonkeyPatch, words: bytes) -> None:
    monkeypatch.setattr(http, "ANSWER_TIMEOUT_S", 0.2)

    async def talk(ask: Ask) -> None:
        assert "200" not in await ask(words)

    await served(talk)


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n\r\n", 200),
        (
            b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AA=A\r\n\r\n",
            200,
        ),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9), 405),
        (b"GET /metrics HTTP/1.0\r\nAccept: application/openmetrics-text;version=1.0g\r\n\r\n", 200),
        (b"GET /api/groups/%ff%00 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 404),
    ],
    ids=["websocket", "h2c", "http 2", "no version", "no text"],
)
async def test_what_is_not_understood_is_no_error_of_bellwether(
    words: bytes, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Some were answered with 500 once; h2c wrote a traceback into the log and kept its connection for ever."""

    async def talk(ask: Ask) -> None:
        assert (await ask(words)).startswith(f"HTTP/1.1 {status} ")

    await served(talk)
    assert caplog.records == []


async def test_who_only_stops_asking_is_answered() -> None:
    async def talk(ask: Ask) -> None:
        assert "answer 42.0" in await ask(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", ends=True)

    await served(talk)


@pytest.mark.slow
async def test_connections_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest stay; those that have been idle for longest make way."""
    monkeypatch.setattr(http, "CONNECTIONS_MAX", 2)
    monkeypatch.setattr(http, "ANSWER_TIMEOUT_S", 3)

    async def talk(ask: Ask) -> None:
        began = time.monotonic()
        ended = [asyncio.create_task(ends_after(ask, began)) for _ in range(5)]
        took = sorted(await asyncio.gather(*ended))
        assert took[2] < 2.5, "three of five have made way at once"
        assert took[3] > 2.5, "two have stayed for their time"

    async def ends_after(ask: Ask, began: float) -> float:
        assert await ask(b"") == ""
        return time.monotonic() - began

    await served(talk)


@pytest.mark.slow
async def test_connections_that_say_nothing_shut_no_probe_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "CONNECTIONS_MAX", 8)

    async def talk(ask: Ask) -> None:
        silent = [asyncio.create_task(ask(b"")) for _ in range(40)]
        await asyncio.sleep(0.2)
        for path in ("/livez", "/readyz", "/metrics"):
            assert (await ask(request(f"GET {path}"))).startswith("HTTP/1.1 200 ")
        for each in silent:
            each.cancel()
        await asyncio.gather(*silent, return_exceptions=True)

    await served(talk)


@pytest.mark.slow
async def test_probes_are_answered_while_pages_are_made_and_while_the_caller_s_loop_is_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(responses, "WAITING_MAX", 10)
    making = threading.Event()

    def slow() -> list[Group]:
        making.wait(20)
        return []

    def probed(port: int) -> float:
        began = time.monotonic()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/livez", timeout=10) as answer:
            assert answer.status == 200
        return time.monotonic() - began

    server = HttpServer(Web(CollectorRegistry(), lambda: None, slow))
    port = int((await server.start("127.0.0.1:0")).rpartition(":")[2])
    pages = [await asyncio.open_connection("127.0.0.1", port) for _ in range(100)]
    for _, writer in pages:
        writer.write(request("GET /api/groups"))
    await asyncio.sleep(0.2)
    with ThreadPoolExecutor(1) as threads:
        probe = threads.submit(probed, port)
        assert probe.result(10) < 2.0  # this blocks the loop from which the server was started
    making.set()
    answers = await asyncio.gather(*(reader.read() for reader, _ in pages))
    assert {answer[9:12] for answer in answers} == {b"200", b"503"}, "only so many wait for their turn"
    for _, writer in pages:
        writer.close()
    await server.stop()


@pytest.mark.slow
async def test_a_body_of_many_chunks_arrives_whole() -> None:
    groups = [replace(STATUS, group=f"group-{number:05}") for number in range(3_000)]
    server = HttpServer(Web(CollectorRegistry(), lambda: None, lambda: groups))
    host, port = (await server.start("127.0.0.1:0")).split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request("GET /api/groups"))
    head, body = (await reader.read()).split(b"\r\n\r\n", 1)
    writer.close()
    await server.stop()
    assert f"content-length: {len(body)}\r\n".encode() in head
    assert [row["group"] for row in json.loads(body)] == [status.group for status in groups]


def test_a_loop_that_does_not_turn_is_not_alive() -> None:
    web = Web(CollectorRegistry(), lambda: None, stuck=lambda: "the event loop has not run for 31 s")
    assert web.answer("GET", "/livez").status == 503


async def test_a_taken_port_is_one_sentence_naming_the_setting() -> None:
    first = HttpServer(Web(CollectorRegistry(), lambda: None))
    address = await first.start("127.0.0.1:0")
    with pytest.raises(HttpAddressError, match=rf"cannot listen on {address} .*change http_address"):
        await HttpServer(Web(CollectorRegistry(), lambda: None)).start(address)
    await first.stop()
