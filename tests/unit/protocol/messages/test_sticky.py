import pytest

from bellwether_kafka.protocol.messages import (
    ConsumerProtocolSubscription,
    encode_sticky_user_data,
    read_generation,
    read_rack_affinity,
)
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.unit.protocol.bulk.agreement import StickyUserData, claims_agree, read_sticky_user_data

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
LIST = bytes.fromhex("00000002 000174 00000002 00000000 00000001 000175 00000001 00000000")
V1 = LIST + bytes.fromhex("00000007")
PREFIXED = b"\0\1" + V1
COUNTED = (T0, T1, U0)


@pytest.mark.parametrize(
    ("data", "claims"),
    [
        (None, StickyUserData()),
        (b"", StickyUserData()),
        (V1, StickyUserData(COUNTED, 7)),
        (PREFIXED, StickyUserData(COUNTED, 7)),
        (LIST, StickyUserData(COUNTED, -1)),
        (LIST + b"\xff\xff\xff\xf0", StickyUserData(COUNTED, -1)),
        (V1 + b"\0", StickyUserData()),
        (PREFIXED + b"\0", StickyUserData()),
        (b"\0\1" + LIST, StickyUserData()),
        (LIST[:-1], StickyUserData()),
        (b"az1", StickyUserData()),
        (b"\0\0\0\0", StickyUserData()),
        (b"\0\0\0\5", StickyUserData()),
        (b"\0\0\0\1\0\1\xff\0\0\0\0\0\0\0\7", StickyUserData()),
    ],
)
def test_one_reader_for_the_dialects_of_sticky(data: bytes | None, claims: StickyUserData) -> None:
    assert read_sticky_user_data(data) == claims
    claims_agree([ConsumerProtocolSubscription(1, ("t", "u"), data).encode()], "sticky")


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


def test_the_echo_to_sarama_is_v1() -> None:
    assert encode_sticky_user_data(COUNTED, 7) == V1
    assert encode_sticky_user_data((), -1) == bytes.fromhex("00000000 ffffffff")
    assert read_sticky_user_data(encode_sticky_user_data((U0, T1), 3)) == StickyUserData((U0, T1), 3)


def test_rack_affinity_is_a_bare_rack() -> None:
    assert read_rack_affinity(b"az1") == "az1"
    assert read_rack_affinity(b"") is None
    assert read_rack_affinity(None) is None
    assert read_rack_affinity(b"\xff") is None
