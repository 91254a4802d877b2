import struct
import tracemalloc

import pytest

from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import LocalProtocolError, RemoteProtocolError, TopicPartition

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
FULL = ConsumerProtocolSubscription(3, ("t", "u"), None, (T0, T1), 7, "a")
FULL_HEX = "0003 00000002 000174 000175 ffffffff 00000001 000174 00000002 00000000 00000001 00000007 000161"


def subscription(text: str) -> ConsumerProtocolSubscription:
    return ConsumerProtocolSubscription.decode(bytes.fromhex(text))


def test_golden_subscription() -> None:
    assert subscription(FULL_HEX) == FULL
    assert FULL.encode() == bytes.fromhex(FULL_HEX)


def test_kafka_go_says_version_1_and_writes_no_owned_partitions() -> None:
    assert subscription("0001 00000001 000174 ffffffff") == ConsumerProtocolSubscription(1, ("t",))


@pytest.mark.parametrize("version", [1, 2, 3, 9])
def test_a_blob_may_end_at_any_optional_field(version: int) -> None:
    head = f"{version:04x} 00000001 000174 ffffffff"
    assert subscription(head) == ConsumerProtocolSubscription(version, ("t",))
    assert subscription(head + "00000000") == ConsumerProtocolSubscription(version, ("t",))
    generation = 5 if version >= 2 else -1
    assert subscription(head + "00000000 00000005").generation_id == generation


def test_a_higher_version_is_read_as_3_and_trailing_bytes_are_ignored() -> None:
    message = subscription("0009" + FULL_HEX[4:] + "deadbeef")
    assert message == ConsumerProtocolSubscription(
        9, *(getattr(FULL, f) for f in ConsumerProtocolSubscription.__slots__[1:])
    )
    with pytest.raises(LocalProtocolError, match="version 9"):
        message.encode()
    assert subscription("0000 00000000 ffffffff 00").version == 0
    assert ConsumerProtocolAssignment.decode(bytes.fromhex("0009 00000000 ffffffff 00")).version == 9


def test_unknown_generation_and_rack_have_one_form_each() -> None:
    message = subscription("0003 00000000 ffffffff 00000000 fffffff9 0000")
    assert message.generation_id == -1
    assert message.rack_id is None
    assert subscription("0003 00000000 ffffffff 00000000 fffffff9 fffe").rack_id is None


def test_null_and_empty_user_data_are_distinguished() -> None:
    assert subscription("0000 00000000 ffffffff").user_data is None
    assert subscription("0000 00000000 00000000").user_data == b""


def test_fields_that_a_version_lacks_are_left_out() -> None:
    sizes = [len(ConsumerProtocolSubscription(v, ("t",), b"", (T0,), 7, "a").encode()) for v in range(4)]
    assert sizes == [13, 28, 32, 35]


def test_subscriptions_are_sorted_and_grouped_like_javas() -> None:
    mixed = ConsumerProtocolSubscription(1, ("u", "t"), None, (U0, T1, T0))
    assert subscription(mixed.encode().hex()) == ConsumerProtocolSubscription(1, ("t", "u"), None, (T0, T1, U0))


def test_the_order_of_the_wire_is_kept() -> None:
    message = subscription(
        "0001 00000002 000175 000174 ffffffff 00000002 000174 00000001 00000001 000174 00000001 00000000"
    )
    assert message.topics == ("u", "t")
    assert message.owned_partitions == (T1, T0)


def test_assignments_are_grouped_by_first_appearance() -> None:
    data = ConsumerProtocolAssignment(1, (U0, T1, TopicPartition("u", 2), T0)).encode()
    assert ConsumerProtocolAssignment.decode(data).partitions == (U0, TopicPartition("u", 2), T1, T0)
    assert data[2:6] == b"\0\0\0\2"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        "ffff 00000000 ffffffff",
        "0000",
        "0000 ffffffff ffffffff",
        "0000 00000001 ffff ffffffff",
        "0000 00000001 0001ff ffffffff",
        "0000 00000000",
        "0000 00000000 00000001",
        "0001 00000000 ffffffff 00",
        "0001 00000000 ffffffff ffffffff",
        "0001 00000000 ffffffff 00000001 000174 ffffffff",
        "0001 00000000 ffffffff 00000001 000174 00000001",
        "0001 00000000 ffffffff 00000001 0001ff 00000000",
        "0002 00000000 ffffffff 00000000 0000",
        "0003 00000000 ffffffff 00000000 00000000 00",
        "0003 00000000 ffffffff 00000000 00000000 0001",
        "0003 00000000 ffffffff 00000000 00000000 0001ff",
    ],
)
def test_what_a_subscription_may_not_be(text: str) -> None:
    with pytest.raises(RemoteProtocolError):
        subscription(text)


@pytest.mark.parametrize(
    "text", ["", "ffff 00000000 ffffffff", "0000 ffffffff ffffffff", "0000 00000000", "0000 00000000 00000001"]
)
def test_what_an_assignment_may_not_be(text: str) -> None:
    with pytest.raises(RemoteProtocolError):
        ConsumerProtocolAssignment.decode(bytes.fromhex(text))


@pytest.mark.parametrize("absurd", [0x7FFFFFFF, 0x10000000, 100_000])
def test_absurd_counts_allocate_nothing(absurd: int) -> None:
    blobs = [
        struct.pack(">hi", 0, absurd),
        struct.pack(">hii", 1, 0, absurd),
        struct.pack(">hiii", 1, 0, -1, absurd),
        struct.pack(">hiiih1si", 1, 0, -1, 1, 1, b"t", absurd),
    ]
    tracemalloc.start()
    try:
        for blob in blobs:
            with pytest.raises(RemoteProtocolError):
                ConsumerProtocolSubscription.decode(blob + bytes(50))
        with pytest.raises(RemoteProtocolError):
            ConsumerProtocolAssignment.decode(struct.pack(">hi", 0, absurd) + bytes(50))
        assert tracemalloc.get_traced_memory()[1] < 256 * 1024
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "message",
    [
        ConsumerProtocolSubscription(version=-1),
        ConsumerProtocolSubscription(version=4),
        ConsumerProtocolSubscription(topics=("x" * 32768,)),
        ConsumerProtocolSubscription(version=1, owned_partitions=(TopicPartition("t", 1 << 31),)),
        ConsumerProtocolSubscription(version=2, generation_id=1 << 31),
        ConsumerProtocolAssignment(version=4),
        ConsumerProtocolAssignment(partitions=(TopicPartition("\ud800", 0),)),
    ],
)
def test_what_cannot_be_written(message: ConsumerProtocolSubscription | ConsumerProtocolAssignment) -> None:
    with pytest.raises(LocalProtocolError):
        message.encode()
