"""Descriptions that many callers want at once: few requests, and no group that harms another."""

import asyncio
from collections.abc import Sequence

import pytest

from bellwether_kafka.coordinator.ghosts.shared_descriptions import SharedDescriptions
from bellwether_kafka.coordinator.kafka.wire import TransportError
from bellwether_kafka.coordinator.membership import DescribeAnswer, DescribedMember, Failure, Node

GROUPS_MAX = 50
LARGE_BYTES = 100_000

HERE, THERE = Node(1, "a", 9092), Node(2, "b", 9092)
UNREADABLE, LEFT_OUT, LARGE = "unreadable", "left-out", "large"


class Brokers:
    """Answer after a moment; `asked` are the groups of each request. They never answer for the node `silent`."""

    def __init__(self, silent: Node | None = None) -> None:
        self.asked: list[list[str]] = []
        self._silent = silent

    async def describe_groups(self, node: Node, group_ids: Sequence[str]) -> dict[str, DescribeAnswer]:
        self.asked.append(list(group_ids))
        await asyncio.sleep(0.01)
        if node == self._silent:
            await asyncio.Event().wait()
        if UNREADABLE in group_ids:
            raise TransportError(Failure.MALFORMED, "it cannot be read")
        return {group: described(group) for group in group_ids if group != LEFT_OUT}


def described(group: str) -> DescribeAnswer:
    data = b"x" * (LARGE_BYTES + 1 if group == LARGE else 1)
    return DescribeAnswer(0, 0, "Stable", "consumer", group, (DescribedMember("m", None, data, b""),))


async def test_a_thousand_groups_are_described_in_few_requests() -> None:
    brokers = Brokers()
    shared, groups = SharedDescriptions(brokers), [f"g-{n}" for n in range(1_000)]
    first = asyncio.create_task(shared.describe(HERE, "first"))
    await asyncio.sleep(0)
    answers = await asyncio.gather(*(shared.describe(HERE, group) for group in groups))
    assert [answer.protocol for answer in answers] == groups
    assert (await first).protocol == "first"
    assert len(brokers.asked) <= 2 + len(groups) / GROUPS_MAX
    assert max(map(len, brokers.asked)) == GROUPS_MAX


@pytest.mark.parametrize("bad", [UNREADABLE, LEFT_OUT])
async def test_a_group_whose_answer_is_bad_fails_no_other(bad: str) -> None:
    shared = SharedDescriptions(Brokers())
    answers = await asyncio.gather(*(shared.describe(HERE, group) for group in ("a", bad, "b")), return_exceptions=True)
    assert answers[0] == described("a")
    assert isinstance(answers[1], TransportError)
    assert answers[2] == described("b")


async def test_an_unreadable_group_is_asked_alone_from_then_on() -> None:
    """All that shared its request were asked alone, each time."""
    brokers = Brokers()
    shared = SharedDescriptions(brokers)
    for _ in range(3):
        await asyncio.gather(
            *(shared.describe(HERE, group) for group in ("first", "a", UNREADABLE, "b")), return_exceptions=True
        )
    assert sum(UNREADABLE in asked and len(asked) > 1 for asked in brokers.asked) == 1
    assert brokers.asked.count(["a"]) == brokers.asked.count(["b"]) == 1


async def test_a_request_that_fails_does_so_for_its_own_groups_alone() -> None:
    class Failing(Brokers):
        async def describe_groups(self, node: Node, group_ids: Sequence[str]) -> dict[str, DescribeAnswer]:
            if "g-060" in group_ids:
                raise TransportError(Failure.TIMED_OUT, "no answer in time")
            return await super().describe_groups(node, group_ids)

    shared, groups = SharedDescriptions(Failing()), [f"g-{n:03d}" for n in range(2 * GROUPS_MAX)]
    first = asyncio.create_task(shared.describe(HERE, "first"))
    await asyncio.sleep(0)
    answers = await asyncio.gather(*(shared.describe(HERE, group) for group in groups), return_exceptions=True)
    await first
    assert [group for group, answer in zip(groups, answers, strict=True) if isinstance(answer, TransportError)] == [
        f"g-{n:03d}" for n in range(GROUPS_MAX, 2 * GROUPS_MAX)
    ]


async def test_a_node_that_is_silent_delays_no_group_of_another() -> None:
    shared = SharedDescriptions(Brokers(silent=THERE))
    waits = asyncio.create_task(shared.describe(THERE, "a"))
    await asyncio.sleep(0)
    assert await shared.describe(HERE, "b") == described("b")
    assert not waits.done()
    waits.cancel()


async def test_a_group_with_a_large_answer_is_described_alone_from_then_on() -> None:
    brokers = Brokers()
    shared = SharedDescriptions(brokers)
    for _ in range(2):
        await asyncio.gather(*(shared.describe(HERE, group) for group in ("a", LARGE)))
    assert ["a", LARGE] in brokers.asked
    assert brokers.asked.count([LARGE]) == brokers.asked.count(["a"]) == 1
