"""Which budget a test has, what happens to one that is over it, and how coroutines run."""

import asyncio
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.rings import BUDGETS_MS, budget_ms, ring_of

CONFTEST = "from tests.rings import *"
pytest_plugins = ["pytester"]


@pytest.mark.parametrize(
    ("nodeid", "marks", "ring"),
    [
        ("tests/unit/coordinator/web/test_server.py::test_a", {"parametrize"}, 0),
        ("tests/vectors/test_vectors.py::test_a[1]", set(), 0),
        ("tests/unit/test_a.py::test_a", {"slow"}, 1),
        ("tests/unit/test_a.py::test_a", {"embedded", "slow"}, 1),
        ("tests/properties/test_a.py::test_a", set(), 1),
        ("tests/simulation/scenes/test_a.py::test_a", {"slow"}, 1),
        ("tests/interop/lead/test_a.py::test_a", set(), 2),
        ("tests/interop/lead/test_a.py::test_a", {"smoke"}, 2),
        ("tests/unit/test_a.py::test_a", {"broker"}, 2),
        ("tests/deploy/test_a.py::test_a", set(), 2),
    ],
)
def test_a_folder_and_marks_say_the_ring(nodeid: str, marks: set[str], ring: int) -> None:
    assert ring_of(nodeid, marks) == ring
    assert budget_ms(nodeid, marks) == (*BUDGETS_MS, float("inf"))[ring]


def test_every_folder_of_tests_that_needs_no_brokers_has_a_budget() -> None:
    with_brokers = {"deploy", "differential", "interop", "pipeline"}
    folders = {path.relative_to(ROOT / "tests").parts[0] for path in (ROOT / "tests").rglob("test_*.py")}
    assert {name for name in folders if ring_of(f"tests/{name}/test_a.py::test_a", set()) == 2} == with_brokers


@pytest.mark.slow
def test_what_is_over_its_budget_in_each_run_fails_and_what_is_so_once_does_not(pytester: pytest.Pytester) -> None:
    folder = pytester.mkdir("tests") / "unit"
    folder.mkdir()
    (folder.parent / "conftest.py").write_text(CONFTEST, "utf-8")
    (folder / "test_made.py").write_text(MADE, "utf-8")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--budgets", "tests/unit")
    assert result.parseoutcomes() == {"passed": 3, "failed": 1, "warnings": 1}, result.stdout.str()
    result.stdout.fnmatch_lines(["*ms of CPU time, and more than 50 ms in each of 3 runs*mark it for a later ring*"])
    free = pytester.runpytest_subprocess("-p", "no:cacheprovider", "tests/unit")
    assert free.parseoutcomes()["passed"] == 4


MADE = """
import time
import pytest
calls = []

def spend(ms):
    until = time.process_time() + ms / 1000
    while time.process_time() < until:
        pass

def test_always_over(): spend(500)

def test_over_once():
    calls.append(1)
    spend(500 if len(calls) == 1 else 0)

@pytest.mark.slow
def test_of_the_next_ring(): spend(500)

def test_that_sleeps(): time.sleep(0.1)
"""


@pytest.mark.virtual_time
async def test_in_virtual_time_nobody_waits_and_timers_come_in_their_order(tmp_path: Path) -> None:
    assert tmp_path.name, "fixtures are passed"
    loop, came = asyncio.get_running_loop(), []
    for delay_s in (3_600, 60, 7_200):
        loop.call_later(delay_s, came.append, delay_s)
    began_s = loop.time()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(86_400):
            await loop.create_future()
    assert came == [60, 3_600, 7_200]
    assert loop.time() - began_s == pytest.approx(86_400)
