"""The rings of the tests, how much CPU time a test of each may use, and how tests that are coroutines run.

Ring 0 is `make quick`: unit tests and vectors that are marked neither `slow` nor `embedded`. Ring 1 is `make test`:
those two, and properties, simulation and fuzzing. Ring 2 is what needs brokers, containers or Spark; it has no budget.
"""

import asyncio
import inspect
import time
from collections.abc import Generator

import pytest
from _pytest.runner import runtestprotocol

from tests.kit.virtual_time import VirtualLoop

BUDGETS_MS = (50, 2_000)  # of rings 0 and 1
FOLDERS = {"unit": 0, "vectors": 0, "properties": 1, "simulation": 1, "fuzz": 1}  # and the ring of each
LATER = {"slow", "embedded"}
WITHOUT_BUDGET = {"broker", "proof", "smoke"}
OVER = pytest.StashKey[int]()  # how many of its runs were
NOISE = 1.5  # how far the CPU time of the same test goes up and down, beside what `slowness` evens out
RUNS = 3  # after which a test that was over in each of them fails
WORK, WORK_MS = 50_000, 3.6  # what `slowness` computes, and how long it takes where the budgets were set
SAMPLES = 5  # of that work: programs that share the cores come and go


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--budgets", action="store_true", help="fail tests that use more CPU time than their ring has")


def ring_of(nodeid: str, marks: set[str]) -> int:
    folder = nodeid.split("/")[1] if nodeid.startswith("tests/") else ""
    if marks & WITHOUT_BUDGET:
        return 2
    return max(FOLDERS.get(folder, 2), int(bool(marks & LATER)))


def budget_ms(nodeid: str, marks: set[str]) -> float:
    ring = ring_of(nodeid, marks)
    return BUDGETS_MS[ring] if ring < len(BUDGETS_MS) else float("inf")


def slowness() -> float:
    """Returns how many times longer a fixed piece of work takes than where the budgets were set, at least 1: CPU time
    also grows on a machine that is slow, or whose cores are shared. The slowest sample counts."""
    return max(1.0, *(_work_ms() / WORK_MS for _ in range(SAMPLES)))


def _work_ms() -> float:
    began_s = time.process_time()
    sum(len(str(number)) for number in range(WORK))
    return 1_000 * (time.process_time() - began_s)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fails a test that uses more CPU time than its ring has, without set-up, and without processes that it starts."""
    began_s = time.process_time()
    result = yield
    took_ms = 1_000 * (time.process_time() - began_s)
    limit_ms = budget_ms(item.nodeid, {mark.name for mark in item.iter_markers()})
    most_ms = limit_ms * NOISE
    if took_ms > most_ms and item.config.getoption("budgets") and (took_ms := took_ms / slowness()) > most_ms:
        item.stash[OVER] = item.stash.get(OVER, 0) + 1
        if item.stash[OVER] == RUNS:
            pytest.fail(
                f"{took_ms:.0f} ms of CPU time, and more than {limit_ms} ms in each of {RUNS} runs, which is what its "
                "ring has (tests/rings.py): make it cheaper, or mark it for a later ring",
                pytrace=False,
            )
    return result


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Runs a test that is over its budget again: the first one of a session also pays for modules and caches that all
    need, and a busy machine makes some of them slow."""
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    for run in range(1, RUNS):
        if item.stash.get(OVER, 0) == run:
            reports = runtestprotocol(item, nextitem=nextitem, log=False)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test that is a coroutine on a loop of its own; where it is marked `virtual_time`, time jumps to the next
    timer."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    virtual = pyfuncitem.get_closest_marker("virtual_time") is not None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    with asyncio.Runner(loop_factory=VirtualLoop if virtual else None) as runner:
        runner.run(pyfuncitem.obj(**arguments))
    return True
