"""Batches of a log, as brokers send them and as nobody should: read with bounded memory, and gone past."""

import gzip
import struct
import tracemalloc

import cramjam
import pytest
from kafka.record.memory_records import MemoryRecordsBuilder

from bellwether_kafka.coordinator.kafka.wire import Limits
from bellwether_kafka.coordinator.kafka.wire.record_batches import BatchesRead, read_batches

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
JAVAS_SNAPPY = -SNAPPY  # in blocks
CODECS = [0, GZIP, SNAPPY, JAVAS_SNAPPY, LZ4, ZSTD]
NAMES = ["none", "gzip", "snappy", "snappy of Java", "lz4", "zstd"]
LIMITS = Limits(value_bytes=1_000, batch_bytes=50_000, batch_records=100, bytes=20_000)
Written = tuple[bytes | None, bytes | None]


def batch(offset: int, *records: Written, codec: int = 0) -> bytes:
    builder = MemoryRecordsBuilder(2, 0, 10_000_000)
    for key, value in records:
        builder.append(0, key, value, [("trace", b"x")])
    builder.close()
    data = offset.to_bytes(8, "big") + bytes(builder.buffer())[8:]
    return compressed(data, codec) if codec else data


def compressed(data: bytes, codec: int) -> bytes:
    """The same batch with a payload of this codec."""
    plain = data[PAYLOAD:]
    payload = {
        GZIP: lambda: gzip.compress(plain),
        SNAPPY: lambda: bytes(cramjam.snappy.compress_raw(plain)),
        JAVAS_SNAPPY: lambda: in_blocks(plain),
        LZ4: lambda: bytes(cramjam.lz4.compress(plain)),
        ZSTD: lambda: bytes(cramjam.zstd.compress(plain)),
    }[codec]()
    head = altered(altered(data[:PAYLOAD], 8, ">i", PAYLOAD - 12 + len(payload)), ATTRIBUTES, ">h", abs(codec))
    return head + payload


def in_blocks(plain: bytes) -> bytes:
    """As Java's producers write snappy."""
    parts = [bytes(cramjam.snappy.compress_raw(plain[at : at + 32_768])) for at in range(0, len(plain), 32_768)]
    return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + b"".join(struct.pack(">i", len(p)) + p for p in parts)


def altered(data: bytes, at: int, layout: str, value: int) -> bytes:
    changed = bytearray(data)
    struct.pack_into(layout, changed, at, value)
    return bytes(changed)


ATTRIBUTES, COUNT, PAYLOAD = 21, 57, 61


def rebuilt(offset: int, payload: bytes, count: int, codec: int = GZIP) -> bytes:
    """A batch with this payload behind its header."""
    head = bytearray(batch(offset, (b"k", b"v"))[:PAYLOAD])
    struct.pack_into(">i", head, 8, PAYLOAD - 12 + len(payload))
    struct.pack_into(">i", head, 23, count - 1)
    struct.pack_into(">i", head, COUNT, count)
    return altered(bytes(head), ATTRIBUTES, ">h", codec) + payload


@pytest.mark.parametrize("codec", CODECS)
def test_what_was_written_is_read_from_the_offset_on(codec: int) -> None:
    written: list[Written] = [(b"a", b"1"), (None, b"2"), (b"c", None), (b"d", b"x" * 900)]
    data = batch(5, *written, codec=codec) + batch(9, (b"e", b""), codec=codec)
    assert read_batches(data, 0, LIMITS) == BatchesRead((*written, (b"e", b"")), 10)
    assert read_batches(data, 8, LIMITS) == BatchesRead((written[3], (b"e", b"")), 10)


@pytest.mark.parametrize("codec", CODECS)
def test_a_large_value_is_named_and_its_neighbours_are_read(codec: int) -> None:
    read = read_batches(batch(3, (b"a", b"1"), (b"big", b"x" * 5_000), (b"c", b"3"), codec=codec), 0, LIMITS)
    assert read.records == ((b"a", b"1"), (b"c", b"3"))
    (unread,) = read.unread
    assert (unread.offset, unread.key, unread.reason) == (4, b"big", "has 5000 bytes, more than 1000")
    assert read.next_offset == 6


def test_a_large_key_is_named_too() -> None:
    read = read_batches(batch(0, (b"k" * 5_000, b"1"), (b"c", b"3")), 0, LIMITS)
    assert (read.records, [u.reason for u in read.unread]) == (
        ((b"c", b"3"),),
        ["has a key of 5000 bytes, more than 1000"],
    )


LARGE = batch(0, (b"pause/x", bytes(3_000_000)))
ONE_OF_MANY = batch(0, (b"beat/x", bytes(100_000)), codec=GZIP)


@pytest.mark.slow
@pytest.mark.parametrize(
    "bomb",
    [
        *(compressed(LARGE, codec) for codec in CODECS[1:]),
        batch(0, *[(b"beat/x", bytes(900))] * 100, codec=GZIP),
        rebuilt(0, gzip.compress(bytes(20_000_000)), 100),
        rebuilt(0, gzip.compress(bytes(20_000_000)), 2_000_000_000),
        b"".join(at.to_bytes(8, "big") + ONE_OF_MANY[8:] for at in range(500)),
    ],
    ids=[*("a value " + name for name in NAMES[1:]), "a batch", "no records", "a count", "many batches"],
)
def test_a_bomb_takes_bounded_memory_and_is_gone_past(bomb: bytes) -> None:
    data = bomb + batch(10_000, (b"after", b"1"))
    tracemalloc.start()
    offset, records, unread = 0, list[Written](), 0
    for _ in range(600):
        read = read_batches(data, offset, LIMITS)
        records += read.records
        unread += len(read.unread)
        if read.next_offset >= 10_001:
            break
        assert read.next_offset > offset
        offset = read.next_offset
        data = data if data[:8] >= offset.to_bytes(8, "big") else following(data, offset)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert records[-1] == (b"after", b"1")
    assert unread
    assert peak < 1_000_000


def following(data: bytes, offset: int) -> bytes:
    """As a broker answers: from the batch on that has the offset."""
    at = 0
    while at < len(data):
        base, length = struct.unpack_from(">qi", data, at)
        last = struct.unpack_from(">i", data, at + 23)[0]
        if base + last >= offset:
            return data[at:]
        at += 12 + length
    return b""


GOOD = batch(0, (b"a", b"1"), codec=0)


@pytest.mark.parametrize(
    "damaged",
    [
        altered(GOOD, 16, ">b", 1),  # an old version
        altered(GOOD, 16, ">b", 99),
        altered(GOOD, PAYLOAD, ">b", -1),  # the length of the record
        altered(GOOD, PAYLOAD, ">b", 127),
        altered(GOOD, PAYLOAD + 4, ">b", 126),  # of its key
        altered(GOOD, COUNT, ">i", 5),
        altered(GOOD, COUNT, ">i", -5),
        altered(batch(0, (b"a", b"1"), codec=GZIP), PAYLOAD, ">b", 0),
        rebuilt(0, gzip.compress(b"\xff" * 40), 1),
        rebuilt(0, b"", 1),
        *(altered(GOOD, ATTRIBUTES, ">h", codec) for codec in (SNAPPY, LZ4, ZSTD, 5, 6, 7)),
        *(rebuilt(0, batch(0, (b"a", b"1"), codec=codec)[PAYLOAD:-12], 1, abs(codec)) for codec in CODECS[1:]),
    ],
    ids=lambda data: f"{len(data)} bytes",
)
def test_what_is_damaged_is_named_and_gone_past(damaged: bytes) -> None:
    after = batch(1, (b"b", b"2"))
    read = read_batches(damaged + after, 0, LIMITS)
    assert read.unread
    if read.next_offset == 1:  # as much work as one answer may take
        read = read_batches(after, 1, LIMITS)
    assert read.records[-1] == (b"b", b"2")
    assert read.next_offset == 2


@pytest.mark.parametrize("cut", range(1, len(GOOD)))
def test_a_batch_that_is_cut_off_is_left_for_the_next_answer(cut: int) -> None:
    read = read_batches(GOOD + batch(1, (b"b", b"2"))[:cut], 0, LIMITS)
    assert (read.records, read.next_offset, read.unread) == (((b"a", b"1"),), 1, ())


def test_markers_of_transactions_are_no_records() -> None:
    marker = altered(batch(0, (b"\0\0\0\0", b"1")), ATTRIBUTES, ">h", 0x30)
    assert read_batches(marker + batch(1, (b"b", b"2")), 0, LIMITS) == BatchesRead(((b"b", b"2"),), 2)


def test_no_length_of_a_batch_holds_the_reader_up() -> None:
    for length in (0, -1, -12, 5, 2**31 - 1):
        read_batches(altered(GOOD, 8, ">i", length), 0, LIMITS)
