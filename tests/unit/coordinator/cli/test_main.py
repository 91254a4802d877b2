"""The command line: exit codes, one sentence per mistake, and a service that starts, serves and stops."""

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription
from tests.kit.brokers import EmbeddedCluster
from tests.kit.commands import bellwether

COMMAND = [sys.executable, "-m", "bellwether_kafka"]
# The same, with the transport that embedded brokers need.
EMBEDDED_MAIN = """
from functools import partial
from bellwether_kafka.coordinator.cli import main
from tests.kit.brokers import EmbeddedTransport
from bellwether_kafka.coordinator.runtime import Outside, process
process.Outside = partial(Outside, transport=EmbeddedTransport)
main()
"""
ON_EMBEDDED_BROKERS = [sys.executable, "-c", EMBEDDED_MAIN]
BLOB = ConsumerProtocolSubscription(version=1, topics=("orders",)).encode().hex()
KIND = "ConsumerProtocolSubscription"


def started(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """The command as a process of its own: a service sets up logs and signals for the whole process."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("BELLWETHER_")} | environ
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=60, env=env, check=False)


def complaint(ended: subprocess.CompletedProcess[str]) -> str:
    """Standard error of a user's mistake: exit code 2 and no traceback."""
    assert ended.returncode == 2, ended.stderr
    assert "Traceback" not in ended.stderr
    return ended.stderr.strip()


def test_help_lists_commands_and_exit_codes() -> None:
    ended = bellwether("--help", COLUMNS="200")
    assert ended.returncode == 0
    for word in ("run", "decode", "Exit codes:", "3    fenced"):
        assert word in ended.stdout


@pytest.mark.slow
def test_version() -> None:
    ended = started("--version")
    assert ended.returncode == 0
    assert re.fullmatch(r"bellwether \S.*\n", ended.stdout)


@pytest.mark.parametrize("given", [BLOB, BLOB.upper(), f"0x{BLOB}", ":".join(re.findall("..", BLOB))])
def test_decode_prints_json(given: str) -> None:
    ended = bellwether("debug", "decode", KIND, given)
    assert ended.returncode == 0, ended.stderr
    assert '"orders"' in ended.stdout


@pytest.mark.parametrize("kind", ["subscription", KIND])
def test_decode_takes_the_short_names_that_its_help_says(kind: str) -> None:
    assert bellwether("debug", "decode", kind, BLOB).stdout == bellwether("debug", "decode", KIND, BLOB).stdout


def test_decode_reads_standard_input() -> None:
    assert '"orders"' in bellwether("debug", "decode", KIND, "-", text=f"{BLOB}\n").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("debug", "decode", "nonsense", "00"), "Unknown kind 'nonsense': use one of ConsumerProtocolSubscription"),
        (("debug", "decode", KIND, "xyz"), "HEX is not an even number of hex digits"),
        (("debug", "decode", KIND, "000"), "HEX is not an even number of hex digits"),
        (("debug", "decode", KIND, BLOB[:-6]), f"These {len(BLOB) // 2 - 3} bytes are no {KIND}: "),
        (("run",), "bootstrap.servers is not set"),
        (("run", "--bootstrap", "b:1"), "groups is empty"),
        (("run", "--config", "/nowhere.toml"), "check --config"),
    ],
)
def test_a_mistake_is_one_sentence(arguments: tuple[str, ...], message: str) -> None:
    error = complaint(bellwether(*arguments))
    assert message in error
    assert len(error.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "bootstrap.servers is not set"),
        (("--bootstrap", "x:y", "--group", "g"), "bootstrap.servers"),
    ],
)
def test_a_service_that_cannot_start_says_why_in_one_sentence(arguments: tuple[str, ...], message: str) -> None:
    error = complaint(started("run", *arguments, BELLWETHER_HTTP_ADDRESS=""))
    assert message in error
    assert len(error.splitlines()) == 1


@pytest.mark.slow
def test_an_unknown_policy_is_named(tmp_path: Path) -> None:
    file = tmp_path / "b.toml"
    file.write_text(
        'http_address = ""\n[kafka]\n"bootstrap.servers" = "127.0.0.1:1"\n[[groups]]\nname = "g"\npolicy = "x"\n'
    )
    message = complaint(started("run", "--config", str(file)))
    assert "The setting policy of group g cannot be used: there is no policy 'x'; Bellwether has kafka, " in message


@pytest.mark.slow
def test_a_taken_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = started("run", "--bootstrap", "127.0.0.1:1", "--group", "g", BELLWETHER_HTTP_ADDRESS=address)
    assert "change http_address" in complaint(ended)


@pytest.fixture
def running() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A service on embedded brokers, with the address of its HTTP server."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with EmbeddedCluster() as brokers:
        env = {
            **os.environ,
            "BELLWETHER_KAFKA_BOOTSTRAP_SERVERS": brokers.bootstrap,
            "BELLWETHER_GROUPS": '[{"name": "orders", "mode": "lead"}, {"name": "seen"}]',
            "BELLWETHER_HTTP_ADDRESS": address,
        }
        process = subprocess.Popen([*ON_EMBEDDED_BROKERS, "run"], env=env, text=True, stderr=subprocess.PIPE)
        try:
            yield process, address
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate(timeout=10)


@pytest.mark.embedded
def test_a_service_that_starts_before_its_brokers_waits_for_them() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free, socket.create_server(("127.0.0.1", 0)) as later:
        address, bootstrap = (f"127.0.0.1:{each.getsockname()[1]}" for each in (free, later))
    environ = {name: value for name, value in os.environ.items() if not name.startswith("BELLWETHER_")}
    environ |= {"BELLWETHER_HTTP_ADDRESS": address}
    command = [*ON_EMBEDDED_BROKERS, "run", "--group", "orders", "--mode", "lead", "--bootstrap", bootstrap]
    process = subprocess.Popen(command, env=environ, text=True, stderr=subprocess.PIPE)
    try:
        until(address, f"not connected yet: No broker can be reached at bootstrap.servers ({bootstrap})")
        assert fetched(address, "/livez") == "ok\n"
        with EmbeddedCluster() as brokers, forwarded(bootstrap, brokers.bootstrap.split(",")[0]):
            until(address, "ok\n")
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=20)
        assert process.returncode == 0, errors
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate(timeout=10)


def until(address: str, words: str) -> None:
    """Waits until /readyz says this."""
    deadline = time.monotonic() + 120
    while words not in fetched(address, "/readyz"):
        assert time.monotonic() < deadline
        time.sleep(0.1)


@contextmanager
def forwarded(address: str, to: str) -> Iterator[None]:
    """Forwards connections, like the address of a broker that has come up."""
    host, _, port = address.rpartition(":")
    there = to.rpartition(":")[0], int(to.rpartition(":")[2])

    def forward(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def accept() -> None:
        with suppress(OSError):
            while True:
                opened.append(listening.accept()[0])
                opened.append(socket.create_connection(there))
                for ends in (opened[-2:], opened[:-3:-1]):
                    threads.append(threading.Thread(target=forward, args=ends, daemon=True))
                    threads[-1].start()

    opened, threads = list[socket.socket](), [threading.Thread(target=accept, daemon=True)]
    with socket.create_server((host, int(port))) as listening:
        threads[0].start()
        try:
            yield
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            threads[0].join(10)
            for end in opened:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join(10)
            for end in opened:
                end.close()


def fetched(address: str, path: str) -> str:
    connection = http.client.HTTPConnection(address, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().read().decode()
    except OSError:
        return ""
    finally:
        connection.close()


@pytest.mark.embedded
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_service_joins_serves_metrics_and_stops(
    running: tuple[subprocess.Popen[str], str], number: signal.Signals
) -> None:
    process, address = running
    deadline = time.monotonic() + 120
    alone = 'bellwether_group_not_leading{group="orders",reason="unknown_group"} 1.0'  # there are no members to lead
    while alone not in fetched(address, "/metrics"):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.1)
    assert fetched(address, "/livez") == "ok\n"
    assert fetched(address, "/readyz") == "ok\n"
    while 'bellwether_members{group="seen"} 0.0' not in fetched(address, "/metrics"):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(number)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 0, errors
    assert "Traceback" not in errors
