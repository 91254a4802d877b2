"""Requests for topics that are shared by callers which come at the same time."""

import asyncio
from collections.abc import Sequence

import pytest

from bellwether_kafka.coordinator.kafka.wire import Give, Together

WAIT_S = 0.2

pytestmark = pytest.mark.virtual_time


class Brokers:
    """Keeps what is requested. An answer takes `takes_s`, those to topics that hang take `HANG_S`."""

    HANG_S = 5.0

    def __init__(self, takes_s: float = 0.2) -> None:
        self.takes_s = takes_s
        self.requests: list[list[str]] = []

    async def __call__(self, asked: Sequence[str], give: Give[int]) -> None:
        self.requests.append(sorted({*asked}))
        number = len(self.requests)
        await asyncio.sleep(self.HANG_S if "hangs" in asked else self.takes_s)
        for position in range(len(asked)):
            give(position, number)


def batches_of(brokers: Brokers) -> Together[str, int]:
    return Together(brokers)


async def test_hundreds_of_groups_that_ask_at_once_cost_two_requests() -> None:
    """Each of 300 plans asked for its topic by itself, and all were late: no metadata before the deadline."""
    brokers = Brokers()
    batches = batches_of(brokers)
    first = asyncio.create_task(batches.ask("a"))
    await asyncio.sleep(0.01)
    await asyncio.gather(*(batches.ask(f"t{n % 3}") for n in range(300)), first)
    assert brokers.requests == [["a"], ["t0", "t1", "t2"]]


async def test_an_answer_is_never_older_than_the_question() -> None:
    batches = batches_of(Brokers())
    first = asyncio.create_task(batches.ask("a"))
    await asyncio.sleep(0.01)
    assert (await batches.ask("a"), await first) == (2, 1), "the first was on its way already"


async def test_a_request_that_hangs_holds_up_no_other_for_long() -> None:
    batches = batches_of(Brokers())
    hanging = asyncio.create_task(batches.ask("hangs"))
    await asyncio.sleep(0.01)
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    await batches.ask("a")
    assert loop.time() - began_s == pytest.approx(WAIT_S + Brokers().takes_s)
    hanging.cancel()


async def test_a_caller_that_gives_up_takes_the_answer_from_nobody() -> None:
    batches = batches_of(Brokers())
    impatient, patient = (asyncio.create_task(batches.ask(topic)) for topic in "ab")
    await asyncio.sleep(0.01)
    impatient.cancel()
    assert await patient == 1


async def test_an_error_reaches_every_caller() -> None:
    async def broken(_: Sequence[str], __: Give[int]) -> None:
        raise OSError("refused")

    batches: Together[str, int] = Together(broken)
    results = await asyncio.gather(*(batches.ask("a") for _ in range(3)), return_exceptions=True)
    assert [type(result) for result in results] == [OSError] * 3
    with pytest.raises(OSError, match="refused"):
        await batches.ask("a")


async def test_the_first_answer_of_a_batch_lets_the_next_begin() -> None:
    """A silent broker delayed all that came after it by as long as a batch waits for the one before."""

    async def half_silent(asked: Sequence[str], give: Give[str]) -> None:
        for position, question in enumerate(asked):
            if question != "silent":
                give(position, question)
        if "silent" in asked:
            await asyncio.Event().wait()

    batches: Together[str, str] = Together(half_silent)
    silent = asyncio.create_task(batches.ask("silent"))
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    assert [await batches.ask(word) for word in ("a", "b")] == ["a", "b"]
    assert loop.time() == began_s
    silent.cancel()
