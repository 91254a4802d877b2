"""What a guard costs: how soon the process starts, what is imported, how much memory it has."""

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.patience import PATIENCE

START_S = 0.3
RESIDENT_KB_MAX = 40 * 1024  # 40 MiB, which the page promises; /proc counts in KiB
TOO_LARGE = (
    "numpy",
    "confluent_kafka",
    "pydantic",
    "typer",
    "structlog",
    "rich",
    "fastavro",
    "yaml",
    "http.client",
    "email",
)
# Everything that a guard runs, before its process starts and behind that.
BEFORE, BEHIND = "bellwether_kafka.coordinator.cli", "bellwether_kafka.coordinator.guard.attend"


def imported(module: str) -> set[str]:
    code = f"import sys, {module}; print(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.slow
def test_nothing_large_is_imported() -> None:
    assert not imported(f"{BEFORE}, {BEHIND}").intersection(TOO_LARGE)


USES = """
import ast, importlib, pkgutil, sys
from bellwether_kafka.coordinator import guard

for module in pkgutil.iter_modules(guard.__path__, "bellwether_kafka.coordinator.guard."):
    module = importlib.import_module(module.name)
    for node in ast.walk(ast.parse(open(module.__file__).read())):
        if isinstance(node, ast.ImportFrom):
            package = importlib.import_module(node.module)
            for name in node.names:
                getattr(package, name.name, None)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = getattr(module, node.value.id, None)
            if getattr(owner, "__name__", "").startswith("bellwether_kafka.coordinator"):
                getattr(owner, node.attr)
"""
NO_LEADER = """
from bellwether_kafka.coordinator import control
from bellwether_kafka.coordinator.guard import evacuation

late = control.InstanceHeartbeat("pod-1", claims=("g",), at_ms=1_000)
assert "synchronise the clocks" in evacuation.objection("g", {late.key: late}, 100_000)
"""


@pytest.mark.slow
@pytest.mark.parametrize("code", [USES, NO_LEADER], ids=["whatever it uses", "no leader answers"])
def test_nothing_large_is_imported_later_in_the_outage_for_which_the_guard_is_there(code: str) -> None:
    """Exports of packages that are imported on first use brought numpy: 253 modules, 19 MB and 0.4 s of CPU."""
    code = f"import sys\n{code}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert not {*done.stdout.split()}.intersection(TOO_LARGE)


def test_the_process_starts_before_anything_that_talks_to_brokers_is_imported() -> None:
    later = {*TOO_LARGE, "kafka", "asyncio", "ssl", "bellwether_kafka.coordinator.control"}
    assert not imported(BEFORE).intersection(later)


@pytest.mark.slow
def test_the_process_starts_within_three_tenths_of_a_second_and_the_guard_is_small() -> None:
    """The best of some starts, and with patience: other tests run beside this one."""
    took_s, kilobytes = [], []
    for _ in range(3):
        began = time.time()
        options = ["--group", "g", "--client-id", "c", "--bootstrap", "127.0.0.1:1"]
        with subprocess.Popen(
            [
                sys.executable,
                "-m",
                "bellwether_kafka",
                "guard",
                *options,
                "--",
                "sh",
                "-c",
                "date +%s.%N; read -r line",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
        ) as guard:
            assert guard.stdin is not None
            assert guard.stdout is not None
            took_s.append(float(guard.stdout.readline()) - began)
            kilobytes.append(settled_kb(guard.pid))
            guard.stdin.close()
            assert guard.wait(60) == 1, "read has found the end"
    print(f"started after {min(took_s):.2f} s; {max(kilobytes)} kB")
    assert min(took_s) < START_S * PATIENCE
    assert max(kilobytes) < RESIDENT_KB_MAX


def settled_kb(pid: int) -> int:
    """Resident memory once it has not grown for a while, by which the imports are over."""
    settled, quiet, until = 0, 0, time.monotonic() + 30
    while quiet < 20 and time.monotonic() < until:
        now = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
        assert now is not None
        quiet = quiet + 1 if int(now[1]) == settled and settled > 25_000 else 0
        settled = int(now[1])
        time.sleep(0.05)
    return settled
