"""Whatever strangers send to the HTTP server: an answer that is no error of Bellwether, no traceback, nothing that
stays."""

import asyncio
import os
from random import Random

import pytest
from prometheus_client import CollectorRegistry, Gauge

from bellwether_kafka.coordinator.web import HttpServer, Web
from bellwether_kafka.coordinator.web import server as http
from tests.fuzz.mutate import mutate

REQUESTS = int(os.environ.get("BELLWETHER_HTTP_REQUESTS", "400"))
AT_ONCE = 40
TIMEOUT_S = 1.0
HONEST = (
    b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: application/openmetrics-text; version=1.0.0,*/*;q=0.1\r\n\r\n",
    b"GET /api/groups/or%64ers HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"GET /api/overview/or%64ers?q=x HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\r\n",
    b"GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
    b"POST /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"HEAD /decisions HTTP/1.0\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n",
)


async def answered(port: int, request: bytes, *, ends: bool) -> bytes:
    """All that comes back; b"" where the connection is cut."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        if ends:
            writer.write_eof()
        return await asyncio.wait_for(reader.read(), 30)
    except OSError:
        return b""
    finally:
        writer.close()


@pytest.mark.timeout(600)
async def test_strangers_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "ANSWER_TIMEOUT_S", TIMEOUT_S)
    draw = Random(6)
    trouble: list[dict[str, object]] = []

    async def run() -> list[bytes]:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: trouble.append(context))
        registry = CollectorRegistry()
        Gauge("answer", "A gauge.", registry=registry).set(42)
        server = HttpServer(Web(registry, lambda: None))
        port = int((await server.start("127.0.0.1:0")).rpartition(":")[2])
        assert (await answered(port, HONEST[0], ends=True)).startswith(b"HTTP/1.1 200 ")
        own = asyncio.all_tasks()
        places = asyncio.Semaphore(AT_ONCE)

        async def request_answered(request: bytes, *, ends: bool) -> bytes:
            async with places:
                return await answered(port, request, ends=ends)

        requests = [mutate(draw, draw.choice(HONEST), HONEST) for _ in range(REQUESTS)]
        answers = await asyncio.gather(*(request_answered(r, ends=draw.random() < 0.5) for r in requests))
        assert (await answered(port, HONEST[0], ends=True)).startswith(b"HTTP/1.1 200 ")
        theirs = asyncio.all_tasks() - own
        if theirs:
            _, left = await asyncio.wait(theirs, timeout=30)
            assert left == set()
        await server.stop()
        return answers

    answers = await run()
    assert trouble == []
    assert [a[:60] for a in answers if a.startswith(b"HTTP/1.1 5")] == []
    assert {a[9:12] for a in answers} >= {b"200", b"400", b"404", b"405"}
