"""How late an event loop is, as other threads see it."""

import asyncio
import inspect
import re
import subprocess
import sys
import time
from functools import partial
from types import ModuleType

import pytest
from structlog.testing import capture_logs

from bellwether_kafka.coordinator.runtime import loop_watch, process, service
from bellwether_kafka.coordinator.runtime.loop_watch import LoopWatch
from tests.paths import ROOT

STUCK_S = 30.0


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_largest_lateness_of_the_last_minute() -> None:
    clock = Clock()
    watch = LoopWatch(clock)
    for second, late_s in ((1, 0.0), (2, 0.4), (3, 0.1)):
        clock.now = 100.0 + second
        watch.turned(clock.now - late_s)
    assert abs(watch.lateness_s() - 0.4) < 1e-9
    clock.now = 162.5
    watch.turned(162.5)
    assert abs(watch.lateness_s() - 0.1) < 1e-9, "what is older counts no more"


def test_a_loop_that_does_not_turn_is_late_now_and_stuck_later() -> None:
    clock = Clock()
    watch = LoopWatch(clock)
    clock.now += STUCK_S + 1
    assert (watch.lateness_s(), watch.stuck()) == (0.0, None), "it does not run yet"
    watch.turned(clock.now)
    clock.now += 5.25
    assert abs(watch.lateness_s() - 5.0) < 1e-9
    assert watch.stuck() is None
    clock.now += STUCK_S
    assert watch.stuck() == "the event loop has not run for 35 s"


@pytest.mark.slow
async def test_a_call_that_blocks_the_loop_is_seen() -> None:
    async def scenario() -> float:
        watch = LoopWatch()
        watching = asyncio.create_task(watch.run())
        await asyncio.sleep(0.01)
        time.sleep(0.6)  # noqa: ASYNC251 - what must not happen
        await asyncio.sleep(0.05)
        watching.cancel()
        return watch.lateness_s()

    assert await scenario() > 0.2


@pytest.mark.slow
def test_collections_do_not_visit_what_was_there_at_the_start() -> None:
    """In a process of its own: what is frozen stays so."""
    program = """
import gc
from bellwether_kafka.coordinator.runtime import Outside
Outside().started()
print(len(gc.get_objects()), gc.get_freeze_count())
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    visited, spared = map(int, done.stdout.split())
    assert spared > 20_000
    assert visited < spared / 20


async def test_a_background_task_that_raises_is_logged_and_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody awaits it, so its error was never seen, and what it watched was watched by nobody."""
    monkeypatch.setattr(loop_watch, "AGAIN_S", 0.0)
    begun: list[int] = []

    async def watch(failures: int) -> None:
        begun.append(failures)
        if len(begun) <= failures:
            raise KeyError("a defect")

    with capture_logs() as lines:
        await loop_watch.in_background(partial(watch, 2))
    assert len(begun) == 3
    assert [line["event"] for line in lines] == ["background_task_failed"] * 2
    assert lines[0]["task"].endswith("watch")


@pytest.mark.parametrize("module", [service, process])
def test_what_runs_beside_the_groups_is_kept_running(module: ModuleType) -> None:
    """No task of a process is created in another way, but for one whose end the stop itself is."""
    text = inspect.getsource(module)
    assert re.findall(r"create_task\((.*)", text) in ([], ["self._hand_over_and_stop(self._controller))"])
    assert "in_background(" in text
