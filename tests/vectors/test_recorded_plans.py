"""Plans are what they were when they were last looked at, for every policy and in every rebalance."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.vectors import consumer_plans, streams_plans

QUICK_SEEDS = 3  # of each case but fleets; `make test` plans the others, too


def recorded(file: Path) -> list[Any]:
    cases = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    return [pytest.param(case, id=f"{case['case']}-{case['seed']}", marks=slow(case)) for case in cases]


def slow(case: dict[str, Any]) -> list[pytest.MarkDecorator]:
    return [pytest.mark.slow] if case["seed"] >= QUICK_SEEDS or case["case"].startswith("fleet") else []


def rebalances_agree(now: dict[str, Any], then: dict[str, Any]) -> None:
    """Rebalance by rebalance, so that a failure shows the first one that differs."""
    for number, (mine, theirs) in enumerate(zip(now["rebalances"], then["rebalances"], strict=True)):
        assert (number, mine) == (number, theirs)


@pytest.mark.parametrize("case", recorded(consumer_plans.FILE))
def test_consumer_groups_are_planned_as_recorded(case: dict[str, Any]) -> None:
    rebalances_agree(consumer_plans.record(case["case"], case["seed"]), case)


@pytest.mark.parametrize("case", recorded(streams_plans.FILE))
def test_streams_applications_are_planned_as_recorded(case: dict[str, Any]) -> None:
    rebalances_agree(streams_plans.record(case["case"], case["seed"]), case)
