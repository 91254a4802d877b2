"""Rack optimisation beside Java's own on the same random inputs: equal costs, and equal standby placements."""

import os
from random import Random

import numpy as np
import pytest

from bellwether_kafka.assignors.streams.application import BALANCE_SUBTOPOLOGY
from tests.differential.rack_costs import active_cost, optimize_active, optimize_standby, standby_cost
from tests.differential.rack_problems import RackProblem, as_active, as_standby, random_problem
from tests.differential.referees import TIMEOUT_S, ask
from tests.interop.support.jvm import Java

INPUTS = int(os.environ.get("BELLWETHER_INPUTS", "400"))

pytestmark = [pytest.mark.broker, pytest.mark.timeout(TIMEOUT_S)]


@pytest.mark.parametrize("strategy", ["min_traffic", BALANCE_SUBTOPOLOGY])
def test_active_cost_equals_java(jvm: Java, strategy: str) -> None:
    random = Random(925)
    problems = [as_active(random_problem(random), strategy=strategy) for _ in range(INPUTS)]
    for problem, theirs in zip(problems, ask(jvm, "bellwether.RackReferee", problems), strict=True):
        assert "error" not in theirs, (problem, theirs)
        view = problem.view()
        active = np.array(problem.active, dtype=np.int32)
        chosen = np.array(problem.chosen, dtype=np.int32)
        current = np.array([random.randrange(-1, view.size) for _ in active], dtype=np.int32)
        for owners in (None, current):
            own = optimize_active(
                view,
                active,
                chosen,
                traffic_cost=problem.traffic,
                non_overlap_cost=problem.non_overlap,
                strategy=strategy,
                current=owners,
            )
            cost = active_cost(
                view,
                own,
                chosen,
                traffic_cost=problem.traffic,
                non_overlap_cost=problem.non_overlap,
                before=active,
            )
            assert cost == theirs["cost"], problem
            untouched = np.setdiff1d(np.arange(len(active)), chosen)
            assert (own[untouched] == active[untouched]).all()
            assert (np.bincount(own[chosen], minlength=view.size) == counts(active[chosen], view.size)).all()


def test_java_answers_are_kept_when_they_are_the_current_owners(jvm: Java) -> None:
    random = Random(441)
    problems = [
        as_active(random_problem(random), strategy=random.choice(["min_traffic", BALANCE_SUBTOPOLOGY]))
        for _ in range(300)
    ]
    for problem, theirs in zip(problems, ask(jvm, "bellwether.RackReferee", problems), strict=True):
        current = np.array(theirs["active"], dtype=np.int32)
        own = optimize_active(
            problem.view(),
            np.array(problem.active, dtype=np.int32),
            np.array(problem.chosen, dtype=np.int32),
            traffic_cost=problem.traffic,
            non_overlap_cost=problem.non_overlap,
            strategy=problem.strategy,
            current=current,
        )
        assert own.tolist() == theirs["active"], problem


@pytest.mark.parametrize("spread", [False, True], ids=["free", "racks stay spread"])
def test_standbys_equal_java(jvm: Java, spread: bool) -> None:
    random = Random(708 + spread)
    problems = [as_standby(random_problem(random, most_processes=8), spread=spread) for _ in range(INPUTS)]
    moved = 0
    for problem, theirs in zip(problems, ask(jvm, "bellwether.RackReferee", problems), strict=True):
        assert "error" not in theirs, (problem, theirs)
        view, plan = problem.view(), problem.plan()

        def movable(source: int, destination: int, task: int, holders: list[int], of: RackProblem = problem) -> bool:
            return not of.narrows(source, destination, task, holders)

        own = optimize_standby(
            view,
            plan,
            traffic_cost=problem.traffic,
            non_overlap_cost=problem.non_overlap,
            strategy=problem.strategy,
            movable=movable if spread else None,
        )
        assert standby_cost(view, own, traffic_cost=problem.traffic) == theirs["cost"], problem
        expected = [(t, p) for t, holders in enumerate(theirs["standbys"]) for p in sorted(holders)]
        assert list(zip(own.standby_task.tolist(), own.standby_process.tolist(), strict=True)) == expected, problem
        moved += own.standby_process.tolist() != plan.standby_process.tolist()
    assert moved > INPUTS // 20


def counts(owners: np.ndarray, size: int) -> np.ndarray:
    return np.bincount(owners, minlength=size)
