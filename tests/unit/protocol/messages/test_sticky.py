import pytest

from bellwether_kafka.protocol.messages.consumer import ConsumerProtocolSubscription
from bellwether_kafka.protocol.messages.sticky import (
    Claims,
    encode_sticky_user_data,
    read_claims,
    read_generation,
    read_rack_affinity,
    read_sticky_user_data,
)
from bellwether_kafka.protocol.primitives.types import TopicPartition

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
LIST = bytes.fromhex("00000002 000174 00000002 00000000 00000001 000175 00000001 00000000")
V1 = LIST + bytes.fromhex("00000007")
PREFIXED = b"\0\1" + V1
COUNTED = (T0, T1, U0)


@pytest.mark.parametrize(
    ("data", "claims"),
    [
        (None, Claims()),
        (b"", Claims()),
        (V1, Claims(COUNTED, 7)),
        (PREFIXED, Claims(COUNTED, 7)),
        (LIST, Claims(COUNTED, -1)),
        (LIST + b"\xff\xff\xff\xf0", Claims(COUNTED, -1)),
        (V1 + b"\0", Claims()),
        (PREFIXED + b"\0", Claims()),
        (b"\0\1" + LIST, Claims()),
        (LIST[:-1], Claims()),
        (b"az1", Claims()),
        (b"\0\0\0\0", Claims()),
        (b"\0\0\0\5", Claims()),
        (b"\0\0\0\1\0\1\xff\0\0\0\0\0\0\0\7", Claims()),
    ],
)
def test_one_reader_for_the_dialects_of_sticky(data: bytes | None, claims: Claims) -> None:
    assert read_sticky_user_data(data) == claims


@pytest.mark.parametrize(
    ("data", "generation"),
    [
        (None, -1),
        (b"", -1),
        (b"\0\0\0\7", 7),
        (b"\xff\xff\xff\xff", -1),
        (b"\xff\xff\xff\x00", -1),
        (V1, 7),
        (PREFIXED, 7),
        (LIST, -1),
        (b"az1", -1),
    ],
)
def test_the_generation_of_members_with_an_owned_list(data: bytes | None, generation: int) -> None:
    assert read_generation(data) == generation


def test_sticky_members_claim_in_user_data_alone() -> None:
    message = ConsumerProtocolSubscription(3, ("t", "u"), V1, (TopicPartition("t", 9),), 40)
    assert read_claims("sticky", message) == Claims(COUNTED, 7)
    assert read_claims("sticky", ConsumerProtocolSubscription(3, ("t",), LIST, (), 40)).generation == -1


@pytest.mark.parametrize("protocol", ["cooperative-sticky", "range", "roundrobin"])
def test_all_others_claim_in_their_owned_list(protocol: str) -> None:
    assert read_claims(protocol, ConsumerProtocolSubscription(3, ("t",), V1, (T1,), 40)) == Claims((T1,), 40)
    assert read_claims(protocol, ConsumerProtocolSubscription(1, ("t",), b"\0\0\0\7", (T1,))) == Claims((T1,), 7)
    assert read_claims(protocol, ConsumerProtocolSubscription(1, ("t",), V1, (T1,))) == Claims((T1,), 7)
    assert read_claims(protocol, ConsumerProtocolSubscription(1, ("t",), None, (T1,))) == Claims((T1,), -1)


def test_hostile_claims_are_dropped() -> None:
    owned = (T1, TopicPartition("t", -1), U0, T1, T0)
    assert read_claims("cooperative-sticky", ConsumerProtocolSubscription(1, ("t",), None, owned)).partitions == (
        T1,
        T0,
    )


def test_the_echo_to_sarama_is_v1() -> None:
    assert encode_sticky_user_data(COUNTED, 7) == V1
    assert encode_sticky_user_data((), -1) == bytes.fromhex("00000000 ffffffff")
    assert read_sticky_user_data(encode_sticky_user_data((U0, T1), 3)) == Claims((U0, T1), 3)


def test_rack_affinity_is_a_bare_rack() -> None:
    assert read_rack_affinity(b"az1") == "az1"
    assert read_rack_affinity(b"") is None
    assert read_rack_affinity(None) is None
    assert read_rack_affinity(b"\xff") is None
