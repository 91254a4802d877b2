"""The demo ends well by itself, and says so in one sentence where it does not."""

import io
import os
import re
import subprocess
import sys

import pytest
from rich.console import Console

from tests.lab.demo import __main__ as demo
from tests.lab.demo import stage

pytestmark = pytest.mark.embedded


def children() -> set[str]:
    """Demo members of whatever parent, by command line."""
    listed = subprocess.run(["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True).stdout
    return {
        line.split(None, 1)[0] for line in listed.splitlines() if f" {os.getpid()} " in line and "demo.member" in line
    }


def unwrapped(printed: str) -> str:
    """Returns the text without the frames of panels and the ends of their lines, wherever these fell."""
    return " ".join(printed.replace("│", " ").split())


def repaired(text: str, pattern: str) -> tuple[float, float]:
    """Returns the two figures of the sentence of this pattern, before and after."""
    sentence = re.search(pattern, text)
    assert sentence is not None, text
    return float(sentence[1]), float(sentence[2])


def test_the_demo_ends_well_by_itself() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "tests.lab.demo"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "TERM": "dumb"},
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stderr == ""
    text = unwrapped(ended.stdout)
    for expected in (
        "protocol range",
        "protocol cooperative-sticky",
        "first plan, for 3 members",
        "s2 left or died",
        "s4 joined",
        "topic refunds appeared with 4 partitions",
        "in the next rebalance, once the former owner has let go",
        "clicks-0 is hot",
        "Every partition is owned by exactly one member in both groups.",
    ):
        assert expected in text
    before, after = repaired(text, r"read across racks (\d+) -> (\d+) of 16 partitions")
    assert after < before, "racks"
    before, after = repaired(text, r"fullest member ([\d.]+) -> ([\d.]+) times the mean")
    assert after < 1.25 < before, "load"
    assert max(map(len, ended.stdout.splitlines())) <= demo.WIDTH
    assert "\x1b" not in text


async def test_a_demo_that_does_not_hold_is_one_sentence_and_leaves_nobody_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stage, "SCENE_SECONDS", 1.0)
    out = io.StringIO()
    assert await demo.perform(Console(file=out, width=demo.WIDTH)) == 1
    assert "After 1 s" in out.getvalue()
    assert "Traceback" not in out.getvalue()
    assert children() == set()


async def test_an_end_of_the_service_ends_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ends_at_once(self: object, *, handle_signals: bool = True) -> demo.ServiceOutcome:
        return demo.ServiceOutcome(2, ("The group is not ours.",))

    monkeypatch.setattr(stage.Service, "run", ends_at_once)
    out = io.StringIO()
    assert await demo.perform(Console(file=out, width=demo.WIDTH)) == 1
    assert "Bellwether has ended: The group is not ours." in out.getvalue()
