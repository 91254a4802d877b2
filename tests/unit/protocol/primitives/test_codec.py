import tracemalloc
from collections.abc import Callable

import pytest

from bellwether_kafka.protocol.primitives import LocalProtocolError, Reader, RemoteProtocolError, Writer


def written(write: Callable[[Writer], None]) -> bytes:
    writer = Writer()
    write(writer)
    return writer.getvalue()


def test_numbers_are_big_endian_and_signed() -> None:
    def write(w: Writer) -> None:
        w.int8(-1)
        w.int16(-2)
        w.int32(-3)
        w.int64(-4)
        w.raw(b"x")

    data = written(write)
    assert data.hex() == "fffffefffffffdfffffffffffffffc78"
    reader = Reader(data)
    assert (reader.int8(), reader.int16(), reader.int32(), reader.int64(), reader.raw(1)) == (-1, -2, -3, -4, b"x")
    assert reader.remaining == 0


@pytest.mark.parametrize("read", [Reader.int8, Reader.int16, Reader.int32, Reader.int64])
def test_a_number_beyond_the_end_is_the_peers_fault(read: Callable[[Reader], int]) -> None:
    with pytest.raises(RemoteProtocolError, match="0 left"):
        read(Reader(b""))


def test_lengths_are_checked() -> None:
    assert Reader(b"\0\1t").string() == "t"
    with pytest.raises(RemoteProtocolError, match="negative length -1"):
        Reader(b"\xff\xff").string()
    with pytest.raises(RemoteProtocolError, match="2 bytes needed at byte 2, 1 left"):
        Reader(b"\0\2t").string()
    with pytest.raises(RemoteProtocolError, match="not utf-8"):
        Reader(b"\0\1\xff").string()
    with pytest.raises(RemoteProtocolError, match="negative length"):
        Reader(b"\xff\xff\xff\xff").sized_text()


def test_null_is_any_negative_length_and_not_empty() -> None:
    assert Reader(b"\xff\xfe").nullable_string() is None
    assert Reader(b"\0\0").nullable_string() == ""
    assert Reader(b"\xff\xff\xff\xfe").nullable_bytes() is None
    assert Reader(b"\0\0\0\0").nullable_bytes() == b""
    assert written(lambda w: w.nullable_string(None)) == b"\xff\xff"
    assert written(lambda w: w.nullable_string("")) == b"\0\0"
    assert written(lambda w: w.nullable_bytes(None)) == b"\xff\xff\xff\xff"
    assert written(lambda w: w.nullable_bytes(b"")) == b"\0\0\0\0"


def test_sized_text() -> None:
    data = written(lambda w: w.sized_text("zoë"))
    assert data == b"\0\0\0\4zo\xc3\xab"
    assert Reader(data).sized_text() == "zoë"


@pytest.mark.parametrize("count", ["7fffffff", "80000000", "ffffffff", "00000002"])
def test_a_count_is_checked_before_anything_is_allocated(count: str) -> None:
    data = bytes.fromhex(count) + bytes(7)
    tracemalloc.start()
    try:
        for read in (lambda r: r.array(4, r.int32), Reader.int32_array, lambda r: [r.utf16()], Reader.sized_text):
            reader = Reader(data)
            try:
                read(reader)
            except RemoteProtocolError:
                continue
            assert count == "00000002"
        assert tracemalloc.get_traced_memory()[1] < 64 * 1024
    finally:
        tracemalloc.stop()


def test_int32_array() -> None:
    data = written(lambda w: w.int32_array([1, -1]))
    assert data.hex() == "0000000200000001ffffffff"
    assert Reader(data).int32_array() == (1, -1)


@pytest.mark.parametrize(
    ("text", "encoded"),
    [
        ("h", "0001 68"),
        ("", "0000"),
        ("\0", "0002 c080"),
        ("é", "0002 c3a9"),
        ("€", "0003 e282ac"),
        ("\x01\x7f", "0002 017f"),  # the first and the last character of each size
        ("\x80\u07ff", "0004 c280dfbf"),
        ("\u0800\uffff", "0006 e0a080efbfbf"),
        ("😀", "0006 eda0bdedb880"),  # a surrogate pair, three bytes each, where UTF-8 has four
    ],
)
def test_modified_utf8(text: str, encoded: str) -> None:
    data = bytes.fromhex(encoded)
    assert written(lambda w: w.utf(text)) == data
    assert Reader(data).utf() == text


def test_modified_utf8_of_a_plain_nul_is_read_too() -> None:
    assert Reader(b"\0\1\0").utf() == "\0"
    assert Reader(b"\0\3\0\xc3\xa9").utf() == "\0é"


@pytest.mark.parametrize(
    "encoded",
    [
        "0001 80",  # a continuation byte alone
        "0004 f09f9880",  # four bytes are ordinary UTF-8, not modified
        "0001 c3",  # cut after the first of two
        "0002 e282",  # cut after the second of three
        "0002 c341",  # no continuation
        "0003 eda0bd",  # half of a surrogate pair
        "0002 68",  # shorter than it says
    ],
)
def test_what_modified_utf8_refuses(encoded: str) -> None:
    with pytest.raises(RemoteProtocolError):
        Reader(bytes.fromhex(encoded)).utf()


def test_utf16_counts_units() -> None:
    data = written(lambda w: w.utf16("t😀"))
    assert data.hex() == "000000030074d83dde00"
    assert Reader(data).utf16() == "t😀"
    with pytest.raises(RemoteProtocolError, match="utf-16-be"):
        Reader(bytes.fromhex("00000001 d83d")).utf16()


@pytest.mark.parametrize(
    "write",
    [
        lambda w: w.int8(128),
        lambda w: w.int16(-32769),
        lambda w: w.int32(1 << 31),
        lambda w: w.int64(1 << 63),
        lambda w: w.int32_array([1 << 31]),
        lambda w: w.string("x" * 32768),
        lambda w: w.string("\ud800"),
        lambda w: w.utf("€" * 21846),
        lambda w: w.utf("\ud800"),
        lambda w: w.utf16("\ud800"),
        lambda w: w.sized_text("\ud800"),
    ],
)
def test_what_does_not_fit_is_bellwethers_fault(write: Callable[[Writer], None]) -> None:
    with pytest.raises(LocalProtocolError):
        write(Writer())


def test_the_longest_strings_fit() -> None:
    assert Reader(written(lambda w: w.string("x" * 32767))).string() == "x" * 32767
    assert Reader(written(lambda w: w.utf("x" * 65535))).utf() == "x" * 65535
