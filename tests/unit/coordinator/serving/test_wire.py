"""Requests are read whole or refused with a reason, and answers have the form that the jar reads."""

import random

import numpy as np
import pytest

from bellwether_kafka.coordinator.serving import wire
from bellwether_kafka.protocol.primitives import RemoteProtocolError
from tests.kit.serving import Asking, owners, refusal, topic_id

ASKING = Asking(
    topics=[[["a"], ["b", "a"]], [["b"]]],
    members={"m1": ("a", {0: [0]}), "m2": ("", {1: [0]}), "m3": ("far", {})},
    subscriptions={"m2": [1]},
)


def test_a_request_is_read_as_it_was_written() -> None:
    request = wire.read_request(ASKING.encode())
    assert (request.kind, request.number, request.assignor) == (wire.CONSUMERS, 7, "bellwether-rack-first")
    assert request.racks == ("a", "b", "far")
    assert request.rack_sets == ((0,), (1, 0), (1,))
    assert request.topics == (topic_id(0), topic_id(1))
    assert request.counts == (2, 1)
    assert request.members == ("m1", "m2", "m3")
    assert request.instances == (None, None, None)
    assert request.rack_of == (0, -1, 2)
    assert [request.subscriptions[row] for row in request.subscription] == [(0, 1), (1,), (0, 1)]
    assert request.rack_set_of.tolist() == [0, 1, 2]
    assert request.owner.tolist() == [0, -1, 1]


def test_a_member_id_that_is_no_ascii_is_read_as_java_writes_it() -> None:
    request = wire.read_request(Asking([[["a"]]], {"membre-é": ("a", {})}).encode())
    assert request.members == ("membre-é",)


def test_another_version_is_named() -> None:
    with pytest.raises(RemoteProtocolError, match=r"speaks version 2, this Bellwether version 1"):
        wire.read_request(Asking([[["a"]]], {"m": ("a", {})}, version=2).encode())


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_request_that_is_cut_is_refused(cut: int) -> None:
    with pytest.raises(RemoteProtocolError):
        wire.read_request(ASKING.encode()[:-cut])


def test_any_bytes_are_a_request_or_refused() -> None:
    source, whole = random.Random(7), ASKING.encode()
    for _ in range(2_000):
        data = bytearray(whole)
        for _ in range(source.randint(1, 4)):
            data[source.randrange(len(data))] = source.choice((0, 1, 127, 128, 255))
        try:
            request = wire.read_request(bytes(data))
        except RemoteProtocolError:
            continue
        assert len(request.owner) == sum(request.counts)
        assert all(-1 <= owner < len(request.members) for owner in request.owner.tolist())


def test_answers_name_the_request() -> None:
    assert owners(wire.planned(7, np.array([1, 0, 2], dtype=np.int32))) == [1, 0, 2]
    assert refusal(wire.refused(7, "why")) == "why"
    assert wire.planned(7, np.zeros(0, dtype=np.int32))[6:10] == (7).to_bytes(4, "big")
