"""The jar's assignor of tasks, called as a 4.4 broker calls it, while what it asks answers, or does anything else.

Whatever happens, each call returns a complete and valid assignment soon, and without a plan nothing moves.
"""

import os
import signal
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bellwether_kafka.coordinator.serving import wire
from tests.conftest import missing_tool
from tests.interop.support.assignors.assignor import ChangedAnswers, TaskHarness, answers, served_apart, serving
from tests.interop.support.jvm import BROKER_44, MissingToolError, java
from tests.unit.coordinator.serving.task_requests import AskingForTasks, Thread

CALLS = 100
SIZE_SMALL, SIZE_LARGE = (6, 24), (24, 400)
TASKS = 24  # of a small group
PATIENT_MS = 1_000  # for a machine that has much else to do
HELD_MICROS_MAX = 2_000_000

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(autouse=True, scope="module")
def _java(request: pytest.FixtureRequest) -> None:
    try:
        java(BROKER_44)
    except MissingToolError as missing:
        missing_tool(request.config, f"{missing}: no assignor for brokers")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.sock"


def keeps_what_there_is(harness: TaskHarness) -> str:
    """No plan comes, and each call returns soon all the same. Returns the reason of the first call."""
    first = harness.call(SIZE_SMALL, 1)
    assert (first.served, first.faults, first.moved_by_fallback) == (0, 0, 0), first
    called = harness.call(SIZE_SMALL, CALLS)
    assert (called.served, called.faults, called.moved_by_fallback) == (0, 0, 0), called
    assert called.worst_micros < HELD_MICROS_MAX, called
    return first.reason


def test_plans_come_and_each_standby_is_in_another_rack(path: Path) -> None:
    with serving(f"unix:{path}"), TaskHarness(f"unix:{path}", deadline_ms=PATIENT_MS) as harness:
        harness.until_served(SIZE_SMALL)
        for size in (SIZE_SMALL, SIZE_LARGE):
            called = harness.call(size, CALLS)
            assert (called.served, called.faults, called.crossing) == (CALLS, 0, 0), called


def test_the_jar_writes_the_request_that_bellwether_reads(path: Path) -> None:
    """A process has left of six, nobody has anything yet. Threads are members, two to a process."""
    requests, right = list[bytes](), answers()

    def answer(data: bytes) -> tuple[bytes, Callable[[], None]]:
        requests.append(data)
        return right.answer(data)

    with serving(f"unix:{path}", answer), TaskHarness(f"unix:{path}", deadline_ms=PATIENT_MS) as harness:
        harness.until_served(SIZE_LARGE)
        requests.clear()
        harness.call(SIZE_SMALL, 1)
    (request,) = requests
    racks = ("az1", "az2", "az3")
    members = {
        f"member-{process:06}-{thread}": Thread(
            process=f"00000000-0000-0000-0000-{process:012}",
            rack=racks[process % 3],
            tags={"zone": racks[process % 3]},
        )
        for process in range(1, 6)
        for thread in range(2)
    }
    expected = AskingForTasks(
        {"0": (12, True), "1": (12, False)}, members, standbys=1, number=struct.unpack_from(">i", request, 2)[0]
    )
    assert request == expected.encode()


def test_without_a_server_from_the_start_tasks_are_placed_evenly_once_and_then_stay(path: Path) -> None:
    with TaskHarness(f"unix:{path}") as harness:
        keeps_what_there_is(harness)
        assert harness.log.count("no plan from Bellwether") == 1


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_process_that_is_killed_or_stopped_is_used_again_once_it_is_back(path: Path, how: signal.Signals) -> None:
    with TaskHarness(f"unix:{path}", deadline_ms=PATIENT_MS) as harness:
        with served_apart(path) as process:
            harness.until_served(SIZE_SMALL)
            process.send_signal(how)
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT)  # it may answer until then
            keeps_what_there_is(harness)
            if how is signal.SIGSTOP:
                process.send_signal(signal.SIGCONT)
                harness.until_served(SIZE_SMALL)
        with served_apart(path):
            harness.until_served(SIZE_SMALL)


def framed(body: bytes) -> bytes:
    return wire.SIZE.pack(len(body)) + body


def late(sent: bytes) -> bytes:
    time.sleep(1.5 * PATIENT_MS / 1000)
    return sent


def on_the_active_member(sent: bytes) -> bytes:
    """The first standby where its task runs."""
    if len(sent) <= 10 + 4 * TASKS:
        return sent  # a probe
    (task,) = struct.unpack_from(">i", sent, 10 + 4 * TASKS + 4)
    (member,) = struct.unpack_from(">i", sent, 10 + 4 * task)
    return _with(sent, TASKS, member)


def _with(sent: bytes, at: int, number: int) -> bytes:
    """The plan with another number at this place, from its end if it is negative."""
    begin = 10 + 4 * at if at >= 0 else len(sent) + 4 * at
    return sent[:begin] + struct.pack(">i", number) + sent[begin + 4 :]


WRONG: dict[str, tuple[Callable[[bytes], bytes], str]] = {  # and the reason that the jar gives
    "slow": (late, "no answer before the deadline"),
    "nonsense": (lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n", "the answer claims 1213486160 bytes"),
    "nonsense in a frame": (lambda _: framed(b"\x01\x00" + bytes(range(200))), "the answer is to another request"),
    "nothing in a frame": (lambda _: framed(b""), "BufferUnderflowException"),
    "another version": (lambda sent: sent[:4] + b"\x02" + sent[5:], "version 2 instead of 1; use the jar"),
    "another request": (lambda sent: sent[:6] + b"\x7f\x00\x00\x00" + sent[10:], "the answer is to another request"),
    "a task without an owner": (lambda sent: _with(sent, 0, -1), "the plan gives task 0_0 to no member"),
    "an owner that is no member": (lambda sent: _with(sent, 0, 1_000), "the plan gives task 0_0 to no member"),
    "a standby of no task": (lambda sent: _with(sent, -1, 1_000), "a standby of no stateful task"),
    "a standby beside its active task": (on_the_active_member, "twice on one process"),
    "half a standby": (lambda sent: framed(sent[4:-4]), f"numbers for {TASKS} tasks"),
    "too few tasks": (lambda sent: framed(sent[4 : 10 + 4 * 3]), f"the plan has 3 numbers for {TASKS} tasks"),
    "a refusal": (
        lambda sent: wire.refused(struct.unpack_from(">i", sent, 6)[0], "not this one"),
        "not this one",
    ),
}


Asking = tuple[ChangedAnswers, TaskHarness]


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    """One JVM for all wrong answers."""
    address, server = f"unix:{tmp_path_factory.mktemp('asking') / 'a.sock'}", ChangedAnswers()
    with serving(address, server.answer), TaskHarness(address, deadline_ms=PATIENT_MS) as harness:
        yield server, harness


@pytest.mark.parametrize("how", WRONG)
def test_a_wrong_answer_is_not_used_and_right_ones_are_again(asking: Asking, how: str) -> None:
    server, harness = asking
    server.change = bytes  # also after a test that has failed
    harness.until_served(SIZE_SMALL)
    server.change, why = WRONG[how]
    assert why in keeps_what_there_is(harness)
    server.change = bytes
    harness.until_served(SIZE_SMALL)
