"""Reads the SubscriptionInfo of whole groups into columns instead of objects.

It is faster than the dataclasses, with the same values and errors (tests/properties compares them). What current
clients send (versions 7 to 11 without named topologies) is read with numpy, everything else by the dataclasses.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bellwether_kafka.protocol.bulk.consumer import IntArray, LongArray
from bellwether_kafka.protocol.messages import STREAMS_VERSION_MAX, SubscriptionInfo
from bellwether_kafka.protocol.primitives import ProcessId, Reader, RemoteProtocolError

Tags = tuple[tuple[str, str], ...]

_NO_DATA = "userData is null"
# Version, latest version, process id, length of the endpoint.
_HEAD = struct.Struct(">iiqqi")
_INT32 = struct.Struct(">i")
_PAIR = struct.Struct(">ii")
_FLAT_SUM = np.dtype([("subtopology", ">i4"), ("partition", ">i4"), ("sum", ">i8"), ("name", ">i2")])
_GROUPED_SUM = np.dtype([("partition", ">i4"), ("sum", ">i8")])
_FLAT_BYTES, _GROUPED_BYTES = _FLAT_SUM.itemsize, _GROUPED_SUM.itemsize


@dataclass(frozen=True, slots=True, eq=False)
class InfoColumns:
    """The SubscriptionInfo of M members with K offset sums in total.

    The sums of member m are rows `sum_first[m]:sum_first[m + 1]`, in wire order. `future` members (version above 11)
    only have a version and a latest version, and their `process` is None. Members in `named` use named topologies;
    their rows have no name. `joins` is the unique field as a number from 0 to 255, in which a thread counts its
    JoinGroups, from 1 when it starts (0 below version 8). A member in `errors` (index -> reason) has version and latest
    0.
    """

    version: IntArray
    latest: IntArray
    process: tuple[ProcessId | None, ...]
    end_point: tuple[str | None, ...]
    joins: IntArray
    error_code: IntArray
    tags: tuple[Tags, ...]
    sum_first: LongArray
    sum_subtopology: IntArray
    sum_partition: IntArray
    sum_value: LongArray
    named: frozenset[int]
    errors: Mapping[int, str]

    @property
    def future(self) -> npt.NDArray[np.bool_]:
        return self.version > STREAMS_VERSION_MAX

    def without(self, reasons: Mapping[int, str]) -> "InfoColumns":
        """Returns the columns with these members (index -> reason) as if they could not be read."""
        sizes = np.diff(self.sum_first)
        gone = np.zeros(len(sizes), dtype=np.bool_)
        gone[list(reasons)] = True
        kept = ~np.repeat(gone, sizes)
        return replace(
            self,
            version=np.where(gone, 0, self.version).astype(np.int32),
            latest=np.where(gone, 0, self.latest).astype(np.int32),
            process=tuple([None if m in reasons else process for m, process in enumerate(self.process)]),
            error_code=np.where(gone, 0, self.error_code).astype(np.int32),
            sum_first=_starts(np.where(gone, 0, sizes)),
            sum_subtopology=self.sum_subtopology[kept],
            sum_partition=self.sum_partition[kept],
            sum_value=self.sum_value[kept],
            named=self.named - reasons.keys(),
            errors={**self.errors, **reasons},
        )


@dataclass(slots=True)
class _Info:
    """One member while it is read. Its sums are rows of 18 bytes (`flat`), rows of 12 bytes by subtopology (`grouped`),
    or `plain`."""

    version: int = 0
    latest: int = 0
    process: ProcessId | None = None
    end_point: str | None = None
    joins: int = 0
    error_code: int = 0
    tags: Tags = ()
    flat: bytes = b""
    grouped: Sequence[tuple[int, bytes]] = ()
    plain: SubscriptionInfo | None = None


def read_infos(blobs: Sequence[bytes | None]) -> InfoColumns:
    """Decodes the userData of all members. No blob can make it raise."""
    errors: dict[int, str] = {}
    tags_of: dict[bytes, Tags] = {}
    infos = [_quick(blob, tags_of) or _slow(m, blob, errors) for m, blob in enumerate(blobs)]
    flat = np.frombuffer(b"".join([info.flat for info in infos]), _FLAT_SUM)
    if len(flat) and int(flat["name"].max()) >= 0:
        _reread_named(infos, flat, blobs, errors)
        flat = np.frombuffer(b"".join([info.flat for info in infos]), _FLAT_SUM)
    sums = [(m, info.plain.task_offset_sums) for m, info in enumerate(infos) if info.plain]
    named = frozenset(m for m, rows in sums for task, _ in rows if task.topology is not None)
    first, subtopology, partition, value = _sums(infos, flat)
    return InfoColumns(
        version=np.array([info.version for info in infos], dtype=np.int32),
        latest=np.array([info.latest for info in infos], dtype=np.int32),
        process=tuple([info.process for info in infos]),
        end_point=tuple([info.end_point for info in infos]),
        joins=np.array([info.joins for info in infos], dtype=np.int32),
        error_code=np.array([info.error_code for info in infos], dtype=np.int32),
        tags=tuple([info.tags for info in infos]),
        sum_first=first,
        sum_subtopology=subtopology,
        sum_partition=partition,
        sum_value=value,
        named=named,
        errors=errors,
    )


def _quick(blob: bytes | None, tags_of: dict[bytes, Tags]) -> _Info | None:
    """Reads a member of version 7 to 11, with its sums still packed. Returns None if the dataclass must decode it."""
    if blob is None or len(blob) < _HEAD.size + 4:
        return None
    version, latest, most, least, size = _HEAD.unpack_from(blob)
    at = _HEAD.size + size
    if not 7 <= version <= STREAMS_VERSION_MAX or latest < version or size < 0 or at + 4 > len(blob):
        return None
    try:
        info = _Info(version, latest, ProcessId(most, least), blob[_HEAD.size : at].decode() or None)
        (count,) = _INT32.unpack_from(blob, at)
        at = _flat(info, blob, at + 4, count) if version >= 10 else _grouped(info, blob, at + 4, count)
        if version >= 8:
            info.joins = blob[at]
            at += 1
        if version >= 9:
            (info.error_code,) = _INT32.unpack_from(blob, at)
        if version >= 11:
            raw = blob[at + 4 :]
            info.tags = () if raw == b"\0\0\0\0" else tags_of.get(raw) or tags_of.setdefault(raw, _tags(raw))
    except (struct.error, ValueError, IndexError, RemoteProtocolError):
        return None
    return info


def _flat(info: _Info, blob: bytes, at: int, count: int) -> int:
    end = at + _FLAT_BYTES * count
    if count < 0 or end > len(blob):
        raise ValueError(count)
    info.flat = blob[at:end]
    return end


def _grouped(info: _Info, blob: bytes, at: int, count: int) -> int:
    if count < 0 or at + 8 * count > len(blob):
        raise ValueError(count)
    parts: list[tuple[int, bytes]] = []
    for _ in range(count):
        subtopology, size = _PAIR.unpack_from(blob, at)
        end = at + 8 + _GROUPED_BYTES * size
        if size < 0 or end > len(blob):
            raise ValueError(size)
        parts.append((subtopology, blob[at + 8 : end]))
        at = end
    info.grouped = parts
    return at


def _tags(raw: bytes) -> Tags:
    reader = Reader(raw)
    return reader.array(8, lambda: (reader.sized_text(), reader.sized_text()))


def _slow(m: int, blob: bytes | None, errors: dict[int, str]) -> _Info:
    if blob is None:
        errors[m] = _NO_DATA
        return _Info()
    try:
        plain = SubscriptionInfo.decode(blob)
    except RemoteProtocolError as error:
        errors[m] = str(error)
        return _Info()
    process = None if plain.future else plain.process_id
    latest = plain.latest_supported_version
    joins, end_point, tags = plain.unique_field & 0xFF, plain.user_end_point, plain.client_tags
    return _Info(plain.version, latest, process, end_point, joins, plain.error_code, tags, plain=plain)


def _reread_named(
    infos: list[_Info], flat: npt.NDArray[np.void], blobs: Sequence[bytes | None], errors: dict[int, str]
) -> None:
    """Reads members with named topologies again, by the dataclass, because names make entries longer than assumed."""
    end = np.cumsum([len(info.flat) // _FLAT_BYTES for info in infos])
    for m in np.unique(np.searchsorted(end, np.flatnonzero(flat["name"] >= 0), side="right")).tolist():
        infos[m] = _slow(m, blobs[m], errors)


def _sums(infos: Sequence[_Info], flat: npt.NDArray[np.void]) -> tuple[LongArray, IntArray, IntArray, LongArray]:
    """Returns (where each member's rows begin, subtopology, partition, sum) for all layouts."""
    grouped = [(sub, raw) for info in infos for sub, raw in info.grouped]
    plain = [row for info in infos if info.plain for row in info.plain.task_offset_sums]
    rows = np.frombuffer(b"".join([raw for _, raw in grouped]), _GROUPED_SUM)
    of_group = np.repeat(
        np.array([sub for sub, _ in grouped], dtype=np.int32), [len(raw) // _GROUPED_BYTES for _, raw in grouped]
    )
    task_ids = np.array([task[:2] for task, _ in plain], dtype=np.int32).reshape(-1, 2)
    values = np.array([value for _, value in plain], dtype=np.int64)
    subtopology = np.concatenate([flat["subtopology"], of_group, task_ids[:, 0]]).astype(np.int32)
    partition = np.concatenate([flat["partition"], rows["partition"], task_ids[:, 1]]).astype(np.int32)
    value = np.concatenate([flat["sum"], rows["sum"], values]).astype(np.int64)
    sizes = [
        [len(info.flat) // _FLAT_BYTES for info in infos],
        [sum(len(raw) for _, raw in info.grouped) // _GROUPED_BYTES for info in infos],
        [len(info.plain.task_offset_sums) if info.plain else 0 for info in infos],
    ]
    first = _starts(np.sum(sizes, axis=0) if infos else ())
    if grouped or plain:
        member = np.concatenate([np.repeat(np.arange(len(infos)), size) for size in sizes])
        order = np.argsort(member, kind="stable")
        subtopology, partition, value = subtopology[order], partition[order], value[order]
    return first, subtopology, partition, value


def _starts(sizes: Iterable[int]) -> LongArray:
    return np.concatenate([[0], np.cumsum(np.fromiter(sizes, dtype=np.int64))]).astype(np.int64)
