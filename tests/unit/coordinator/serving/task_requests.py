"""Requests for applications, as the jar writes them."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bellwether_kafka.assignors.shared import NOBODY
from bellwether_kafka.coordinator.serving import wire

UNKNOWN = -1

Task = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Thread:
    """A member. `copies` are standbys and warm-ups, `offsets` the sums that it reported."""

    process: str
    rack: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    active: Sequence[Task] = ()
    copies: Sequence[Task] = ()
    offsets: Mapping[Task, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AskingForTasks:
    """`subtopologies` has the number of tasks and whether they have state."""

    subtopologies: Mapping[str, tuple[int, bool]]
    members: Mapping[str, Thread]
    standbys: int = 0
    spread_by: Sequence[str] = ()
    ends: Mapping[Task, int] = field(default_factory=dict)
    assignor: str = "bellwether"
    number: int = 7

    @property
    def tasks(self) -> list[Task]:
        return [(name, p) for name, (count, _) in self.subtopologies.items() for p in range(count)]

    def encode(self) -> bytes:
        """Without the size in front."""
        tasks, members = self.tasks, list(self.members.values())
        number = {task: flat for flat, task in enumerate(tasks)}
        processes = list(dict.fromkeys(member.process for member in members))
        racks = list(dict.fromkeys(member.rack for member in members if member.rack))
        tags = list({tuple(sorted(member.tags.items())): None for member in members})
        owner = [NOBODY] * len(tasks)
        for m, member in enumerate(members):
            for task in member.active:
                owner[number[task]] = m
        copies = [(m, number[task]) for m, member in enumerate(members) for task in member.copies]
        reported = [(m, number[task]) for m, member in enumerate(members) for task in member.offsets]
        offsets = [offset for member in members for offset in member.offsets.values()]
        out = struct.pack(">bbi", wire.VERSION, wire.TASKS, self.number) + _text(self.assignor)
        out += _integer(self.standbys) + _texts(self.spread_by) + _texts(racks) + _texts(processes)
        out += _integer(len(tags))
        out += b"".join(_texts([key for key, _ in of]) + _texts([value for _, value in of]) for of in tags)
        out += _integer(len(self.subtopologies))
        for name, (count, stateful) in self.subtopologies.items():
            out += _text(name) + struct.pack(">ib", count, stateful)
        out += _integer(len(members))
        for name, member in self.members.items():
            rack = racks.index(member.rack) if member.rack else NOBODY
            position = tags.index(tuple(sorted(member.tags.items())))
            out += _text(name) + _text("") + struct.pack(">iii", processes.index(member.process), rack, position)
        lists = [owner, [m for m, _ in copies], [t for _, t in copies]]
        lists += [[m for m, _ in reported], [t for _, t in reported]]
        out += _integer(len(lists)) + b"".join(_numbers("i", names) for names in lists)
        return out + _numbers("q", offsets) + _numbers("q", [self.ends.get(task, UNKNOWN) for task in tasks])


@dataclass(frozen=True, slots=True)
class Placed:
    """A plan by names: the member of each task, and the members of its standbys."""

    active: Mapping[Task, str]
    standbys: Mapping[Task, Sequence[str]]


def placed(asking: AskingForTasks, answer: bytes) -> Placed:
    """The plan in an answer."""
    size, version, status, number = struct.unpack_from(">ibbi", answer)
    assert (size, version, status) == (len(answer) - 4, wire.VERSION, wire.PLANNED), answer
    assert number == asking.number
    tasks, members = asking.tasks, list(asking.members)
    numbers = [value for (value,) in struct.iter_unpack(">i", answer[10:])]
    active = {task: members[numbers[flat]] for flat, task in enumerate(tasks)}
    standbys: dict[Task, list[str]] = {task: [] for task in tasks}
    for at in range(len(tasks), len(numbers), 2):
        standbys[tasks[numbers[at + 1]]].append(members[numbers[at]])
    return Placed(active, standbys)


def _integer(value: int) -> bytes:
    return struct.pack(">i", value)


def _text(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack(">H", len(encoded)) + encoded


def _texts(values: Sequence[str]) -> bytes:
    return _integer(len(values)) + b"".join(map(_text, values))


def _numbers(code: str, values: Sequence[int]) -> bytes:
    return _integer(len(values)) + struct.pack(f">{len(values)}{code}", *values)
