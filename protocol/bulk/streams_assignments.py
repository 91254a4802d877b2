"""Reads the AssignmentInfo of a whole group into columns, as the last check of Bellwether's bytes before they are sent.

It is stricter than `AssignmentInfo.decode`: trailing bytes, a task of a named topology or a future version are errors.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bellwether_kafka.protocol.bulk.consumer import IntArray, LongArray
from bellwether_kafka.protocol.messages import AssignmentInfo
from bellwether_kafka.protocol.primitives import RemoteProtocolError

_PAIR = struct.Struct(">ii")
_INT32 = struct.Struct(">i")
_UINT16 = struct.Struct(">H")
_COMMON_FROM, _NAMES_FROM, _HIGHEST = 3, 10, 11
_EMPTY_LISTS = bytes(8)


@dataclass(frozen=True, slots=True, eq=False)
class AssignedColumns:
    """The AssignmentInfo of M members.

    The active entries of member m (one per partition) are rows `active_first[m]:active_first[m + 1]`. Standby tasks are
    ordered by member, then as on the wire; `pair_*` are their partitions: index of the standby, index into
    `topic_names`, partition. `rest` is everything else (no tasks). A member in `errors` has nothing.
    """

    active_first: LongArray
    active_subtopology: IntArray
    active_partition: IntArray
    standby_member: IntArray
    standby_subtopology: IntArray
    standby_partition: IntArray
    topic_names: tuple[str, ...]
    pair_standby: IntArray
    pair_topic: IntArray
    pair_partition: IntArray
    rest: tuple[AssignmentInfo | None, ...]
    errors: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class _Form:
    """The bytes of an entry of one subtopology except for its partition number, which is between the `pieces`.

    `reads` are (index of the topic, partition), with None for the task's own number.
    """

    subtopology: int
    pieces: tuple[bytes, ...]
    reads: tuple[tuple[int, int | None], ...]


class _Standbys:
    """The standby tasks read so far. Most entries of a subtopology have one form."""

    def __init__(self) -> None:
        self.forms: list[_Form] = []
        self.form: list[int] = []
        self.number: list[bytes] = []
        self.topics: dict[bytes, int] = {}
        # By the bytes of a subtopology, separately for the layouts with and without names.
        self._latest: dict[bool, dict[bytes, int]] = {True: {}, False: {}}

    def read(self, data: bytes, at: int, named: bool) -> int:
        """Reads one list from `at` on and returns where it ends."""
        (count,) = _INT32.unpack_from(data, at)
        at += 4
        latest, forms = self._latest[named], self.forms
        for _ in range(_checked(count, 12, data, at)):
            number = data[at + 4 : at + 8]
            guess = latest.get(data[at : at + 4])
            entry = number.join(forms[guess].pieces) if guess is not None else b""
            if guess is not None and data.startswith(entry, at):
                at += len(entry)
            else:
                guess, at = self._new_form(data, at, named)
            self.form.append(guess)
            self.number.append(number)
        return at

    def _new_form(self, data: bytes, at: int, named: bool) -> tuple[int, int]:
        subtopology, number = _PAIR.unpack_from(data, at)
        pieces = [data[at : at + 4]]
        begin = at + 8
        at = _unnamed(data, begin) if named else begin
        (size,) = _INT32.unpack_from(data, at)
        at += 4
        reads: list[tuple[int, int | None]] = []
        for _ in range(_checked(size, 6, data, at)):
            name = at + 2
            at = name + _UINT16.unpack_from(data, at)[0]
            raw = data[name:at]
            if raw not in self.topics:
                raw.decode()  # raises for invalid UTF-8, as the plain reader does
            topic = self.topics.setdefault(raw, len(self.topics))
            (partition,) = _INT32.unpack_from(data, at)
            reads.append((topic, partition if partition != number else None))
            if partition == number:
                pieces.append(data[begin:at])
                begin = at + 4
            at += 4
        self.forms.append(_Form(subtopology, (*pieces, data[begin:at]), tuple(reads)))
        self._latest[named][pieces[0]] = len(self.forms) - 1
        return len(self.forms) - 1, at

    def columns(self) -> tuple[IntArray, IntArray, IntArray, IntArray, IntArray]:
        """Returns (subtopology and partition of each entry; entry, topic and partition of each pair)."""
        form = np.array(self.form, dtype=np.int64)
        number = np.frombuffer(b"".join(self.number), ">i4").astype(np.int32)
        width = max((len(f.reads) for f in self.forms), default=0)
        topic = np.full((len(self.forms), width), -1, dtype=np.int32)
        fixed = np.zeros((len(self.forms), width), dtype=np.int32)
        own = np.zeros((len(self.forms), width), dtype=np.bool_)
        for i, f in enumerate(self.forms):
            for j, (name, partition) in enumerate(f.reads):
                topic[i, j], fixed[i, j], own[i, j] = name, partition or 0, partition is None
        entry, column = np.nonzero(topic[form] >= 0)
        which = form[entry]
        read = np.where(own[which, column], number[entry], fixed[which, column])
        subtopology = np.array([f.subtopology for f in self.forms], dtype=np.int32)[form]
        return subtopology, number, entry.astype(np.int32), topic[which, column], read.astype(np.int32)


def read_assigned(blobs: Sequence[bytes | None]) -> AssignedColumns:
    """Decodes all members. No blob can make it raise."""
    standbys = _Standbys()
    active: list[bytes] = []
    sizes: list[int] = []
    kept: list[int] = []
    rest: list[AssignmentInfo | None] = []
    seen: dict[bytes, AssignmentInfo] = {}
    errors: dict[int, str] = {}
    for m, blob in enumerate(blobs):
        mark = len(standbys.form)
        try:
            ids, other = _read_member(blob or b"", standbys, seen)
        except (struct.error, RemoteProtocolError, ValueError) as error:
            del standbys.form[mark:], standbys.number[mark:]
            errors[m] = str(error)
            ids, other = b"", None
        active.append(ids)
        sizes.append(len(ids) // 8)
        rest.append(other)
        kept.append(len(standbys.form) - mark)
    pairs = np.frombuffer(b"".join(active), ">i4").astype(np.int32).reshape(-1, 2)
    subtopology, partition, entry, topic, of_topic = standbys.columns()
    return AssignedColumns(
        active_first=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        active_subtopology=pairs[:, 0],
        active_partition=pairs[:, 1],
        standby_member=np.repeat(np.arange(len(blobs), dtype=np.int32), kept),
        standby_subtopology=subtopology,
        standby_partition=partition,
        topic_names=tuple(name.decode() for name in standbys.topics),
        pair_standby=entry,
        pair_topic=topic,
        pair_partition=of_topic,
        rest=tuple(rest),
        errors=errors,
    )


def _read_member(data: bytes, standbys: _Standbys, seen: dict[bytes, AssignmentInfo]) -> tuple[bytes, AssignmentInfo]:
    """Returns (task ids of the active entries, eight bytes each; the rest)."""
    (version,) = _INT32.unpack_from(data)
    if not 1 <= version <= _HIGHEST:
        raise RemoteProtocolError(f"version {version} is not one of 1-{_HIGHEST}")
    begin = 8 if version >= _COMMON_FROM else 4
    named = version >= _NAMES_FROM
    (count,) = _INT32.unpack_from(data, begin)
    size = 12 if named else 8
    end = begin + 4 + _checked(count, size, data, begin + 4) * size
    ids = data[begin + 4 : end]
    if named:
        table = np.frombuffer(ids, ">i4").reshape(-1, 3)
        if table[:, 2].any():
            raise RemoteProtocolError("a task has a named topology")
        ids = table[:, :2].tobytes()
    at = standbys.read(data, end, named)
    bare = data[:begin] + _EMPTY_LISTS + data[at:]
    info = seen.get(bare)
    if info is None:
        info = seen[bare] = _rest(bare)
    return ids, info


def _rest(bare: bytes) -> AssignmentInfo:
    """Returns an AssignmentInfo without tasks. Raises RemoteProtocolError for trailing bytes, which it detects because
    the bytes still decode without the last one."""
    info = AssignmentInfo.decode(bare)
    try:
        AssignmentInfo.decode(bare[:-1])
    except RemoteProtocolError:
        return info
    raise RemoteProtocolError("there are bytes behind the end")


def _checked(count: int, size: int, data: bytes, at: int) -> int:
    if count < 0 or count * size > len(data) - at:
        raise RemoteProtocolError(f"count {count} before byte {at}, {len(data) - at} bytes left")
    return count


def _unnamed(data: bytes, at: int) -> int:
    (units,) = _INT32.unpack_from(data, at)
    if units:
        raise RemoteProtocolError("a task has a named topology")
    return at + 4
