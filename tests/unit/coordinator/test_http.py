"""The HTTP server: three pages, read-only, and bounded against whoever connects."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from prometheus_client import CollectorRegistry, Gauge

from coordinator import http
from coordinator.http import HttpAddressError, HttpServer

Ask = Callable[[bytes], Awaitable[str]]


def served(talk: Callable[[Ask], Awaitable[None]], *, trouble: str | None = None) -> None:
    async def run() -> None:
        registry = CollectorRegistry()
        Gauge("answer", "A gauge.", registry=registry).set(42)
        server = HttpServer(registry, lambda: trouble)
        host, port = (await server.start("127.0.0.1:0")).split(":")

        async def ask(request: bytes) -> str:
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(request)
            try:
                return (await reader.read()).decode()
            except ConnectionResetError:
                return ""  # dropped without an answer, with bytes of ours unread
            finally:
                writer.close()

        try:
            await asyncio.wait_for(talk(ask), 30)
        finally:
            await server.stop()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("request_line", "status", "body"),
    [
        ("GET /metrics HTTP/1.1", "200 OK", "answer 42.0"),
        ("GET /metrics?x=1 HTTP/1.1", "200 OK", "answer 42.0"),
        ("GET /livez HTTP/1.1", "200 OK", "ok"),
        ("GET /readyz HTTP/1.1", "200 OK", "ok"),
        ("GET /other HTTP/1.1", "404 Not Found", "There are"),
        ("POST /metrics HTTP/1.1", "405 Method Not Allowed", "Only GET"),
        ("nonsense", "405 Method Not Allowed", "Only GET"),
    ],
)
def test_pages(request_line: str, status: str, body: str) -> None:
    async def talk(ask: Ask) -> None:
        answer = await ask(f"{request_line}\r\nHost: x\r\n\r\n".encode())
        assert answer.startswith(f"HTTP/1.1 {status}\r\n")
        assert body in answer.split("\r\n\r\n", 1)[1]

    served(talk)


def test_head_has_no_body() -> None:
    async def talk(ask: Ask) -> None:
        head, body = (await ask(b"HEAD /metrics HTTP/1.1\r\n\r\n")).split("\r\n\r\n", 1)
        assert "200 OK" in head
        assert body == ""

    served(talk)


def test_not_ready_says_why_and_is_still_alive() -> None:
    async def talk(ask: Ask) -> None:
        answer = await ask(b"GET /readyz HTTP/1.1\r\n\r\n")
        assert answer.startswith("HTTP/1.1 503 ")
        assert answer.endswith("group orders: not leading yet\n")
        assert (await ask(b"GET /livez HTTP/1.1\r\n\r\n")).startswith("HTTP/1.1 200 ")

    served(talk, trouble="group orders: not leading yet")


def test_an_endless_header_is_cut_off() -> None:
    async def talk(ask: Ask) -> None:
        assert await ask(b"GET / HTTP/1.1\r\nX: " + b"x" * 1_000_000 + b"\r\n\r\n") == ""
        assert "200 OK" in await ask(b"GET /livez HTTP/1.1\r\n\r\n")

    served(talk)


def test_a_client_that_says_nothing_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "REQUEST_SECONDS", 0.1)

    async def talk(ask: Ask) -> None:
        assert await ask(b"GET /livez") == ""

    served(talk)


def test_too_many_connections_are_refused_and_do_not_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "CONNECTIONS_MAX", 2)
    monkeypatch.setattr(http, "REQUEST_SECONDS", 0.5)

    async def talk(ask: Ask) -> None:
        idle = [asyncio.create_task(ask(b"GET")) for _ in range(2)]
        await asyncio.sleep(0.1)
        assert await ask(b"GET /livez HTTP/1.1\r\n\r\n") == ""
        await asyncio.gather(*idle)
        assert "200 OK" in await ask(b"GET /livez HTTP/1.1\r\n\r\n")

    served(talk)


def test_a_taken_port_is_one_sentence_naming_the_setting() -> None:
    async def run() -> None:
        first = HttpServer(CollectorRegistry(), lambda: None)
        address = await first.start("127.0.0.1:0")
        with pytest.raises(HttpAddressError, match=rf"cannot listen on {address} .*change http_address"):
            await HttpServer(CollectorRegistry(), lambda: None).start(address)
        await first.stop()

    asyncio.run(run())
