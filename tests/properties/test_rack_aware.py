"""What holds for every placement that the rack optimisation and the threads get, however odd."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bellwether_kafka.assignors.streams.application import BALANCE_SUBTOPOLOGY, StreamsPlan
from bellwether_kafka.assignors.streams.threads import assign_threads
from tests.differential.rack_costs import active_cost, optimize_active, optimize_standby, standby_cost
from tests.differential.rack_problems import RackProblem, random_problem
from tests.differential.thread_problems import ThreadProblem, by_member, random_threads

SEEDS = st.integers(0, 2**32)
PROBLEMS = st.builds(lambda seed, tasks: random_problem(Random(seed), most_tasks=tasks), SEEDS, st.integers(1, 60))
THREADS = st.builds(lambda seed, tasks: random_threads(Random(seed), most_tasks=tasks), SEEDS, st.integers(1, 120))
STRATEGIES = st.sampled_from(["min_traffic", BALANCE_SUBTOPOLOGY])


def active(problem: RackProblem, strategy: str, current: np.ndarray | None = None) -> np.ndarray:
    return optimize_active(
        problem.view(),
        np.array(problem.active, dtype=np.int32),
        np.array(problem.chosen, dtype=np.int32),
        traffic_cost=problem.traffic,
        non_overlap_cost=problem.non_overlap,
        strategy=strategy,
        current=current,
    )


def cost(problem: RackProblem, owners: np.ndarray) -> int:
    return active_cost(
        problem.view(),
        owners,
        np.array(problem.chosen, dtype=np.int32),
        traffic_cost=problem.traffic,
        non_overlap_cost=problem.non_overlap,
        before=np.array(problem.active, dtype=np.int32),
    )


@given(PROBLEMS, STRATEGIES)
def test_every_process_keeps_its_number_of_tasks(problem: RackProblem, strategy: str) -> None:
    before, after = np.array(problem.active), active(problem, strategy)
    size = len(problem.processes)
    chosen = problem.chosen
    assert (np.bincount(before[chosen], minlength=size) == np.bincount(after[chosen], minlength=size)).all()
    others = np.setdiff1d(np.arange(len(before)), chosen)
    assert (before[others] == after[others]).all()


@given(PROBLEMS)
def test_min_traffic_never_costs_more_and_no_swap_of_two_tasks_helps(problem: RackProblem) -> None:
    after = active(problem, "min_traffic")
    least = cost(problem, after)
    assert least <= cost(problem, np.array(problem.active, dtype=np.int32))
    for first in problem.chosen[:8]:
        for second in problem.chosen[:8]:
            swapped = after.copy()
            swapped[[first, second]] = after[[second, first]]
            assert cost(problem, swapped) >= least


@given(PROBLEMS)
def test_balanced_subtopologies_keep_their_limits(problem: RackProblem) -> None:
    before, after = np.array(problem.active)[problem.chosen], active(problem, BALANCE_SUBTOPOLOGY)[problem.chosen]
    size, total = len(problem.processes), len(problem.chosen)
    group = np.array([problem.tasks[t][0] for t in problem.chosen])
    quota = np.bincount(before, minlength=size)
    for g in set(group.tolist()):
        limit = np.ceil(quota * 1.0 / total * np.count_nonzero(group == g))
        assert (np.bincount(after[group == g], minlength=size) <= limit).all()


@given(PROBLEMS, STRATEGIES, SEEDS)
def test_owners_never_change_the_cost_and_the_answer_is_its_own_owner(
    problem: RackProblem, strategy: str, seed: int
) -> None:
    least = cost(problem, active(problem, strategy))
    owners = np.random.default_rng(seed).integers(-1, len(problem.processes), len(problem.tasks)).astype(np.int32)
    guided = active(problem, strategy, owners)
    assert cost(problem, guided) == least
    assert (active(problem, strategy, guided) == guided).all()


@given(PROBLEMS)
def test_twice_the_same(problem: RackProblem) -> None:
    assert (active(problem, BALANCE_SUBTOPOLOGY) == active(problem, BALANCE_SUBTOPOLOGY)).all()


@given(PROBLEMS, st.booleans())
def test_standbys_keep_counts_and_copies_apart_and_cost_no_more(problem: RackProblem, spread: bool) -> None:
    view, plan = problem.view(), problem.plan()
    after = optimize_standby(
        view,
        plan,
        traffic_cost=problem.traffic,
        non_overlap_cost=problem.non_overlap,
        strategy="min_traffic",
        movable=_allowed(problem) if spread else None,
    )
    size = view.size
    assert (
        np.bincount(plan.standby_process, minlength=size) == np.bincount(after.standby_process, minlength=size)
    ).all()
    assert (plan.standby_task == after.standby_task).all()
    names = set(zip(after.standby_task.tolist(), after.standby_process.tolist(), strict=True))
    assert len(names) == len(after.standby_task)
    assert names.isdisjoint(enumerate(problem.active))
    assert standby_cost(view, after, traffic_cost=1) <= standby_cost(view, plan, traffic_cost=1)
    if spread:
        assert all(len(_racks(problem, after, t)) >= len(_racks(problem, plan, t)) for t in range(len(problem.tasks)))


@given(PROBLEMS)
def test_free_traffic_moves_no_standby(problem: RackProblem) -> None:
    plan = problem.plan()
    problem = replace(problem, traffic=0)
    after = optimize_standby(problem.view(), plan, traffic_cost=0, non_overlap_cost=1, strategy="min_traffic")
    assert (after.standby_process == plan.standby_process).all()


def _allowed(problem: RackProblem) -> Callable[[int, int, int, list[int]], bool]:
    return lambda source, destination, task, holders: not problem.narrows(source, destination, task, holders)


def _racks(problem: RackProblem, plan: StreamsPlan, task: int) -> set[str]:
    holders = plan.standby_process[plan.standby_task == task].tolist()
    return {problem.processes[p] for p in (*holders, problem.active[task])}


@given(THREADS)
def test_threads_get_every_task_once_and_evenly(problem: ThreadProblem) -> None:
    dealt = assign_threads(problem.view(), problem.plan())
    assert sorted(dealt.active.values.tolist()) == problem.active
    assert sorted(dealt.standby.values.tolist()) == problem.standby
    loads = np.diff(dealt.active.first) + np.diff(dealt.standby.first)
    assert loads.max() - loads.min() <= 1


@given(THREADS)
def test_threads_that_report_their_tasks_keep_them(problem: ThreadProblem) -> None:
    """What was dealt is reported back as running: then nothing stateful changes its thread."""
    problem = replace(problem, members=[(member, []) for member, _ in problem.members], standby=[])
    stateful = {t for t, (_, _, end) in enumerate(problem.tasks) if end is not None}
    problem = replace(problem, active=[t for t in problem.active if t in stateful])
    view = problem.view()
    first = by_member(assign_threads(view, problem.plan()), view)
    again = replace(problem, members=[(m, [(t, -2) for t in first[m][0]]) for m, _ in problem.members])
    assert by_member(assign_threads(again.view(), again.plan()), view) == first
