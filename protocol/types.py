"""The nouns that every layer shares."""

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """A partition of a topic; sorts by topic, then partition."""

    topic: str
    partition: int
