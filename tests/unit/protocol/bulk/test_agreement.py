"""The bulk readers say what the plain ones say: of every message that is cut anywhere or has one byte wrong, and of
groups whose members are alike, nearly alike and different."""

import struct
from collections.abc import Iterator
from random import Random

import pytest

from bellwether_kafka.protocol.messages import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    encode_sticky_user_data,
)
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.unit.protocol.bulk.agreement import (
    assignments_agree,
    claims_agree,
    subscriptions_agree,
)

OWNED = (TopicPartition("t", 3), TopicPartition("t", 258), TopicPartition("orders", -1))
CLAIMED = encode_sticky_user_data(OWNED, 7)


def damaged(blob: bytes) -> Iterator[bytes]:
    """Cut at every byte, longer than it was, and with every byte in turn made larger, smaller and extreme."""
    yield from (blob[:size] for size in range(len(blob) + 1))
    yield blob + b"\0"
    yield blob + b"\0\0\0\0\0\0\0\1"
    for at, byte in enumerate(blob):
        for value in {0, (byte + 1) & 0xFF, (byte - 1) & 0xFF, 0x7F, 0x80, 0xFF} - {byte}:
            yield blob[:at] + bytes([value]) + blob[at + 1 :]


@pytest.mark.parametrize("version", range(4))
def test_subscriptions_with_one_thing_wrong(version: int) -> None:
    message = ConsumerProtocolSubscription(version, ("orders", "t"), b"\0\0\0\5", OWNED, 6, "az1")
    blobs = [*damaged(message.encode())]
    subscriptions_agree(blobs)
    for begin in range(0, len(blobs), 9):
        subscriptions_agree(blobs[begin : begin + 9])


@pytest.mark.parametrize("protocol", ["sticky", "cooperative-sticky"])
@pytest.mark.parametrize("data", [CLAIMED, b"\0\1" + CLAIMED, CLAIMED[:-4], b"\0\0\0\5"])
def test_claims_with_one_thing_wrong(data: bytes, protocol: str) -> None:
    blobs = [ConsumerProtocolSubscription(1, ("t",), wrong, OWNED[:1]).encode() for wrong in damaged(data)]
    claims_agree(blobs, protocol)
    for begin in range(0, len(blobs), 7):
        claims_agree(blobs[begin : begin + 7], protocol)


def test_assignments_with_one_thing_wrong() -> None:
    blobs = [*damaged(ConsumerProtocolAssignment(2, OWNED, b"data").encode())]
    assignments_agree(blobs)
    for begin in range(0, len(blobs), 9):
        assignments_agree(blobs[begin : begin + 9])


@pytest.mark.parametrize("members", [1, 13, 70])
@pytest.mark.parametrize("shapes", [1, 5, 70])
@pytest.mark.parametrize("version", [1, 3])
def test_groups_whose_lists_have_few_or_many_shapes(version: int, members: int, shapes: int) -> None:
    """One shape is one list of names and counts; numbers differ. Some members are cut, some have a byte wrong."""
    random = Random(f"{members} {shapes}")
    listed = [
        [(random.choice(["t", "u", f"topic-{shape}", "é"]), random.randrange(4)) for _ in range(random.randrange(5))]
        for shape in range(shapes)
    ]
    for harm in (0, 0, 0.1, 0.5):
        blobs = []
        for _ in range(members):
            shape = random.choice(listed)
            owned = b"".join(
                struct.pack(f">H{len(name.encode())}si", len(name.encode()), name.encode(), items)
                + random.randbytes(4 * items)
                for name, items in shape
            )
            tail = struct.pack(">ih3s", random.randrange(-2, 9), 3, b"az1") if version == 3 else b""
            blob = struct.pack(">hih1sii", version, 1, 1, b"t", -1, len(shape)) + owned + tail
            if random.random() < harm:
                blob = random.choice([*damaged(blob)])
            blobs.append(blob)
        subscriptions_agree(blobs)
