"""Requests for applications are read whole or refused with a reason."""

import random
import struct

import pytest

from bellwether_kafka.coordinator.serving import wire
from bellwether_kafka.coordinator.serving.wire_tasks import TaskGroup
from bellwether_kafka.protocol.primitives import RemoteProtocolError
from tests.unit.coordinator.serving.task_requests import AskingForTasks, Thread

UNKNOWN = -1

ASKING = AskingForTasks(
    subtopologies={"0": (2, True), "1": (1, False)},
    members={
        "m1": Thread("p", "az1", {"zone": "a"}, active=[("0", 0)], offsets={("0", 0): 70}),
        "m2": Thread("q", active=[("1", 0)], copies=[("0", 0)], offsets={("0", 0): 60}),
        "m3": Thread("q", "az2", {"zone": "b"}),
    },
    standbys=1,
    spread_by=["zone"],
    ends={("0", 0): 71},
)


def read(data: bytes) -> TaskGroup:
    request = wire.read_request(data)
    assert isinstance(request, TaskGroup)
    return request


def test_a_request_is_read_as_it_was_written() -> None:
    group = read(ASKING.encode())
    assert (group.number, group.assignor, group.standbys, group.spread_by) == (7, "bellwether", 1, ("zone",))
    assert (group.subtopologies, group.counts, group.stateful) == (("0", "1"), (2, 1), (True, False))
    assert group.members == ("m1", "m2", "m3")
    assert group.instances == (None, None, None)
    assert [group.processes[process] for process in group.process_of] == ["p", "q", "q"]
    assert [group.racks[rack] if rack >= 0 else None for rack in group.rack_of] == ["az1", None, "az2"]
    assert [group.tags[row] for row in group.tags_of] == [(("zone", "a"),), (), (("zone", "b"),)]
    assert group.owner.tolist() == [0, -1, 1]
    assert group.copies.tolist() == [[1, 0]]
    assert group.reported.tolist() == [[0, 0], [1, 0]]
    assert (group.offsets.tolist(), group.ends.tolist()) == ([70, 60], [71, UNKNOWN, UNKNOWN])


@pytest.mark.parametrize("cut", range(1, 200, 9))
def test_a_request_that_is_cut_is_refused(cut: int) -> None:
    with pytest.raises(RemoteProtocolError):
        wire.read_request(ASKING.encode()[:-cut])


def test_a_kind_that_is_not_known_is_refused_by_its_number_so_that_the_jar_counts_no_miss() -> None:
    data = struct.pack(">bbiH", wire.VERSION, 9, 1234, 0)
    with pytest.raises(RemoteProtocolError, match="kind 9, which is not known here"):
        wire.read_request(data)
    assert wire.number_of(data) == 1234
    assert wire.number_of(b"GET / HTTP/1.1") == wire.number_of(b"\x01") == wire.NUMBER_UNKNOWN


@pytest.mark.slow
def test_any_bytes_are_a_request_or_refused() -> None:
    source, whole = random.Random(7), ASKING.encode()
    accepted = 0
    for _ in range(3_000):
        data = bytearray(whole)
        for _ in range(source.randint(1, 4)):
            data[source.randrange(20, len(data))] = source.choice((0, 1, 127, 128, 255))
        try:
            group = read(bytes(data))
        except RemoteProtocolError:
            continue
        accepted += 1
        total = sum(group.counts)
        assert len(group.owner) == len(group.ends) == total
        assert all(-1 <= owner < len(group.members) for owner in group.owner.tolist())
        assert all(member < len(group.members) and task < total for member, task in group.copies.tolist())
    assert accepted, "bytes of offsets and names may be any"
