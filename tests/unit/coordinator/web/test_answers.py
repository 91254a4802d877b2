"""Dear answers are made once for all who ask, and not again at once."""

import asyncio
import time
from collections.abc import Callable

import pytest

from bellwether_kafka.coordinator.web.responses import HttpAnswers


class Making:
    """Answers with its number, after computing for `cpu_s`."""

    def __init__(self, cpu_s: float) -> None:
        self._cpu_s = cpu_s
        self.times = 0

    def __call__(self) -> int:
        self.times += 1
        until = time.thread_time() + self._cpu_s
        while time.thread_time() < until:
            pass
        return self.times


async def asked(make: Callable[[], object], times: int, now_s: Callable[[], float]) -> list[object]:
    answers = HttpAnswers(now_s)
    return [
        *await asyncio.gather(*(answers.of("page", make) for _ in range(times))),
        await answers.of("page", make),
    ]


async def test_all_who_ask_at_a_time_share_one_answer_and_so_does_who_asks_soon_after() -> None:
    making = Making(0.05)
    assert await asked(making, 20, lambda: 0.0) == [1] * 21


@pytest.mark.slow
async def test_a_costly_answer_is_made_again_when_its_time_is_over() -> None:
    clock = iter(range(0, 1_000, 10))
    making = Making(0.05)
    assert await asked(making, 1, lambda: next(clock)) == [1, 2]


async def test_a_cheap_answer_is_made_for_each_request() -> None:
    making = Making(0.0)
    assert await asked(making, 1, lambda: 0.0) == [1, 2]


async def test_what_changed_while_it_was_read_is_read_again() -> None:
    changes = iter([True, False])

    def read() -> list[str]:
        by_name = dict.fromkeys("ab", 1)
        for name in by_name:
            if next(changes, False):
                by_name["c"] = 1
            assert name
        return list(by_name)

    assert await asked(read, 1, lambda: 0.0) == [["a", "b"], ["a", "b"]]
