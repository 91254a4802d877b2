"""Requests of a broker's assignor, as the jar writes them, and what answers them."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bellwether_kafka.assignors.consumer import Policy
from bellwether_kafka.assignors.shared import NOBODY, Rule, Weights
from bellwether_kafka.coordinator.serving import Answers, KnownGroups, Served, TopicNames, wire


def topic_id(number: int) -> bytes:
    return struct.pack(">qq", 1, number)


@dataclass(frozen=True, slots=True)
class Asking:
    """`topics` has of each topic the racks of each partition; `members` the rack and what each of them has, as topic
    and partitions; `subscriptions` the positions of topics, all of them where a member has no entry;
    `instances` the instance ids of static members."""

    topics: Sequence[Sequence[Sequence[str]]]
    members: Mapping[str, tuple[str, Mapping[int, Sequence[int]]]]
    subscriptions: Mapping[str, Sequence[int]] = field(default_factory=dict)
    assignor: str = "bellwether-rack-first"
    number: int = 7
    kind: int = wire.CONSUMERS
    version: int = wire.VERSION
    instances: Mapping[str, str] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Without the size in front."""
        everything = tuple(range(len(self.topics)))
        wanted = {name: tuple(self.subscriptions.get(name, everything)) for name in self.members}
        distinct = list(dict.fromkeys(wanted.values()))
        sets = list(dict.fromkeys(tuple(racks) for topic in self.topics for racks in topic))
        racks = sorted(
            {rack for topics in sets for rack in topics} | {rack for rack, _ in self.members.values() if rack}
        )
        first = [0]
        for partitions_of_topic in self.topics:
            first.append(first[-1] + len(partitions_of_topic))
        owner = [NOBODY] * first[-1]
        for m, (_, owned) in enumerate(self.members.values()):
            for topic, partitions in owned.items():
                for partition in partitions:
                    owner[first[topic] + partition] = m
        out = struct.pack(">bbi", self.version, self.kind, self.number) + _text(self.assignor)
        out += _integer(len(racks)) + b"".join(map(_text, racks))
        out += _lists([[racks.index(rack) for rack in racks_of_partition] for racks_of_partition in sets])
        out += _integer(len(self.topics))
        out += b"".join(topic_id(t) + _integer(len(topic)) for t, topic in enumerate(self.topics))
        out += _lists(distinct) + _integer(len(self.members))
        for name, (rack, _) in self.members.items():
            out += _text(name) + _text(self.instances.get(name, "")) + _integer(racks.index(rack) if rack else NOBODY)
            out += _integer(distinct.index(wanted[name]))
        return out + _lists([[sets.index(tuple(racks)) for topic in self.topics for racks in topic], owner])


def owners(answer: bytes) -> list[int]:
    """The plan in an answer."""
    size, version, status, _ = struct.unpack_from(">ibbi", answer)
    assert (size, version, status) == (len(answer) - 4, wire.VERSION, wire.PLANNED), answer
    return [owner for (owner,) in struct.iter_unpack(">i", answer[10:])]


def refusal(answer: bytes) -> str:
    """The reason in an answer."""
    assert answer[5] == wire.REFUSED, answer
    return answer[10:].decode()


def _integer(value: int) -> bytes:
    return struct.pack(">i", value)


def _text(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack(">H", len(encoded)) + encoded


def _lists(lists: Sequence[Sequence[int]]) -> bytes:
    return _integer(len(lists)) + b"".join(
        _integer(len(names)) + struct.pack(f">{len(names)}i", *names) for names in lists
    )


RACKS = ("az1", "az2", "az3")
TOPIC = [[rack] for rack in RACKS * 4]


def six(assignor: str = "bellwether-rack-first", kind: int = wire.CONSUMERS) -> Asking:
    return Asking([TOPIC], {f"m{i}": (RACKS[i % 3], {}) for i in range(6)}, assignor=assignor, kind=kind)


class World:
    """Answers, with what they know and what was reported of them."""

    def __init__(self, configured: Policy | None = None, *, racks_configured: bool = False) -> None:
        self.groups, self.topics, self.served = KnownGroups(), TopicNames(), list[Served]()
        self.rules: dict[str, tuple[Rule, ...] | None] = {}
        self.weights = Weights({})
        self.answers = Answers(
            self.groups,
            self.topics,
            lambda _: configured,
            self.served.append,
            weights=lambda _: self.weights,
            rules_of=lambda group: self.rules.get(group, ()),
            racks_configured=racks_configured,
        )

    def answer(self, asking: Asking) -> bytes:
        answer, done = self.answers.answer(asking.encode())
        done(True)
        return answer


def lacked(answers: Answers) -> dict[str, str]:
    """What the newest plans lack that is known by now, by group."""
    return {group: found[1] for group in answers.policies() if (found := answers.lacked(group)) is not None}
