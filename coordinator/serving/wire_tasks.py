"""The request for a plan of a group of the `streams` protocol (docs/internals/wire-formats.md#plans-for-brokers)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, IntArray, LongArray
from bellwether_kafka.protocol.primitives import Reader, RemoteProtocolError

UNKNOWN = -1  # an end offset that no member has reported
TASKS_MAX = 1_000_000
STANDBYS_MAX = 1_000

_TEXT_BYTES, _COUNT_BYTES, _SUBTOPOLOGY_BYTES, _MEMBER_BYTES = 2, 4, 7, 16

Tags = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, eq=False)
class TaskGroup:
    """An application as its broker has it, in the broker's order; a task is one number across all subtopologies.

    `spread_by`: the client tags over which standbys are spread. `process_of`, `rack_of` and `tags_of`: per member, a
    position in `processes`, `racks` (-1 for none) and `tags`. `owner`: per task, the member that runs it now, NOBODY
    for none. `copies` are rows of (member, task), the present standbys and warm-ups; `reported` too, of the tasks
    whose `offsets` (sums over changelogs) members reported. `ends`: per task the sum of end offsets, or UNKNOWN.
    """

    number: int
    assignor: str
    standbys: int
    spread_by: tuple[str, ...]
    racks: tuple[str, ...]
    processes: tuple[str, ...]
    tags: tuple[Tags, ...]
    subtopologies: tuple[str, ...]
    counts: tuple[int, ...]
    stateful: tuple[bool, ...]
    members: tuple[str, ...]
    instances: tuple[str | None, ...]
    process_of: tuple[int, ...]
    rack_of: tuple[int, ...]
    tags_of: tuple[int, ...]
    owner: IntArray
    copies: IntArray
    reported: IntArray
    offsets: LongArray
    ends: LongArray


def read_tasks(reader: Reader, number: int, assignor: str) -> TaskGroup:
    """Decodes what follows the name of the assignor. Raises RemoteProtocolError."""
    standbys = reader.int32()
    spread_by, racks, processes = (reader.array(_TEXT_BYTES, reader.utf) for _ in range(3))
    tags = reader.array(2 * _COUNT_BYTES, lambda: _tags(reader))
    parts = [(reader.utf(), reader.int32(), reader.int8()) for _ in range(reader.count(_SUBTOPOLOGY_BYTES))]
    rows = [_member(reader) for _ in range(reader.count(_MEMBER_BYTES))]
    lists = [np.array(reader.int32_array(), dtype=np.int32) for _ in range(reader.count(_COUNT_BYTES))]
    offsets, ends = _longs(reader), _longs(reader)
    if reader.remaining or len(lists) != 5:
        raise RemoteProtocolError("the request does not end where it should")
    names, counts, stateful = zip(*parts, strict=True) if parts else ((), (), ())
    members, instances, process_of, rack_of, tags_of = zip(*rows, strict=True) if rows else ((), (), (), (), ())
    owner, copy_member, copy_task, reporter, reported_task = lists
    group = TaskGroup(
        number=number,
        assignor=assignor,
        standbys=standbys,
        spread_by=spread_by,
        racks=racks,
        processes=processes,
        tags=tags,
        subtopologies=names,
        counts=counts,
        stateful=tuple(bool(flag) for flag in stateful),
        members=members,
        instances=tuple(instance or None for instance in instances),
        process_of=process_of,
        rack_of=rack_of,
        tags_of=tags_of,
        owner=owner,
        copies=_pairs(copy_member, copy_task),
        reported=_pairs(reporter, reported_task),
        offsets=offsets,
        ends=ends,
    )
    _check(group)
    return group


def _tags(reader: Reader) -> Tags:
    keys, values = reader.array(_TEXT_BYTES, reader.utf), reader.array(_TEXT_BYTES, reader.utf)
    if len(keys) != len(values):
        raise RemoteProtocolError(f"{len(keys)} client tags, but {len(values)} values")
    return tuple(zip(keys, values, strict=True))


def _member(reader: Reader) -> tuple[str, str, int, int, int]:
    return reader.utf(), reader.utf(), reader.int32(), reader.int32(), reader.int32()


def _longs(reader: Reader) -> LongArray:
    return np.frombuffer(reader.raw(8 * reader.count(8)), dtype=">i8").astype(np.int64)


def _pairs(members: IntArray, tasks: IntArray) -> IntArray:
    if len(members) != len(tasks):
        raise RemoteProtocolError(f"{len(members)} members, but {len(tasks)} tasks")
    return np.stack([members, tasks], axis=1)


def _check(group: TaskGroup) -> None:
    """Raises RemoteProtocolError unless every number is a valid position."""
    total, members = sum(group.counts), len(group.members)
    if any(count <= 0 for count in group.counts) or total > TASKS_MAX:
        raise RemoteProtocolError("a subtopology has no tasks, or there are too many of them")
    if not 0 <= group.standbys <= STANDBYS_MAX:
        raise RemoteProtocolError(f"{group.standbys} standbys for each task")
    if len(set(group.subtopologies)) != len(group.subtopologies) or len(set(group.members)) != members:
        raise RemoteProtocolError("a subtopology or a member is named twice")
    if not len(group.owner) == len(group.ends) == total or len(group.offsets) != len(group.reported):
        raise RemoteProtocolError(f"{total} tasks, but {len(group.owner)} owners and {len(group.ends)} end offsets")
    positions: tuple[tuple[Sequence[int] | IntArray, int, int], ...] = (
        (group.process_of, 0, len(group.processes)),
        (group.rack_of, NOBODY, len(group.racks)),
        (group.tags_of, 0, len(group.tags)),
        (group.owner, NOBODY, members),
        (group.copies[:, 0], 0, members),
        (group.copies[:, 1], 0, total),
        (group.reported[:, 0], 0, members),
        (group.reported[:, 1], 0, total),
    )
    for values, least, limit in positions:
        if len(values) and not (least <= min(values) and max(values) < limit):
            raise RemoteProtocolError(f"a position is not from {least} to {limit - 1}")
