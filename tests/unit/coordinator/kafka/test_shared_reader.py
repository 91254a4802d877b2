"""Topics that many groups need are read together, and one failure is everybody's, without a wait for each."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from bellwether_kafka.coordinator.kafka.client import ClusterUnreachableError, SharedReader
from bellwether_kafka.coordinator.kafka.client.metadata import distinct_placements

FAILED_AGAIN_S = 5.0
SHARED_AGE_MS = 30_000


class Reader(SharedReader):
    """Reads what it is asked for without brokers; `reads` are the topics of each request."""

    def __init__(self) -> None:
        self.now = 1_000.0
        super().__init__({"bootstrap.servers": "127.0.0.1:1"}, clock=lambda: self.now)
        self.reads: list[list[str]] = []
        self.silent = False

    async def _refresh(self, topics: list[str]) -> None:
        self.reads.append(list(topics))
        await asyncio.sleep(0)
        if self.silent:
            raise ClusterUnreachableError("No broker answered.")
        for topic in topics:
            self._cache.see_topic(topic, self.now, *distinct_placements([(1, (1,))]))

    def ask(self, *topics: Sequence[str]) -> list[Any]:
        async def all_of() -> list[Any]:
            return await asyncio.gather(*(self.read(each, 1_000) for each in topics), return_exceptions=True)

        return asyncio.run(all_of())


@pytest.fixture
def reader() -> Any:
    made = Reader()
    yield made
    made.close()


def test_what_is_asked_while_a_read_is_under_way_is_read_with_the_next(reader: Reader) -> None:
    answer = reader.ask(["a"], ["b"], ["c", "a"], ["a"])
    assert [read.topics for read in answer] == [("a",), ("b",), ("a", "c"), ("a",)]
    assert reader.reads == [["a"], ["b", "c"]]


def test_a_read_serves_for_a_while_and_then_all_are_read_again_together(reader: Reader) -> None:
    reader.ask(["a"])
    reader.now += 20
    reader.ask(["b"])
    reader.now += 9
    reader.ask(["a"], ["b"])
    assert reader.reads == [["a"], ["a", "b"]]


def test_a_topic_that_nobody_asks_for_any_more_is_not_read(reader: Reader) -> None:
    reader.ask(["a"], ["b"])
    for _ in range(3):
        reader.now += SHARED_AGE_MS / 1000 + 1
        reader.ask(["b"])
    assert reader.reads[-1] == ["b"]


def test_a_topic_with_trouble_is_read_anew(reader: Reader) -> None:
    reader.ask(["a"], ["b"])
    reader.expire(["a", "never seen"])
    reader.ask(["a"], ["b"])
    assert reader.reads == [["a"], ["b"], ["a"]]


def test_silent_brokers_are_asked_once_for_all_that_wait(reader: Reader) -> None:
    reader.silent = True
    assert [str(error) for error in reader.ask(["a"], ["b"], ["c"])] == ["No broker answered."] * 3
    assert len(reader.reads) == 1
    reader.silent = False
    reader.now += FAILED_AGAIN_S + 1
    (answer,) = reader.ask(["a"])
    assert answer.topics == ("a",)
