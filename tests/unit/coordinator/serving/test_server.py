"""The socket on which brokers ask: bounded, for this machine only, and of use after anything that a client does."""

import errno
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from bellwether_kafka.coordinator.serving import AssignorAddressError, AssignorServer, assignor_server, wire
from tests.interop.support.members import wait_until
from tests.patience import PATIENCE

ECHO = b"answer to "


def echo(data: bytes) -> tuple[bytes, Callable[[bool], None]]:
    body = ECHO + data
    return wire.SIZE.pack(len(body)) + body, lambda _: None


@contextmanager
def running(address: str, answer: assignor_server.Answer = echo) -> Iterator[str]:
    made = AssignorServer(address, answer)
    try:
        yield made.start()
    finally:
        made.stop()


def connected(address: str) -> socket.socket:
    if address.startswith(assignor_server.UNIX):
        line = socket.socket(socket.AF_UNIX)
        line.connect(address.removeprefix(assignor_server.UNIX))
    else:
        host, _, port = address.rpartition(":")
        line = socket.create_connection((host, int(port)))
    line.settimeout(10 * PATIENCE)
    return line


def asked(line: socket.socket, data: bytes) -> bytes:
    line.sendall(wire.SIZE.pack(len(data)) + data)
    (size,) = wire.SIZE.unpack(line.recv(4, socket.MSG_WAITALL))
    return line.recv(size, socket.MSG_WAITALL)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.sock"


def test_a_connection_is_kept_for_many_requests(path: Path) -> None:
    with running(f"unix:{path}") as address, connected(address) as line:
        assert [asked(line, b"%d" % i) for i in range(3)] == [ECHO + b"%d" % i for i in range(3)]
    assert not path.exists()


def test_a_loopback_port_serves_too_and_the_address_has_the_real_one() -> None:
    with running("127.0.0.1:0") as address, connected(address) as line:
        assert not address.endswith(":0")
        assert asked(line, b"x") == ECHO + b"x"


def test_a_name_with_addresses_of_both_families_is_bound_where_java_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most systems list ::1 first for localhost, and a JVM connects to 127.0.0.1: no plan ever came."""
    both = [
        (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", 0, 0, 0)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0)),
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: both)
    with running("localhost:0") as address:
        assert address.startswith("127.0.0.1:")


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6")
def test_an_address_of_ipv6_is_named_as_it_is_configured() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no loopback interface of IPv6")
    with running("[::1]:0") as address:
        assert address.startswith("[::1]:")


@pytest.mark.parametrize("address", ["0.0.0.0:0", "192.0.2.1:9999"])
def test_another_interface_is_refused_with_the_setting(address: str) -> None:
    with pytest.raises(AssignorAddressError, match=r"loopback interface.*change assignor_address"):
        AssignorServer(address, echo).start()


def test_only_the_user_and_the_group_may_connect(path: Path) -> None:
    with running(f"unix:{path}"):
        assert path.stat().st_mode & 0o777 == 0o660


def test_the_socket_of_a_process_that_was_killed_is_replaced_and_that_of_a_running_one_is_not(path: Path) -> None:
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(path))
    left.close()
    with running(f"unix:{path}") as address, pytest.raises(AssignorAddressError, match="another process listens there"):
        AssignorServer(address, echo).start()
    path.write_text("a file of another program")
    with pytest.raises(AssignorAddressError, match="change assignor_address"):
        AssignorServer(f"unix:{path}", echo).start()
    assert path.read_text() == "a file of another program"


def test_a_socket_of_another_kind_is_left_to_the_process_that_reads_it(path: Path) -> None:
    """Whatever accepted no connection counted as left over: /dev/log was removed, and the socket of another user."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log:
        log.bind(str(path))
        with pytest.raises(AssignorAddressError, match="another process listens there"):
            AssignorServer(f"unix:{path}", echo).start()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
            client.sendto(b"x", str(path))
        assert log.recv(1) == b"x"


def test_a_process_that_stops_leaves_the_socket_of_its_successor(path: Path) -> None:
    """The first file is gone, as after `rm` or a cleaned folder, so the successor could take the place."""
    with running(f"unix:{path}"):
        path.unlink()
        successor = AssignorServer(f"unix:{path}", echo)
        successor.start()
    with connected(f"unix:{path}") as line:
        assert asked(line, b"x") == ECHO + b"x"
    successor.stop()
    assert not path.exists()


@pytest.mark.slow
def test_a_socket_whose_file_was_removed_is_made_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by a container that begins with an empty folder: brokers that restarted got no plan any more."""
    monkeypatch.setattr(assignor_server, "FILE_POLL_S", 0.05)
    folder = path.parent / "run"
    folder.mkdir()
    with running(f"unix:{folder / path.name}") as address, connected(address) as kept:
        shutil.rmtree(folder)
        time.sleep(0.2 * PATIENCE)  # meanwhile the file cannot be made
        folder.mkdir()
        wait_until((folder / path.name).exists, 10 * PATIENCE, lambda: "no socket")
        with connected(address) as line:
            assert asked(line, b"x") == ECHO + b"x"
        assert asked(kept, b"y") == ECHO + b"y"
    assert not (folder / path.name).exists()


@pytest.mark.parametrize("sent", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x00\x00\x00\x00", b"\x00\x00"])
def test_nonsense_ends_its_own_connection_only(path: Path, sent: bytes) -> None:
    with running(f"unix:{path}") as address, connected(address) as bad, connected(address) as good:
        bad.sendall(sent)
        bad.shutdown(socket.SHUT_WR)
        assert bad.recv(1) == b""
        assert asked(good, b"x") == ECHO + b"x"


def test_a_plan_for_which_the_broker_did_not_wait_is_reported_as_late(path: Path) -> None:
    """The broker ends its connection at the deadline. Nothing learned of it, so nothing made the broker ask again."""
    released, reported = threading.Event(), list[bool]()

    def slow(data: bytes) -> tuple[bytes, Callable[[bool], None]]:
        assert released.wait(30 * PATIENCE)
        return echo(data)[0], reported.append

    with running(f"unix:{path}", slow) as address:
        with connected(address) as line:
            line.sendall(wire.SIZE.pack(4) + b"slow")
        released.set()
        wait_until(lambda: bool(reported), 10, lambda: "no report")
        with connected(address) as line:
            assert asked(line, b"x") == ECHO + b"x"
            wait_until(lambda: len(reported) == 2, 10, lambda: "no report")
    assert reported == [False, True]


def test_plans_of_applications_do_not_occupy_the_places_of_consumers(path: Path) -> None:
    released = threading.Event()
    tasks = bytes((wire.VERSION, wire.TASKS)) + bytes(4)

    def slow(data: bytes) -> tuple[bytes, Callable[[bool], None]]:
        if data == tasks:
            released.wait(30 * PATIENCE)
        return echo(data)

    with running(f"unix:{path}", slow) as address:
        lines = [connected(address) for _ in range(3)]
        for line in lines:
            line.sendall(wire.SIZE.pack(len(tasks)) + tasks)
        with connected(address) as line:
            assert asked(line, b"x") == ECHO + b"x"
        released.set()
        for line in lines:
            line.close()


def test_a_slow_plan_does_not_hold_up_another_one(path: Path) -> None:
    waiting, released = threading.Event(), threading.Event()

    def slow(data: bytes) -> tuple[bytes, Callable[[bool], None]]:
        if data == b"slow":
            waiting.set()
            released.wait(30 * PATIENCE)
        return echo(data)

    with running(f"unix:{path}", slow) as address, connected(address) as first, connected(address) as second:
        first.sendall(wire.SIZE.pack(4) + b"slow")
        assert waiting.wait(10 * PATIENCE)
        assert asked(second, b"x") == ECHO + b"x"
        released.set()
        assert first.recv(4 + len(ECHO) + 4, socket.MSG_WAITALL).endswith(b"slow")


def test_a_new_connection_takes_the_place_of_the_one_that_is_idle_longest(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assignor_server, "CONNECTIONS_MAX", 2)
    with running(f"unix:{path}") as address, connected(address) as oldest, connected(address) as second:
        assert [asked(line, b"x") for line in (oldest, second, oldest)] == [ECHO + b"x"] * 3
        with connected(address) as third:
            assert asked(third, b"4") == ECHO + b"4"
            assert second.recv(1) == b""
            assert asked(oldest, b"5") == ECHO + b"5"


@pytest.mark.slow
def test_connections_that_cannot_be_accepted_cost_no_time_of_other_threads(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[float] = []

    class Listening(socket.socket):
        def accept(self) -> tuple[socket.socket, object]:
            attempts.append(time.monotonic())
            raise OSError(errno.EMFILE, "Too many open files")

    def unix(at: Path) -> socket.socket:
        listening = Listening(socket.AF_UNIX)
        listening.bind(str(at))
        return listening

    monkeypatch.setattr(assignor_server, "_unix", unix)
    with running(f"unix:{path}"):
        wait_until(lambda: len(attempts) >= 3, 10, lambda: str(attempts))
    assert min(later - former for former, later in pairwise(attempts)) > 0.05


def test_a_system_without_another_thread_refuses_one_connection_and_no_later_one(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error of the first one ended the thread that accepts connections: no broker got a plan any more."""
    start, refused = threading.Thread.start, list[str]()

    def limited(thread: threading.Thread) -> None:
        if thread.name == "bellwether-plan" and not refused:
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        start(thread)

    with running(f"unix:{path}") as address:
        monkeypatch.setattr(threading.Thread, "start", limited)
        with connected(address) as line:
            assert line.recv(1) == b""
        with connected(address) as line:
            assert asked(line, b"x") == ECHO + b"x"
