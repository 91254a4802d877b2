"""Minimum-cost flow: the solver, and tasks in racks."""

from collections import Counter
from itertools import permutations
from random import Random

import numpy as np
import pytest

from bellwether_kafka.assignors.shared import NOBODY, FlowProblem, Network, flow, optimise
from bellwether_kafka.assignors.shared.flow import _stable_order


def problem(
    cost: list[list[int]],
    rack: list[int],
    holder: list[int],
    *,
    leaving: int = 0,
    group: list[int] | None = None,
    limit: list[list[int]] | None = None,
    owner: list[int] | None = None,
) -> FlowProblem:
    """One row of costs per task; equal rows are one kind."""
    table, kind = np.unique(np.array(cost, dtype=np.int64), axis=0, return_inverse=True)
    return FlowProblem(
        kind=kind.reshape(-1).astype(np.int32),
        group=np.array(group or [0] * len(cost), dtype=np.int32),
        holder=np.array(holder, dtype=np.int32),
        cost=table,
        rack=np.array(rack, dtype=np.int32),
        leaving=leaving,
        limit=None if limit is None else np.array(limit, dtype=np.int64),
        owner=None if owner is None else np.array(owner, dtype=np.int32),
    )


def cheapest(of: FlowProblem) -> int | None:
    """By trying every placement with the same quotas."""
    fitting = [np.array(p, dtype=np.int32) for p in set(permutations(of.holder.tolist()))]
    return min((of.total(p) for p in fitting if of.fits(p)), default=None)


def random_small(random: Random, *, limited: bool) -> FlowProblem:
    tasks, processes, racks, groups = random.randint(1, 7), random.randint(1, 4), random.randint(1, 3), 2
    holder = [random.randrange(processes) for _ in range(tasks)]
    group = sorted(random.randrange(groups) for _ in range(tasks))
    counts = Counter(holder)
    limit = None
    if limited:
        slack = random.choice([0, 0, 1])
        shares = [[counts[p] / tasks * group.count(g) for p in range(processes)] for g in range(groups)]
        limit = [[int(np.ceil(share)) + slack for share in row] for row in shares]
    return problem(
        [[random.randint(0, 4) for _ in range(racks)] for _ in range(tasks)],
        [random.randrange(racks) for _ in range(processes)],
        holder,
        leaving=random.choice([0, 1, 3]),
        group=group,
        limit=limit,
        owner=random.choice([None, [random.randrange(NOBODY, processes) for _ in range(tasks)]]),
    )


@pytest.mark.slow
@pytest.mark.parametrize("limited", [False, True], ids=["quotas only", "limits per group"])
def test_no_placement_is_cheaper(limited: bool) -> None:
    random = Random(7)
    for _ in range(250):
        given = random_small(random, limited=limited)
        placement = optimise(given)
        assert given.fits(placement)
        assert given.total(placement) == cheapest(given)


def cheapest_task_by_task(of: FlowProblem) -> int:
    """The same by a network without classes or racks: task -> (group, process) -> process."""
    tasks, size = len(of.holder), len(of.rack)
    slots = tasks + of.groups * size
    network = Network(slots + size)
    network.excess[:tasks] = [1] * tasks
    network.excess[slots:] = (-np.bincount(of.holder, minlength=size)).tolist()
    for t in range(tasks):
        group = int(of.group[t]) if of.limit is not None else 0
        cost = [int(of.cost[of.kind[t], of.rack[p]]) + of.leaving * (p != of.holder[t]) for p in range(size)]
        network.add([t] * size, [tasks + group * size + p for p in range(size)], [1] * size, cost)
    for group in range(of.groups):
        limit = of.limit[group].tolist() if of.limit is not None else [tasks] * size
        network.add([tasks + group * size + p for p in range(size)], range(slots, slots + size), limit, [0] * size)
    assert network.solve()
    return sum(
        int(of.cost[of.kind[t], of.rack[p]]) + of.leaving * (p != int(of.holder[t]))
        for t in range(tasks)
        for p, used in enumerate(network.flow(range(2 * t * size, 2 * (t + 1) * size, 2)))
        if used
    )


def random_large(random: Random, *, limited: bool) -> FlowProblem:
    """Groups that fill some processes to their limits, so that what a rack can take does not always fit there."""
    tasks, processes, racks, groups = (
        random.randint(8, 40),
        random.randint(2, 9),
        random.randint(2, 3),
        random.randint(2, 4),
    )
    holder = [random.randrange(processes) for _ in range(tasks)]
    group = sorted(random.randrange(groups) for _ in range(tasks))
    counts = Counter(zip(group, holder, strict=True))
    limit = [[counts[g, p] + random.choice([0, 0, 0, 1]) for p in range(processes)] for g in range(groups)]
    return problem(
        [[random.choice([0, 1, 4]) for _ in range(racks)] for _ in range(tasks)],
        [random.randrange(racks) for _ in range(processes)],
        holder,
        leaving=random.choice([0, 1, 3]),
        group=group,
        limit=limit if limited else None,
        owner=random.choice([None, [random.randrange(NOBODY, processes) for _ in range(tasks)]]),
    )


@pytest.mark.parametrize("limited", [False, True], ids=["quotas only", "limits per group"])
@pytest.mark.parametrize("seed", range(12))
def test_classes_of_tasks_cost_no_more_than_tasks_one_by_one(seed: int, limited: bool) -> None:
    random = Random(seed)
    for _ in range(5):
        given = random_large(random, limited=limited)
        placement = optimise(given)
        assert given.fits(placement)
        assert given.total(placement) == cheapest_task_by_task(given)


@pytest.mark.parametrize("bits", [1, 16, 17, 31, 32, 33, 48, 49])
def test_codes_of_any_size_are_sorted_and_equals_stay_in_order(bits: int) -> None:
    rng = np.random.default_rng(bits)
    codes = rng.integers(0, 1 << bits, 50).repeat(2)
    rng.shuffle(codes)
    codes[:2] = (1 << bits) - 1
    assert _stable_order(codes, 1 << bits).tolist() == np.argsort(codes, kind="stable").tolist()


def test_what_fits() -> None:
    given = problem([[0]] * 4, [0, 0], [0, 0, 1, 1], group=[0, 0, 1, 1], limit=[[2, 1], [0, 2]])
    assert given.fits(np.array([0, 0, 1, 1], dtype=np.int32))
    assert not given.fits(np.array([0, NOBODY, 1, 1], dtype=np.int32))
    assert not given.fits(np.array([0, 0, 0, 1], dtype=np.int32))  # other quotas
    assert not given.fits(np.array([0, 1, 0, 1], dtype=np.int32))  # group 1 has no room on process 0
    free = problem([[0]] * 4, [0, 0], [0, 0, 1, 1])
    assert free.fits(np.array([0, 1, 0, 1], dtype=np.int32))


def test_tasks_go_home_one_for_one() -> None:
    given = problem([[0, 9], [9, 0], [9, 0]], [0, 1], [1, 0, 1], leaving=1)
    assert optimise(given).tolist() == [0, 1, 1]


def test_leaving_costs_more_than_it_saves() -> None:
    given = problem([[0, 1], [1, 0]], [0, 1], [1, 0], leaving=1)
    assert optimise(given).tolist() == [1, 0]


def test_nobody_moves_inside_a_rack() -> None:
    given = problem([[0, 5]] * 6, [0, 0, 1], [0, 1, 0, 1, 2, 2], leaving=1)
    assert optimise(given).tolist() == [0, 1, 0, 1, 2, 2]


def test_the_owners_placement_wins_where_it_costs_no_more() -> None:
    given = problem([[0, 1], [0, 1], [1, 0], [1, 0]], [0, 0, 1, 1], [2, 3, 0, 1], owner=[1, 0, 3, 2])
    assert optimise(given).tolist() == [1, 0, 3, 2]


def test_a_costlier_placement_of_the_owners_is_left() -> None:
    given = problem([[0, 1], [1, 0]], [0, 1], [0, 1], owner=[1, 0])
    assert optimise(given).tolist() == [0, 1]


def test_as_many_as_possible_go_to_their_owners_among_equals() -> None:
    # Three tasks must leave for rack 1; the owners of two are there.
    cost = [[5, 0]] * 3 + [[0, 5]] * 3
    given = problem(cost, [0, 1, 1, 1], [0, 0, 0, 1, 2, 3], owner=[3, NOBODY, 1, NOBODY, NOBODY, NOBODY])
    assert optimise(given).tolist() == [3, 2, 1, 0, 0, 0]


@pytest.mark.slow
def test_a_chain_of_limits_that_dealing_alone_cannot_follow() -> None:
    # Seeds on which the flow between racks does not fit the processes as it is: the full network must finish it.
    random = Random(11)
    for _ in range(400):
        given = random_small(random, limited=True)
        assert given.total(optimise(given)) == cheapest(given)


def test_limits_that_leave_nothing_are_refused() -> None:
    given = problem([[0], [0]], [0], [0, 0], limit=[[1]])
    with pytest.raises(ValueError, match="no placement keeps the limits"):
        optimise(given)


def test_no_tasks_need_no_flow() -> None:
    none = np.zeros(0, dtype=np.int32)
    given = FlowProblem(none, none, none, np.zeros((0, 1), dtype=np.int64), np.zeros(1, dtype=np.int32), 1)
    assert optimise(given).tolist() == []


def test_many_kinds_and_racks_stay_exact() -> None:
    """The bound: nothing is below the sum of each task's cheapest rack, which quotas made to measure allow."""
    random = Random(3)
    racks, each = 12, 30
    best = [random.randrange(racks) for _ in range(racks * each)]
    cost = [[0 if r == b else random.randint(1, 9) for r in range(racks)] for b in best]
    rack = list(range(racks))
    holder = random.sample(best, len(best))
    given = problem(cost, rack, holder)
    assert optimise(given).tolist() == best


def test_network_takes_the_cheaper_way_first() -> None:
    network = Network(3)
    network.excess = [5, 0, -5]
    direct = network.add([0], [2], [4], [3])
    around = network.add([0, 1], [1, 2], [3, 3], [1, 1])
    assert network.solve()
    assert network.flow(direct) == [2]
    assert network.flow(around) == [3, 3]


def test_network_without_a_way_says_so() -> None:
    network = Network(2)
    network.excess = [2, -2]
    network.add([0], [1], [1], [0])
    assert not network.solve()


def test_network_takes_back_what_it_sent() -> None:
    # The cheapest first path blocks the second unit, which sends part of it back.
    network = Network(4)
    network.excess = [2, 0, 0, -2]
    arcs = network.add([0, 0, 1, 1, 2], [1, 2, 2, 3, 3], [1, 1, 1, 1, 1], [1, 4, 1, 5, 1])
    assert network.solve()
    assert network.flow(arcs) == [1, 1, 0, 1, 1]


def test_network_finishes_a_flow_that_is_nearly_right() -> None:
    network = Network(3)
    network.excess = [3, 0, -3]
    arcs = network.add([0, 0, 1], [2, 1, 2], [2, 3, 3], [1, 1, 1])
    network.potential = [0, 1, 2]
    network.preset(arcs, [0, 1, 1])
    assert network.excess == [0, 0, 0]
    assert network.flow(arcs) == [2, 1, 1]
    assert network.solve()


def test_large_codes_are_sorted_in_steps() -> None:
    codes = np.random.default_rng(5).integers(0, 1 << 40, 2_000)
    codes[::3] = codes[0]
    assert flow._stable_order(codes, 1 << 40).tolist() == np.argsort(codes, kind="stable").tolist()


def test_a_network_that_is_too_small_is_filled_whatever_it_costs() -> None:
    """Both sources may use the middle node, which has room for three; one unit must go back for another way."""
    network = Network(5)
    network.excess = [2, 3, 0, 0, -9]
    network.add([2, 3], [4, 4], [3, 1], [5, 7])
    arcs = network.add([0, 0, 1], [2, 3, 2], [2, 1, 3], [0, 90, 0])
    network.saturate()
    assert network.excess == [0, 1, 0, 0, -5]
    assert network.flow(arcs) == [1, 1, 2]
