"""The brokers' group.max.size is asked for until it is known."""

from collections.abc import Sequence

from bellwether_kafka.coordinator.membership import SizeLimit
from bellwether_kafka.coordinator.runtime.until_answered import SizeLimitWatch

AGAIN_S = 5.0
AGAIN_S_MAX = 300.0

SILENT = SizeLimit(unknown="broker 2 is silent", remedy="wait")
DENIED = SizeLimit(unknown="a right is missing", remedy="grant it")
LIMIT = SizeLimit(1_000)


async def watched(answers: Sequence[SizeLimit | Exception]) -> tuple[list[SizeLimit], list[float]]:
    """What it reports, and for how long it waits before each question but the first, which is the start's."""
    left, reported, waits = list(answers), list[SizeLimit](), list[float]()

    def ask() -> SizeLimit:
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    watch = SizeLimitWatch(ask, reported.append, sleep=sleep)
    await watch.refresh()
    await watch.run()
    assert not left, "asked until it was known"
    return reported, waits


async def test_a_limit_that_is_known_at_the_start_is_not_asked_for_again() -> None:
    assert await watched([LIMIT]) == ([], [])


async def test_an_unknown_limit_is_asked_for_until_it_is_known() -> None:
    assert await watched([SILENT, SILENT, LIMIT]) == ([LIMIT], [AGAIN_S, 2 * AGAIN_S])


async def test_another_reason_is_reported_too() -> None:
    assert (await watched([SILENT, DENIED, LIMIT]))[0] == [DENIED, LIMIT]


async def test_an_error_of_bellwethers_own_does_not_end_the_questions() -> None:
    assert (await watched([SILENT, ValueError("no number"), LIMIT]))[0] == [LIMIT]


async def test_the_pause_between_two_questions_is_bounded() -> None:
    assert max((await watched([SILENT] * 10 + [LIMIT]))[1]) == AGAIN_S_MAX
