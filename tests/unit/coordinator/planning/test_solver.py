"""The process that plans: plug-ins that hang, eat, raise or die cost one plan of their own and nothing else."""

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bellwether_kafka.assignors.consumer import PartitionPlan, Policy
from bellwether_kafka.assignors.shared import RefusalCause, RefusalError
from bellwether_kafka.coordinator.planning import ConsumerKind, Planned, Planner, Solver, Source, foreign_code
from tests.kit.plans import Reader, order
from tests.unit.coordinator.planning.plugins_gone_wrong import (
    Dies,
    Eats,
    Hangs,
    Plugin,
    Raises,
    ShowsItsProcess,
    slow_answer,
)

LARGE_PARTITIONS = 200_000

START_S = 30.0

pytestmark = pytest.mark.slow


def with_solver(
    plugin: Plugin, scenario: Callable[[Planner, Solver], Coroutine[Any, Any, None]], memory_bytes_max: int = 8 << 30
) -> None:
    async def run() -> None:
        policy = Policy(plugin.name, {plugin.name: plugin})
        solver = Solver(policy, always=True, memory_bytes_max=memory_bytes_max)
        solver.warm()
        try:
            await until(lambda: solver.ready)
            await scenario(Planner("orders", ConsumerKind(Reader(), policy), solver=solver), solver)
        finally:
            await solver.close()

    asyncio.run(run())


def words(planned: Planned[PartitionPlan]) -> str:
    """Why something else than the plug-in's plan was sent: each way there is says so in its own place."""
    return "; ".join((*planned.reasons, *planned.decision.warnings))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(START_S):
        while not condition():  # noqa: ASYNC110 - a process does not report when it is there
            await asyncio.sleep(0.01)


def test_a_plugins_plan_is_made_in_the_process_and_is_the_same_plan() -> None:
    async def scenario(planner: Planner, _: Solver) -> None:
        planned = await planner.plan(order(1, seconds=20))
        assert planned.source is Source.PLAN
        here = await Planner("orders", ConsumerKind(Reader(), Policy())).plan(order(1, seconds=20))
        assert planned.decision.assignments == here.decision.assignments
        assert planner.delivered(1) is not None
        assert (await planner.plan(order(2, seconds=20))).source is Source.PLAN
        assert (await planner.compare(order(2, seconds=20))).worth_moving == ""

    with_solver(Plugin("honest"), scenario)


def test_a_plugin_that_hangs_is_killed_and_the_cheaper_plan_goes_out_before_the_deadline() -> None:
    async def scenario(planner: Planner, solver: Solver) -> None:
        assert solver._child is not None
        hung = solver._child.process
        began = time.monotonic()
        planned = await planner.plan(order(1, seconds=4))
        assert time.monotonic() - began < 4
        assert planned.source is Source.CHEAP
        assert planned.reasons == ("plan: not ready in time",)
        await until(lambda: hung.poll() is not None)
        assert hung.returncode == -9
        await until(lambda: solver.ready)
        assert solver._child is not None
        assert solver._child.process is not hung, "its successor is warm already"

    with_solver(Hangs("hangs"), scenario)


def test_a_plugin_that_eats_all_memory_takes_only_its_own_process_along() -> None:
    async def scenario(planner: Planner, _: Solver) -> None:
        message = words(await planner.plan(order(1, seconds=20)))
        assert "MemoryError" in message or "out of memory" in message

    with_solver(Eats("eats"), scenario, memory_bytes_max=2 << 30)


@pytest.mark.parametrize(("plugin", "why"), [(Raises("raises"), "nonsense"), (Dies("dies"), "has ended")])
def test_a_plugin_that_raises_or_dies_costs_its_own_plan(plugin: Plugin, why: str) -> None:
    async def scenario(planner: Planner, solver: Solver) -> None:
        for generation in (1, 2):
            assert why in words(await planner.plan(order(generation, seconds=20)))
            await until(lambda: solver.ready)

    with_solver(plugin, scenario)


def test_it_is_another_process_that_remembers_and_knows_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELLWETHER_KAFKA_SASL_PASSWORD", "secret")
    message: list[str] = []

    async def scenario(planner: Planner, _: Solver) -> None:
        message.extend([words(await planner.plan(order(generation, seconds=20))) for generation in (1, 2)])

    with_solver(ShowsItsProcess("shows"), scenario)
    processes = [re.search(r"process (\d+) request (\d) (\[.*\])", text) for text in message]
    assert [hit and hit[2] for hit in processes] == ["1", "2"], "one process for both"
    assert {hit and hit[1] for hit in processes}.isdisjoint({str(os.getpid()), None})
    assert [hit and hit[3] for hit in processes] == ["[]", "[]"]


async def test_a_plan_given_up_half_way_leaves_no_answer_for_the_next() -> None:
    solver = Solver("subject", always=True)
    try:
        slow = asyncio.create_task(solver.solve(slow_answer, 30))
        await asyncio.sleep(0)
        await until(lambda: solver.ready)
        await asyncio.sleep(0.2)
        slow.cancel()
        await asyncio.gather(slow, return_exceptions=True)
        assert await solver.solve(partial(_echo, value=5), START_S) == ("subject", 5)
    finally:
        await solver.close()


PARENT = """
import asyncio
from bellwether_kafka.coordinator.planning.solver import Solver
from tests.unit.coordinator.planning.plugins_gone_wrong import slow_answer

async def run():
    solver = Solver("subject", always=True)
    job = asyncio.create_task(solver.solve(slow_answer, 60))
    while not solver.ready:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.2)
    print(solver._child.process.pid, flush=True)
    await job

asyncio.run(run())
"""


def test_it_ends_with_its_parent_even_in_the_middle_of_a_plan() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert Path(f"/proc/{child}").exists()
        parent.kill()
    limit = time.monotonic() + START_S
    while running(child):
        assert time.monotonic() < limit, "it lives on"
        time.sleep(0.02)


def running(pid: int) -> bool:
    """It is there and no zombie that its next parent has not buried yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_a_large_stock_plan_goes_to_the_process_once_that_is_warm() -> None:
    solver = Solver(Policy(), always=False)
    try:
        assert not solver.wants(members=10, partitions=100)
        assert solver._child is None, "a small group needs no process"
        assert not solver.wants(members=10, partitions=LARGE_PARTITIONS), "not warm yet"
        await until(lambda: solver.ready)
        assert solver.wants(members=10, partitions=LARGE_PARTITIONS)
    finally:
        await solver.close()


async def test_a_plugin_that_cannot_be_sent_stays_in_bellwethers_process() -> None:
    solver = Solver(lambda: None, always=True)
    assert not solver.wants(members=1, partitions=1)
    solver.warm()
    await solver.close()


async def test_errors_of_bellwether_keep_their_class() -> None:
    solver = Solver("subject", always=True)
    try:
        with pytest.raises(RefusalError, match="of ours"):
            await solver.solve(_refuse, START_S)
    finally:
        await solver.close()


def test_foreign_code_is_reported_by_its_class() -> None:
    assert foreign_code(Plugin("any"))
    assert not foreign_code(*Policy().assignors.values(), *Policy("rack-first").chain("range"))


def _echo(subject: object, value: int) -> tuple[object, int]:
    return subject, value


def _refuse(_subject: object) -> None:
    raise RefusalError(RefusalCause.PLAN, "of ours")
