"""A reader of offsets that answers from what it was given."""

from collections.abc import Mapping

import numpy as np

from bellwether_kafka.coordinator.kafka import Ends, Offsets, OffsetsError

Of = Mapping[str, list[int]]


class FakeReader:
    """In OffsetReader's place. Each read of ends has the next of `ends`, the last one again and again."""

    def __init__(self, committed: Of, *ends: Of, trouble: str = "") -> None:
        self.committed_now, self.ends_left, self.trouble = committed, list(ends), trouble
        self.asked: list[tuple[str, ...]] = []
        self.starts_now: Of = {}
        self.starts_asked: list[tuple[str, ...]] = []
        self.stable_now: Of | None = None
        self.stable_asked: list[tuple[str, ...]] = []

    async def known_ends(self, topics: Mapping[str, int], _limit_s: float) -> Ends:
        if self.trouble:
            raise OffsetsError(self.trouble)
        self.asked.append(tuple(topics))
        ends = self.ends_left.pop(0) if len(self.ends_left) > 1 else self.ends_left[0]
        return Ends({topic: np.array(ends[topic]) for topic in topics})

    async def known_starts(self, topics: Mapping[str, int], _limit_s: float) -> Ends:
        self.starts_asked.append(tuple(topics))
        if self.trouble:
            raise OffsetsError(self.trouble)
        none = {topic: [0] * count for topic, count in topics.items()}
        return Ends({topic: np.array(self.starts_now.get(topic, none[topic])) for topic in topics})

    async def known_stable_ends(self, topics: Mapping[str, int], _limit_s: float) -> Ends:
        self.stable_asked.append(tuple(topics))
        if self.stable_now is None:
            raise OffsetsError("offsets: no answer in time")
        return Ends({topic: np.array(self.stable_now[topic]) for topic in topics})

    async def committed(self, _group: str, topics: Mapping[str, int], _limit_s: float) -> Offsets:
        return {topic: np.array(self.committed_now[topic]) for topic in topics}
