"""The watchdog of the thread that sends heartbeats sees what it is for, and nothing else."""

import asyncio
import gc
import json
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import loop_watchdog
from tests.paths import ROOT
from tests.watched_process import MARK

THREAD = "bellwether-membership"
BLOCKING: dict[str, Callable[[Path], object]] = {
    "getaddrinfo": lambda _: socket.getaddrinfo("127.0.0.1", 9092),
    "open": lambda folder: (folder / "ca.pem").write_text(""),
    "Popen": lambda _: subprocess.run(["true"], check=True),
    "load_verify_locations": lambda _: load_missing(),
    "sleep": lambda _: time.sleep(0.001),
    "connect": lambda _: connect(),
    "encode": lambda _: json.dumps({}),
    "decode": lambda _: json.loads("{}"),
    "callback": lambda _: asyncio.run(compute(2 * CALLBACK_S)),
}
CALLBACK_S = 0.01  # in these tests, which compute for longer


@pytest.fixture(autouse=True)
def _callbacks_are_long_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_watchdog, "CALLBACK_S", CALLBACK_S)


def load_missing() -> None:
    with pytest.raises(FileNotFoundError):
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations("/no/such/file")


def connect() -> None:
    with socket.socket() as connection, pytest.raises(ConnectionRefusedError):
        connection.connect(("127.0.0.1", 1))


async def compute(seconds: float) -> None:
    began = time.thread_time()
    while time.thread_time() - began < seconds:
        sum(range(1000))


def run(work: Callable[[], object], name: str) -> list[str]:
    thread = threading.Thread(target=work, name=name)
    thread.start()
    thread.join(20)
    return loop_watchdog.taken()


@pytest.mark.parametrize("call", BLOCKING)
def test_what_the_loop_of_the_memberships_must_not_do_is_seen(call: str, tmp_path: Path) -> None:
    seen = run(lambda: BLOCKING[call](tmp_path), THREAD)
    assert any(call in each for each in seen)


def test_connections_that_do_not_block_are_its_own() -> None:
    async def connect_on_the_loop() -> None:
        with socket.socket() as connection:
            connection.setblocking(False)
            with pytest.raises(ConnectionRefusedError):
                await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", 1))

    assert run(lambda: asyncio.run(connect_on_the_loop()), THREAD) == []


@pytest.mark.parametrize("call", BLOCKING)
def test_the_same_call_elsewhere_is_not(call: str, tmp_path: Path) -> None:
    assert run(lambda: BLOCKING[call](tmp_path), "bellwether-addresses") == []


@pytest.mark.slow
def test_collections_of_garbage_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_watchdog, "CALLBACK_S", 0.1)
    kept = [[] for _ in range(200_000)]  # type: ignore[var-annotated]

    async def collect() -> None:
        began = time.thread_time()
        while time.thread_time() - began < 2 * loop_watchdog.CALLBACK_S:
            gc.collect()

    assert run(lambda: asyncio.run(collect()), THREAD) == []
    assert kept


@pytest.mark.slow
def test_a_process_of_its_own_says_it() -> None:
    code = (
        "import json, threading; from tests.watched_process import run;"
        f"run(threading.Thread(target=json.dumps, args=({{}},), name={THREAD!r}).start)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr.startswith(MARK)
    assert "encode on" in done.stderr
