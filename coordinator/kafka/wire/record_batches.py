"""Reads the record batches of a Fetch answer with bounded memory and time, whatever they contain.

Compressed batches are decompressed only up to a limit, and gzip in pieces. A value above its limit is skipped without a
copy. Records that are not read are reported with offset and reason, and reading continues after them. Only batches of
version 2 (Kafka 0.11) are read.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

KeyValue = tuple[bytes | None, bytes | None]

_HEADER = struct.Struct(">qiibIhiqqqhii")
_LENGTH = struct.Struct(">qi")
_LENGTH_AT, _MAGIC_AT, _MAGIC = 8, 16, 2
_NONE, _GZIP, _SNAPPY, _LZ4, _ZSTD = range(5)
_CODEC_BITS, _CONTROL_BIT = 0x07, 0x20
_GZIP_WINDOW = 31  # zlib's number for gzip with its header
_PIECE = 16_384
_SNAPPY_MAGIC, _SNAPPY_HEADER_BYTES = b"\x82SNAPPY\x00", 16  # magic and two versions
_BLOCK_LENGTH = struct.Struct(">I")
_VARINT_BITS_MAX = 63


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits for one answer. `value_bytes`: larger keys and values are skipped. `batch_bytes`: a batch is read only up
    to this size, decompressed. `batch_records`: a batch with more records is skipped. `bytes`: after this much work no
    further batch is begun."""

    value_bytes: int = 1_000_000
    batch_bytes: int = 2_000_000
    batch_records: int = 10_000
    bytes: int = 1_000_000


NAMED_CHARACTERS_MAX = 100
RECORD_OVERHEAD = 100  # bytes that Python needs for a record in addition to its key and value, roughly


@dataclass(frozen=True, slots=True)
class Unread:
    """A record, or the rest of a batch, that was not read. `key` is None if unknown. `reason` completes a sentence that
    begins with the record."""

    offset: int
    key: bytes | None
    reason: str

    def sentence(self, topic: str) -> str:
        key = (self.key or b"")[:NAMED_CHARACTERS_MAX].decode(errors="replace")
        named = f" ({key!r})" if key else ""
        return f"Record {self.offset}{named} of the topic '{topic}' is not read: it {self.reason}."


@dataclass(frozen=True, slots=True)
class BatchesRead:
    """The records read: (key, value) in the order of the log. `next_offset`: where to read on."""

    records: tuple[KeyValue, ...]
    next_offset: int
    unread: tuple[Unread, ...] = ()


class _UnreadableError(Exception):
    """The rest of a batch cannot be read. The message completes a sentence that begins with the record. `work`: the
    bytes processed until then."""

    def __init__(self, reason: str, work: int = 0) -> None:
        super().__init__(reason)
        self.work = work


class _Source(Protocol):
    """The bytes of a batch after its header, each read or skipped once. Raises _UnreadableError at the end."""

    def take(self, size: int) -> bytes: ...
    def skip(self, size: int) -> None: ...


def read_batches(data: bytes, offset: int, limits: Limits) -> BatchesRead:
    """Returns the records of these batches from `offset` on. A batch that is cut off is left for the next answer."""
    reading = _Reading(offset, limits)
    view, at = memoryview(data), 0
    while at + _LENGTH.size <= len(view) and not reading.is_full:
        length = _LENGTH.unpack_from(view, at)[1]
        end = at + _LENGTH.size + length
        if length <= 0 or end > len(view):
            break
        reading.read(view[at:end])
        at = end
    return BatchesRead(tuple(reading.records), reading.next_offset, tuple(reading.unread))


class _Reading:
    """Reads one answer, batch by batch."""

    def __init__(self, offset: int, limits: Limits) -> None:
        self.records: list[KeyValue] = []
        self.unread: list[Unread] = []
        self.next_offset = offset
        self._offset = offset
        self._limits = limits
        self._work = 0

    @property
    def is_full(self) -> bool:
        return self._work >= self._limits.bytes

    def read(self, batch: memoryview) -> None:
        base = _LENGTH.unpack_from(batch)[0]
        if len(batch) < _HEADER.size or batch[_MAGIC_AT] != _MAGIC:
            self._skipped(base, None, "is of a version before 2, or damaged")
            self.next_offset = max(self.next_offset, base + 1)
            return
        header = _HEADER.unpack_from(batch)
        attributes, last_delta, count = header[5], header[6], header[12]
        self.next_offset = max(self.next_offset, base + max(0, last_delta) + 1)
        if attributes & _CONTROL_BIT:  # the marker of a transaction
            return
        try:
            self._read_records(base, count, self._source(batch[_HEADER.size :], attributes & _CODEC_BITS))
        except _UnreadableError as why:
            self._skipped(max(base, self._offset), None, str(why), work=why.work)

    def _source(self, payload: memoryview, codec: int) -> _Source:
        if codec == _NONE:
            return _Plain(payload)
        if codec == _GZIP:
            return _Gzipped(payload, self._limits.batch_bytes)
        if codec in (_SNAPPY, _LZ4, _ZSTD):
            return _Plain(_decompressed(payload, codec, self._limits.batch_bytes))
        raise _UnreadableError(f"is compressed by codec {codec}, which Kafka does not have")

    def _read_records(self, base: int, count: int, source: _Source) -> None:
        if not 0 <= count <= self._limits.batch_records:
            raise _UnreadableError(f"is in a batch of {count} records, more than {self._limits.batch_records}")
        for _ in range(count):
            self._read_record(base, source)

    def _read_record(self, base: int, source: _Source) -> None:
        """Reads one record: length, attributes, time, offset, key, value, headers."""
        left = _Bounded(source, _varint(source))
        left.skip(1)
        _varint(left)
        offset = base + _varint(left)
        key_size = _varint(left)
        if key_size > self._limits.value_bytes:
            left.skip_rest()
            self._skipped(offset, None, f"has a key of {key_size} bytes, more than {self._limits.value_bytes}")
            return
        key = left.take(key_size) if key_size >= 0 else None
        value_size = _varint(left)
        if value_size > self._limits.value_bytes:
            left.skip_rest()
            self._skipped(offset, key, f"has {value_size} bytes, more than {self._limits.value_bytes}", work=value_size)
            return
        value = left.take(value_size) if value_size >= 0 else None
        left.skip_rest()
        self._work += len(key or b"") + len(value or b"") + RECORD_OVERHEAD
        if offset >= self._offset:
            self.records.append((key, value))

    def _skipped(self, offset: int, key: bytes | None, reason: str, work: int = 0) -> None:
        self._work += len(key or b"") + work + RECORD_OVERHEAD
        if offset >= self._offset:
            self.unread.append(Unread(offset, key, reason))


class _Plain:
    def __init__(self, payload: memoryview) -> None:
        self._payload = payload
        self._at = 0

    def take(self, size: int) -> bytes:
        at = self._at
        self.skip(size)
        return bytes(self._payload[at : self._at])

    def skip(self, size: int) -> None:
        if size < 0 or self._at + size > len(self._payload):
            raise _UnreadableError("is damaged")
        self._at += size


class _Gzipped:
    """Decompresses a batch. Holds one piece and the requested bytes, never the whole batch."""

    def __init__(self, payload: memoryview, bytes_max: int) -> None:
        self._inflate = zlib.decompressobj(_GZIP_WINDOW)
        self._compressed: bytes | memoryview = payload
        self._left = self._bytes_max = bytes_max
        self._piece = b""
        self._at = 0

    def take(self, size: int) -> bytes:
        if size < 0 or size > self._left + len(self._piece):
            raise self._too_large()
        taken = bytearray()
        while len(taken) < size:
            taken += self._some(size - len(taken))
        return bytes(taken)

    def skip(self, size: int) -> None:
        while size > 0:
            size -= len(self._some(size))

    def _some(self, size: int) -> bytes:
        """Returns at least one byte and at most `size`."""
        if self._at == len(self._piece):
            self._piece, self._at = self._next_piece(), 0
        taken = self._piece[self._at : self._at + size]
        self._at += len(taken)
        return taken

    def _next_piece(self) -> bytes:
        if self._left <= 0:
            raise self._too_large()
        try:
            piece = self._inflate.decompress(self._compressed, min(_PIECE, self._left))
        except zlib.error:
            raise _UnreadableError("is damaged") from None
        self._compressed = self._inflate.unconsumed_tail
        if not piece:
            raise _UnreadableError("is damaged")
        self._left -= len(piece)
        return piece

    def _too_large(self) -> _UnreadableError:
        return _UnreadableError(f"is in a batch of more than {self._bytes_max} bytes, decompressed", self._bytes_max)


def _decompressed(payload: memoryview, codec: int, bytes_max: int) -> memoryview:
    """Returns the whole batch, decompressed into a buffer of fixed size. A batch that does not fit is refused."""
    import cramjam  # noqa: PLC0415 - too large for a guard, which rarely needs these codecs

    buffer = memoryview(bytearray(bytes_max))
    unpack = {
        _SNAPPY: cramjam.snappy.decompress_raw_into,
        _LZ4: cramjam.lz4.decompress_into,
        _ZSTD: cramjam.zstd.decompress_into,
    }[codec]
    at = 0
    try:
        for block in _snappy_blocks(payload) if codec == _SNAPPY else (payload,):
            at += unpack(block, buffer[at:])
    except cramjam.DecompressionError:
        why = f"is in a batch that is damaged, or of more than {bytes_max} bytes, decompressed"
        raise _UnreadableError(why, bytes_max) from None
    return buffer[:at]


def _snappy_blocks(payload: memoryview) -> Iterator[memoryview]:
    """Yields the compressed blocks. Java clients write several, each after its length; other clients write one."""
    if payload[: len(_SNAPPY_MAGIC)] != _SNAPPY_MAGIC:
        yield payload
        return
    at = _SNAPPY_HEADER_BYTES
    while at < len(payload):
        if at + _BLOCK_LENGTH.size > len(payload):
            raise _UnreadableError("is damaged")
        size = _BLOCK_LENGTH.unpack_from(payload, at)[0]
        at += _BLOCK_LENGTH.size
        yield payload[at : at + size]
        at += size


class _Bounded:
    """One record of a source, read only up to its length."""

    def __init__(self, source: _Source, size: int) -> None:
        if size < 0:
            raise _UnreadableError("is damaged")
        self._source = source
        self._left = size

    def take(self, size: int) -> bytes:
        self._count(size)
        return self._source.take(size)

    def skip(self, size: int) -> None:
        self._count(size)
        self._source.skip(size)

    def skip_rest(self) -> None:
        self.skip(self._left)

    def _count(self, size: int) -> None:
        if not 0 <= size <= self._left:
            raise _UnreadableError("is damaged")
        self._left -= size


def _varint(source: _Source) -> int:
    """Reads a signed number in Kafka's encoding (zigzag)."""
    value = shift = 0
    while True:
        byte = source.take(1)[0]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1)
        shift += 7
        if shift > _VARINT_BITS_MAX:
            raise _UnreadableError("is damaged")
