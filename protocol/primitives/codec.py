"""The errors of the codecs: the caller's value cannot be written, or the peer's bytes cannot be read. They raise no
others.

Bounds-checked big-endian reading and writing: the only code of this package that handles single bytes.

A count is compared with the bytes left before anything is allocated for it, so a decoder allocates at most a small
multiple of the blob's size. A Reader only raises RemoteProtocolError, a Writer only LocalProtocolError.
"""

import struct
from collections.abc import Callable, Collection, Iterable
from typing import TypeVar


class ProtocolError(Exception):
    """Base of both kinds; never raised itself."""


class LocalProtocolError(ProtocolError):
    """A value from Bellwether that the wire format cannot carry (a string over 32,767 bytes, a negative count)."""


class RemoteProtocolError(ProtocolError):
    """Bytes of a peer that do not decode: truncated, absurd counts, bad UTF-8."""


T = TypeVar("T")

_INT8 = struct.Struct(">b")
_INT16 = struct.Struct(">h")
_UINT16 = struct.Struct(">H")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")

_MAX_STRING_BYTES = 0x7FFF
_MAX_UTF_BYTES = 0xFFFF
_MAX_BYTES = 0x7FFFFFFF


class Reader:
    """A cursor over received bytes. Methods consume what they return. Callers decide about trailing bytes."""

    __slots__ = ("_data", "position")

    def __init__(self, data: bytes, position: int = 0) -> None:
        self._data = data
        self.position = position

    @property
    def remaining(self) -> int:
        return len(self._data) - self.position

    def _number(self, layout: struct.Struct) -> int:
        try:
            (value,) = layout.unpack_from(self._data, self.position)
        except struct.error:
            raise self._underflow(layout.size) from None
        self.position += layout.size
        return int(value)

    def _underflow(self, needed: int) -> RemoteProtocolError:
        return RemoteProtocolError(f"{needed} bytes needed at byte {self.position}, {self.remaining} left")

    def int8(self) -> int:
        return self._number(_INT8)

    def int16(self) -> int:
        return self._number(_INT16)

    def int32(self) -> int:
        return self._number(_INT32)

    def int64(self) -> int:
        return self._number(_INT64)

    def record(self, layout: struct.Struct) -> tuple[int, ...]:
        """Reads several numbers at once."""
        return layout.unpack(self.raw(layout.size))

    def raw(self, size: int) -> bytes:
        """Returns exactly `size` bytes; a negative size is an error."""
        if size < 0:
            raise RemoteProtocolError(f"negative length {size} at byte {self.position}")
        if size > self.remaining:
            raise self._underflow(size)
        start = self.position
        self.position += size
        return self._data[start : self.position]

    def _text(self, raw: bytes, encoding: str) -> str:
        try:
            return raw.decode(encoding)
        except UnicodeDecodeError as error:
            raise RemoteProtocolError(f"not {encoding} before byte {self.position}: {error.reason}") from None

    def string(self) -> str:
        """Reads int16 length + UTF-8."""
        return self._text(self.raw(self.int16()), "utf-8")

    def nullable_string(self) -> str | None:
        """Reads a `string`; any negative length is null, as in Java."""
        size = self.int16()
        return None if size < 0 else self._text(self.raw(size), "utf-8")

    def nullable_bytes(self) -> bytes | None:
        """Reads int32 length + bytes; any negative length is null, as in Java."""
        size = self.int32()
        return None if size < 0 else self.raw(size)

    def sized_text(self) -> str:
        """Reads int32 length + UTF-8, as in the endpoint and the tags of SubscriptionInfo; a negative length is an
        error."""
        return self._text(self.raw(self.int32()), "utf-8")

    def count(self, item_bytes: int) -> int:
        """Reads an int32 count of items of at least `item_bytes` each. Raises if the bytes left cannot hold them."""
        value = self.int32()
        if value < 0 or value * item_bytes > self.remaining:
            raise RemoteProtocolError(f"count {value} before byte {self.position}, {self.remaining} bytes left")
        return value

    def array(self, item_bytes: int, item: Callable[[], T]) -> tuple[T, ...]:
        return tuple(item() for _ in range(self.count(item_bytes)))

    def int32_array(self) -> tuple[int, ...]:
        size = self.count(4)
        return struct.unpack(f">{size}i", self.raw(4 * size))

    def utf(self) -> str:
        """Reads uint16 length + Java's modified UTF-8 (DataInput.readUTF); a lone surrogate is refused."""
        raw = self.raw(self._number(_UINT16))
        if raw.isascii():
            return raw.decode("ascii")
        return self._text(_utf16_of_modified_utf8(raw), "utf-16-be")

    def utf16(self) -> str:
        """Reads int32 count of UTF-16 units + two bytes for each: the topology name of a task in AssignmentInfo
        v10+."""
        return self._text(self.raw(2 * self.count(2)), "utf-16-be")


class Writer:
    """Collects bytes to send. Every write method appends and returns nothing."""

    __slots__ = ("_out",)

    def __init__(self) -> None:
        self._out = bytearray()

    def getvalue(self) -> bytes:
        return bytes(self._out)

    def _number(self, layout: struct.Struct, value: int) -> None:
        try:
            self._out += layout.pack(value)
        except struct.error as error:
            raise LocalProtocolError(f"{value!r} does not fit into {layout.size} bytes: {error}") from None

    def int8(self, value: int) -> None:
        self._number(_INT8, value)

    def int16(self, value: int) -> None:
        self._number(_INT16, value)

    def int32(self, value: int) -> None:
        self._number(_INT32, value)

    def int64(self, value: int) -> None:
        self._number(_INT64, value)

    def raw(self, value: bytes) -> None:
        self._out += value

    def string(self, value: str) -> None:
        raw = _encoded(value, "utf-8", _MAX_STRING_BYTES)
        self.int16(len(raw))
        self._out += raw

    def nullable_string(self, value: str | None) -> None:
        if value is None:
            self.int16(-1)
        else:
            self.string(value)

    def sized_bytes(self, value: bytes) -> None:
        self.int32(len(value))
        self._out += value

    def nullable_bytes(self, value: bytes | None) -> None:
        if value is None:
            self.int32(-1)
        else:
            self.sized_bytes(value)

    def sized_text(self, value: str) -> None:
        self.sized_bytes(_encoded(value, "utf-8", _MAX_BYTES))

    def array(self, items: Collection[T], item: Callable[[T], None]) -> None:
        """Writes int32 count + what `item` writes of each."""
        self.int32(len(items))
        for element in items:
            item(element)

    def int32_array(self, values: Iterable[int]) -> None:
        items = tuple(values)
        self.int32(len(items))
        try:
            self._out += struct.pack(f">{len(items)}i", *items)
        except struct.error as error:
            raise LocalProtocolError(f"an int32 array cannot hold this: {error}") from None

    def utf(self, value: str) -> None:
        raw = _modified_utf8_of_utf16(_encoded(value, "utf-16-be", _MAX_BYTES))
        if len(raw) > _MAX_UTF_BYTES:
            raise LocalProtocolError(f"a string of {len(raw)} bytes exceeds {_MAX_UTF_BYTES}")
        self._number(_UINT16, len(raw))
        self._out += raw

    def utf16(self, value: str) -> None:
        raw = _encoded(value, "utf-16-be", _MAX_BYTES)
        self.int32(len(raw) // 2)
        self._out += raw


def _encoded(value: str, encoding: str, limit: int) -> bytes:
    try:
        raw = value.encode(encoding)
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"{value!r} is not text: {error.reason}") from None
    if len(raw) > limit:
        raise LocalProtocolError(f"a string of {len(raw)} bytes exceeds {limit}")
    return raw


def _utf16_of_modified_utf8(raw: bytes) -> bytes:
    """Converts modified UTF-8 to big-endian UTF-16: NUL may be two bytes, a supplementary character is two triples."""
    units = bytearray()
    at = 0
    while at < len(raw):
        first = raw[at]
        size = 1 if first < 0x80 else 2 if first >> 5 == 0b110 else 3 if first >> 4 == 0b1110 else 0
        tail = raw[at + 1 : at + size]
        if size == 0 or len(tail) != size - 1 or any(byte >> 6 != 0b10 for byte in tail):
            raise RemoteProtocolError(f"not modified UTF-8 at byte {at} of a string of {len(raw)}")
        unit = first & (0x7F, 0x1F, 0x0F)[size - 1]
        for byte in tail:
            unit = unit << 6 | byte & 0x3F
        units += unit.to_bytes(2)
        at += size
    return bytes(units)


def _modified_utf8_of_utf16(raw: bytes) -> bytes:
    out = bytearray()
    for unit in struct.unpack(f">{len(raw) // 2}H", raw):
        if 0 < unit < 0x80:
            out.append(unit)
        elif unit < 0x800:
            out += bytes((0xC0 | unit >> 6, 0x80 | unit & 0x3F))
        else:
            out += bytes((0xE0 | unit >> 12, 0x80 | unit >> 6 & 0x3F, 0x80 | unit & 0x3F))
    return bytes(out)
