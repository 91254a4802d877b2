"""The jar's assignors, called as a broker calls them, while what they ask answers, or does anything else.

Whatever happens, each call returns a complete and valid assignment soon, and without a plan nothing moves twice.
"""

import os
import signal
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bellwether_kafka.coordinator.serving import wire
from bellwether_kafka.coordinator.serving.wire_tasks import TaskGroup
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.conftest import missing_tool
from tests.interop.support.assignors.assignor import (
    SIZE_LARGE,
    SIZE_SMALL,
    ChangedAnswers,
    Harness,
    answers,
    served_apart,
    serving,
)
from tests.interop.support.jvm import BROKER_40, CURRENT, MissingToolError, Release, java
from tests.kit.plans import ObservedOwner, shown_plan

CALLS = 100
PATIENT_MS = 1_000  # for a machine that has much else to do
HELD_MICROS_MAX = 2_000_000  # of a deadline of 20 ms

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(autouse=True, scope="module")
def _java(request: pytest.FixtureRequest) -> None:
    try:
        java()
    except MissingToolError as missing:
        missing_tool(request.config, f"{missing}: no assignor for brokers")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.sock"


def keeps_what_there_is(harness: Harness, why: str) -> None:
    """No plan comes, each call returns soon all the same, and the reason stays known while Bellwether is not asked."""
    called = harness.call(SIZE_SMALL, CALLS)
    assert (called.served, called.faults, called.moved_by_fallback) == (0, 0, 0), called
    assert called.worst_micros < HELD_MICROS_MAX, called
    assert why in called.reason


@pytest.mark.parametrize("release", [CURRENT, BROKER_40], ids=["current", "4.0"])
def test_plans_come_over_a_unix_socket_and_are_by_rack(path: Path, release: Release) -> None:
    with serving(f"unix:{path}"), Harness(f"unix:{path}", deadline_ms=PATIENT_MS, release=release) as harness:
        harness.until_served(SIZE_SMALL)
        for size in (SIZE_SMALL, SIZE_LARGE):
            called = harness.call(size, CALLS)
            assert (called.served, called.faults) == (CALLS, 0), called
            assert called.crossing <= size[1] / size[0] * 2, called


def test_a_broker_with_an_empty_rack_is_one_without_a_rack(path: Path) -> None:
    """As where `broker.rack` is a variable that is not set."""
    harness = Harness(f"unix:{path}", deadline_ms=PATIENT_MS, racks=("az1", "", "az3"))
    with serving(f"unix:{path}"), harness:
        harness.until_served(SIZE_SMALL)
        called = harness.call(SIZE_SMALL, CALLS)
        assert (called.served, called.faults) == (CALLS, 0), called


def shown(request: wire.Request) -> list[str]:
    """The owner of each partition by the plan that an observer of this group shows."""
    names = [f"topic-{number}" for number in range(len(request.topics))]
    rack_of = [rack for (rack,) in request.rack_sets]
    places = [(name, p) for name, count in zip(names, request.counts, strict=True) for p in range(count)]
    racks = [request.racks[rack_of[row]] for row in request.rack_set_of]
    topics = {name: [rack for (topic, _), rack in zip(places, racks, strict=True) if topic == name] for name in names}
    members = [
        ObservedOwner(
            member_id=member,
            rack=request.racks[request.rack_of[m]],
            topics=tuple(names[t] for t in request.subscriptions[request.subscription[m]]),
            owned=tuple(TopicPartition(*place) for place, o in zip(places, request.owner, strict=True) if o == m),
        )
        for m, member in enumerate(request.members)
    ]
    plan = shown_plan("", topics, members, "rack-first", brokers=request.racks)
    return [plan[place] for place in places]


def test_what_a_broker_is_given_is_what_plan_shows(path: Path) -> None:
    right, requests = answers(), list[wire.Request | TaskGroup]()

    def answer(data: bytes) -> tuple[bytes, Callable[[bool], None]]:
        requests.append(wire.read_request(data))
        return right.answer(data)

    with serving(f"unix:{path}", answer), Harness(f"unix:{path}", deadline_ms=PATIENT_MS) as harness:
        harness.until_served(SIZE_SMALL)
        for _ in range(CALLS):
            called = harness.call(SIZE_SMALL, 1)
            assert (called.served, called.faults) == (1, 0), called
            request = requests[-1]
            assert isinstance(request, wire.Request)
            assert list(called.owners) == shown(request)


def test_plans_come_over_a_loopback_port_and_no_other_one_is_asked() -> None:
    with serving("127.0.0.1:0") as address, Harness(address, deadline_ms=PATIENT_MS) as harness:
        harness.until_served(SIZE_SMALL)
    with Harness("192.0.2.1:9999") as harness:
        keeps_what_there_is(harness, "192.0.2.1 is not an address")
        assert "192.0.2.1 is not an address of the loopback interface" in harness.log


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_process_that_is_killed_or_stopped_is_used_again_once_it_is_back(path: Path, how: signal.Signals) -> None:
    with Harness(f"unix:{path}", deadline_ms=100) as harness:
        with served_apart(path) as process:
            harness.until_served(SIZE_SMALL)
            process.send_signal(how)
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT)  # it may answer until then
            keeps_what_there_is(harness, "refused" if how is signal.SIGKILL else "no answer before the deadline")
            if how is signal.SIGSTOP:
                process.send_signal(signal.SIGCONT)
                harness.until_served(SIZE_SMALL)
        with served_apart(path):
            harness.until_served(SIZE_SMALL)
        assert harness.log.count("no plan from Bellwether") < CALLS


def framed(body: bytes) -> bytes:
    return wire.SIZE.pack(len(body)) + body


def late(sent: bytes) -> bytes:
    time.sleep(1.5 * PATIENT_MS / 1000)
    return sent


# What Bellwether sends, and a part of the reason.
WRONG: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "slow": (late, "no answer before the deadline"),
    "nonsense": (lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n", "claims 1213486160 bytes"),
    "nonsense in a frame": (lambda _: framed(b"\x01\x00" + bytes(range(200))), "another request"),
    "nothing in a frame": (lambda _: framed(b""), "BufferUnderflow"),
    "a negative size": (lambda _: b"\xff\xff\xff\xff", "claims -1 bytes"),
    "another version": (lambda sent: sent[:4] + b"\x02" + sent[5:], "version 2 instead of 1; use the jar"),
    "another request": (lambda sent: sent[:6] + b"\x7f\x00\x00\x00" + sent[10:], "another request"),
    "a partition without an owner": (lambda sent: sent[:10] + struct.pack(">i", -1) + sent[14:], "no member"),
    "an owner that is no member": (lambda sent: sent[:-4] + struct.pack(">i", 1_000), "no member"),
    "too few partitions": (lambda sent: framed(sent[4:-4]), "the group has"),
    "a refusal": (lambda sent: wire.refused(struct.unpack_from(">i", sent, 6)[0], "not this one"), "not this one"),
}


Asking = tuple[ChangedAnswers, Harness]


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    """One JVM for all wrong answers."""
    address, server = f"unix:{tmp_path_factory.mktemp('asking') / 'a.sock'}", ChangedAnswers()
    with serving(address, server.answer), Harness(address, deadline_ms=PATIENT_MS) as harness:
        yield server, harness


@pytest.mark.parametrize("how", WRONG)
def test_a_wrong_answer_is_not_used_and_right_ones_are_again(asking: Asking, how: str) -> None:
    server, harness = asking
    server.change = bytes  # also after a test that has failed
    harness.until_served(SIZE_SMALL)
    server.change, why = WRONG[how]
    keeps_what_there_is(harness, why)
    server.change = bytes
    harness.until_served(SIZE_SMALL)
