"""Plans of many groups at once: each gets its turn, and only foreign code, which may hang, waits for none. After
the warm-up, a plan imports nothing any more."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from bellwether_kafka.coordinator.planning import Turns
from bellwether_kafka.coordinator.planning.threads import PlanThreads, Urgency
from tests.paths import ROOT

COMPARISONS = 2
TURNS = 8

GROUPS, LIMIT_S = 100, 30.0


class Work:
    """Plans of many groups, each of which waits to be let go. `begins` counts them."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.begins = threading.Semaphore(0)
        self.running = self.most = 0
        self.began: list[int] = []
        self._lock = threading.Lock()

    def of(self, group: int) -> Callable[[], int]:
        def plan() -> int:
            with self._lock:
                self.running += 1
                self.most = max(self.most, self.running)
                self.began.append(group)
            self.begins.release()
            self.let_go.wait(LIMIT_S)
            with self._lock:
                self.running -= 1
            return group

        return plan

    async def wait_for(self, plans: int) -> None:
        """Until so many more have begun."""
        for _ in range(plans):
            assert await asyncio.to_thread(self.begins.acquire, timeout=LIMIT_S)


async def test_plans_of_many_groups_take_turns_in_the_order_of_their_arrival() -> None:
    work, turns = Work(), Turns()
    plans = [asyncio.create_task(PlanThreads(turns).run(work.of(n), LIMIT_S)) for n in range(GROUPS)]
    await work.wait_for(TURNS)
    work.let_go.set()
    assert await asyncio.gather(*plans) == list(range(GROUPS))
    assert work.most == TURNS
    assert set(work.began[:TURNS]) == set(range(TURNS))


async def test_a_plan_whose_turn_does_not_come_in_time_is_late_and_one_that_hangs_gives_its_turn_back() -> None:
    work, turns = Work(), Turns(1)
    hangs = asyncio.create_task(PlanThreads(turns).run(work.of(1), 0.05))
    await work.wait_for(1)
    with pytest.raises(TimeoutError):
        await PlanThreads(turns).run(work.of(2), 0.0)
    with pytest.raises(TimeoutError):
        await hangs
    assert await PlanThreads(turns).run(lambda: 3, LIMIT_S) == 3
    work.let_go.set()
    assert work.began == [1]


@pytest.mark.slow
async def test_late_plans_give_back_as_many_turns_as_there_are_and_the_others_when_they_end() -> None:
    """Each late plan gave its turn back while its thread ran on, so with many such groups threads had no bound."""
    work, turns = Work(), Turns(2)
    for n in range(4):
        late = asyncio.create_task(PlanThreads(turns).run(work.of(n), 0.05))
        await work.wait_for(1)
        with pytest.raises(TimeoutError):
            await late
    with pytest.raises(TimeoutError):
        await PlanThreads(turns).run(work.of(4), 0.05)
    assert work.began == [0, 1, 2, 3]
    assert await PlanThreads(turns).run(lambda: "cheap", LIMIT_S, Urgency.LAST_CHANCE) == "cheap"
    work.let_go.set()
    plans = [PlanThreads(turns).run(work.of(n), LIMIT_S) for n in range(5, 5 + GROUPS)]
    assert await asyncio.gather(*plans) == list(range(5, 5 + GROUPS))
    assert work.most == 4


async def test_a_group_without_turns_waits_for_no_other() -> None:
    work, turns = Work(), Turns(1)
    hangs = asyncio.create_task(PlanThreads(turns).run(work.of(1), LIMIT_S))
    await work.wait_for(1)
    assert await PlanThreads().run(lambda: 2, LIMIT_S) == 2
    work.let_go.set()
    assert await hangs == 1


async def test_a_plan_that_members_wait_for_is_not_late_because_all_groups_are_compared() -> None:
    """A rack file that changed compared each of a thousand groups, and the plan of a group in which a member joined
    meanwhile waited behind all of them: it was late, and Bellwether left the group."""
    work, turns = Work(), Turns()
    compared = [
        asyncio.create_task(PlanThreads(turns).run(work.of(n), LIMIT_S, Urgency.COMPARISON)) for n in range(GROUPS)
    ]
    await work.wait_for(COMPARISONS)
    assert await PlanThreads(turns).run(lambda: "planned", LIMIT_S) == "planned"
    assert work.most == COMPARISONS
    work.let_go.set()
    assert await asyncio.gather(*compared) == list(range(GROUPS))


async def test_cheaper_plans_of_many_groups_take_turns() -> None:
    """All started at once where the plans of many groups were late, and kept the loop from its events."""
    work, turns = Work(), Turns()
    cheaper = [
        asyncio.create_task(PlanThreads(turns).run(work.of(n), LIMIT_S, Urgency.LAST_CHANCE)) for n in range(GROUPS)
    ]
    await work.wait_for(TURNS)
    work.let_go.set()
    assert await asyncio.gather(*cheaper) == list(range(GROUPS))
    assert work.most == TURNS


async def test_a_cheaper_plan_does_not_wait_behind_plans_that_are_late() -> None:
    """It waited behind the same plans as the one that was late."""
    work, turns = Work(), Turns(1)
    hangs = asyncio.create_task(PlanThreads(turns).run(work.of(1), LIMIT_S))
    await work.wait_for(1)
    assert await PlanThreads(turns).run(lambda: "cheap", LIMIT_S, Urgency.LAST_CHANCE) == "cheap"
    work.let_go.set()
    assert await hangs == 1


# ---- the first plan ------------------------------------------------------------------------------------------------

FIRST_PLAN = """
import sys
from bellwether_kafka.coordinator.planning import threads
from bellwether_kafka.coordinator.runtime import process
{warm}
before = set(sys.modules)
threads.warm_up()
print(len(set(sys.modules) - before))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("warm", "imports_more"), [("", True), ("threads.warm_up()", False)])
def test_only_the_first_plan_imports_anything(warm: str, imports_more: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FIRST_PLAN.format(warm=warm)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert (int(done.stdout) > 0) == imports_more
