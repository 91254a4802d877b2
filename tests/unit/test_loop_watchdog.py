"""The watchdog of the I/O thread sees what it is for, and nothing else."""

import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import loop_watchdog

BLOCKING: dict[str, Callable[[Path], object]] = {
    "getaddrinfo": lambda _: socket.getaddrinfo("127.0.0.1", 9092),
    "open": lambda folder: (folder / "ca.pem").write_text(""),
    "Popen": lambda _: subprocess.run(["true"], check=True),
    "load_verify_locations": lambda _: load_missing(),
    "sleep": lambda _: time.sleep(0.001),
}


def load_missing() -> None:
    with pytest.raises(FileNotFoundError):
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations("/no/such/file")


def run(work: Callable[[], object], name: str) -> list[str]:
    thread = threading.Thread(target=work, name=name)
    thread.start()
    thread.join(20)
    return loop_watchdog.taken()


@pytest.mark.parametrize("call", BLOCKING)
def test_a_blocking_call_on_the_io_thread_is_seen(call: str, tmp_path: Path) -> None:
    seen = run(lambda: BLOCKING[call](tmp_path), "kafka-io-bellwether")
    assert any(call in each for each in seen)
    assert __file__ in "".join(seen)


@pytest.mark.parametrize("call", BLOCKING)
def test_the_same_call_elsewhere_is_not(call: str, tmp_path: Path) -> None:
    assert run(lambda: BLOCKING[call](tmp_path), "bellwether-addresses") == []
