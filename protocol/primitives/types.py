"""The value types that every layer shares, such as a partition of a topic.

Kafka's rule for topic names. A topic with another name cannot exist, so it is never requested and counts as
absent.

Whole numbers in text from users and clients.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple, TypeVar


class TopicPartition(NamedTuple):
    """A partition of a topic; sorts by topic, then partition."""

    topic: str
    partition: int


class TaskId(NamedTuple):
    """A Streams task: partition number `partition` of subtopology `subtopology`.

    `topology` is the name of a named topology, None for the ordinary unnamed one. Java orders by subtopology, then
    partition, and refuses to compare named with unnamed tasks: sort on the first two fields where both kinds may meet.
    """

    subtopology: int
    partition: int
    topology: str | None = None

    def __str__(self) -> str:
        plain = f"{self.subtopology}_{self.partition}"
        return plain if self.topology is None else f"{self.topology}__{plain}"


class ProcessId(NamedTuple):
    """The id of one KafkaStreams instance: a UUID as Java stores it, in two *signed* 64-bit halves.

    Java compares the halves as signed numbers, so 8000... sorts before 0000...
    (docs/internals/wire-formats.md#javas-orders).
    """

    most_significant: int
    least_significant: int

    @classmethod
    def of_bytes(cls, data: bytes) -> "ProcessId":
        """Reads the 16 bytes of the wire, most significant half first."""
        return cls(int.from_bytes(data[:8], signed=True), int.from_bytes(data[8:16], signed=True))

    def __bytes__(self) -> bytes:
        return self.most_significant.to_bytes(8, signed=True) + self.least_significant.to_bytes(8, signed=True)

    def __str__(self) -> str:
        text = bytes(self).hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class HostInfo(NamedTuple):
    """The host and port where a Streams instance answers interactive queries (its `application.server`)."""

    host: str
    port: int


_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_FORBIDDEN = frozenset({".", ".."})

Value = TypeVar("Value")


def is_topic_name(name: str) -> bool:
    """Returns whether the name has 1 to 249 of the allowed characters and is neither "." nor ".."."""
    return _NAME.fullmatch(name) is not None and name not in _FORBIDDEN


def possible_topics(topics: Mapping[str, Value]) -> dict[str, Value]:
    """Returns the entries whose topics can exist."""
    return {name: value for name, value in topics.items() if is_topic_name(name)}


DIGITS_MAX = 18  # what fits into 64 bits; the interpreter refuses to parse thousands of digits


def whole_number(text: str) -> int | None:
    """Returns the number, None unless the text is 1 to 18 ASCII digits. (`str.isdigit` accepts a superscript, which
    `int` refuses.)"""
    return int(text) if len(text) <= DIGITS_MAX and text.isascii() and text.isdigit() else None
