"""Reading the AssignmentInfo of a whole group into columns: the last look at bytes of ours before they leave.

Strict where `AssignmentInfo.decode` is tolerant: trailing bytes, a named task or a future version make an entry bad.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from protocol.columns import IntArray, LongArray
from protocol.errors import RemoteProtocolError
from protocol.streams_assignment import AssignmentInfo

_PAIR = struct.Struct(">ii")
_INT32 = struct.Struct(">i")
_UINT16 = struct.Struct(">H")
_COMMON_FROM, _DEADLINE_FROM, _NAMES_FROM, _HIGHEST = 3, 7, 10, 11
_EMPTY_LISTS = bytes(8)


@dataclass(frozen=True, slots=True, eq=False)
class AssignedColumns:
    """The AssignmentInfo of M members.

    The active entries of member m (one per partition) are rows `active_first[m]:active_first[m + 1]`. Standby tasks are
    listed by member in the order of the wire; `pair_*` are their partitions: index of the standby, index into
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


class _Standbys:
    """What has been read of standby tasks so far."""

    def __init__(self) -> None:
        self.tasks: list[tuple[int, int, int]] = []
        self.pairs: list[tuple[int, int, int]] = []
        self.topics: dict[bytes, int] = {}

    def read(self, member: int, data: bytes, at: int, named: bool) -> int:
        """Reads one list from `at` on and returns where it ends."""
        (count,) = _INT32.unpack_from(data, at)
        at += 4
        for _ in range(_checked(count, 12, data, at)):
            subtopology, partition = _PAIR.unpack_from(data, at)
            at += 8
            if named:
                at = _unnamed(data, at)
            (size,) = _INT32.unpack_from(data, at)
            at += 4
            for _ in range(_checked(size, 6, data, at)):
                begin = at + 2
                at = begin + _UINT16.unpack_from(data, at)[0]
                topic = self.topics.setdefault(data[begin:at], len(self.topics))
                self.pairs.append((len(self.tasks), topic, _INT32.unpack_from(data, at)[0]))
                at += 4
            self.tasks.append((member, subtopology, partition))
        return at


def read_assigned(blobs: Sequence[bytes | None]) -> AssignedColumns:
    """Decodes all members; nothing in a blob makes it raise."""
    standbys = _Standbys()
    active: list[bytes] = []
    sizes: list[int] = []
    rest: list[AssignmentInfo | None] = []
    seen: dict[bytes, AssignmentInfo] = {}
    errors: dict[int, str] = {}
    for m, blob in enumerate(blobs):
        marks = len(standbys.tasks), len(standbys.pairs)
        try:
            ids, other = _one(m, blob or b"", standbys, seen)
        except (struct.error, RemoteProtocolError, ValueError) as error:
            del standbys.tasks[marks[0] :], standbys.pairs[marks[1] :]
            errors[m] = str(error)
            ids, other = b"", None
        active.append(ids)
        sizes.append(len(ids) // 8)
        rest.append(other)
    pairs = np.frombuffer(b"".join(active), ">i4").astype(np.int32).reshape(-1, 2)
    tasks = np.array(standbys.tasks, dtype=np.int32).reshape(-1, 3)
    reads = np.array(standbys.pairs, dtype=np.int32).reshape(-1, 3)
    return AssignedColumns(
        active_first=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        active_subtopology=pairs[:, 0],
        active_partition=pairs[:, 1],
        standby_member=tasks[:, 0],
        standby_subtopology=tasks[:, 1],
        standby_partition=tasks[:, 2],
        topic_names=tuple(name.decode("utf-8", "replace") for name in standbys.topics),
        pair_standby=reads[:, 0],
        pair_topic=reads[:, 1],
        pair_partition=reads[:, 2],
        rest=tuple(rest),
        errors=errors,
    )


def _one(m: int, data: bytes, standbys: _Standbys, seen: dict[bytes, AssignmentInfo]) -> tuple[bytes, AssignmentInfo]:
    """(task ids of the active entries, eight bytes each; the rest)."""
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
    at = standbys.read(m, data, end, named)
    bare = data[:begin] + _EMPTY_LISTS + data[at:]
    info = seen.get(bare)
    if info is None:
        info = seen[bare] = _rest(bare)
    return ids, info


def _rest(bare: bytes) -> AssignmentInfo:
    """An AssignmentInfo without tasks. A byte too many shows: one byte fewer would do as well."""
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
