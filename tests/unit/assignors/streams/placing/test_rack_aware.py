"""Rack-aware optimisation (KIP-925): the figures of the KIP and of Kafka's RackAwareTaskAssignorTest."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from bellwether_kafka.assignors.shared import FOREIGN_RACK, NOBODY, IntArray
from bellwether_kafka.assignors.streams.application import (
    BALANCE_SUBTOPOLOGY,
    NO_STRATEGY,
    AssignmentConfigs,
    StreamsView,
)
from bellwether_kafka.assignors.streams.placing import (
    LabelRule,
    Placement,
    RackOptimiser,
    StandbyRule,
    can_use,
    is_pointless,
)
from bellwether_kafka.assignors.streams.placing.racks import _distances
from tests.differential.rack_costs import active_cost, optimize_active, optimize_standby, standby_cost
from tests.differential.rack_problems import RackProblem

# Kafka's test: the racks that hold each task's partition, and the racks of its processes.
HELD_IN = {(0, 0): "01", (0, 1): "12", (0, 2): "12", (1, 0): "02", (1, 1): "13", (1, 2): "01"}
RACK_OF = {1: "0", 2: "1", 3: "2", 4: "3", 5: "4", 6: "0", 7: "1"}
COSTS = pytest.mark.parametrize(("traffic", "non_overlap"), [(10, 1), (1, 0)], ids=["stateful", "stateless"])

Tasks = Sequence[tuple[int, int]]


def kafka_case(active: Mapping[int, Tasks], standby: Mapping[int, Tasks] | None = None) -> RackProblem:
    tasks = sorted(task for mine in active.values() for task in mine)
    processes = list(active)
    place = {task: n for n, process in enumerate(processes) for task in active[process]}
    copies = [[n for n, p in enumerate(processes) if task in (standby or {}).get(p, ())] for task in tasks]
    replica_racks = [[list(HELD_IN[task])] for task in tasks]
    return RackProblem(
        [RACK_OF[p] for p in processes],
        tasks,
        replica_racks,
        replica_racks,
        [place[t] for t in tasks],
        copies,
        list(range(len(tasks))),
    )


def optimised(
    problem: RackProblem,
    traffic: int,
    non_overlap: int,
    *,
    strategy: str = "min_traffic",
    current: list[int] | None = None,
) -> tuple[int, int, list[int]]:
    """(cost before, cost after as Kafka counts it, owners after)."""
    view = problem.view()
    before = np.array(problem.active, dtype=np.int32)
    chosen = np.array(problem.chosen, dtype=np.int32)
    owners = optimize_active(
        view,
        before,
        chosen,
        traffic_cost=traffic,
        non_overlap_cost=non_overlap,
        strategy=strategy,
        current=None if current is None else np.array(current, dtype=np.int32),
    )
    price = {"traffic_cost": traffic, "non_overlap_cost": non_overlap}
    return (
        active_cost(view, before, chosen, **price),
        active_cost(view, owners, chosen, **price, before=before),
        owners.tolist(),
    )


@COSTS
def test_kafka_should_optimize_active_tasks(traffic: int, non_overlap: int) -> None:
    problem = kafka_case({1: [(0, 1), (1, 1)], 2: [(1, 0)], 3: [(0, 0)]})
    before, after, owners = optimised(problem, traffic, non_overlap)
    assert (before, after) == ((40, 4) if non_overlap else (4, 0))
    assert owners == [0, 2, 0, 1]


@COSTS
@pytest.mark.parametrize("strategy", ["min_traffic", BALANCE_SUBTOPOLOGY])
def test_kafka_should_optimize_active_tasks_with_more_clients(strategy: str, traffic: int, non_overlap: int) -> None:
    problem = kafka_case({1: [], 2: [(1, 0)], 3: [(0, 0)]})
    before, after, owners = optimised(problem, traffic, non_overlap, strategy=strategy)
    assert (before, after) == ((20, 2) if non_overlap else (2, 0))
    assert owners == [1, 2]


@COSTS
def test_kafka_keeps_an_unbalanced_placement_unbalanced(traffic: int, non_overlap: int) -> None:
    problem = kafka_case({1: [], 2: [(0, 1), (1, 0)], 3: [(0, 0)]})
    before, after, owners = optimised(problem, traffic, non_overlap)
    assert (before, after) == ((20, 2) if non_overlap else (2, 0))
    assert owners == [1, 1, 2]


@COSTS
def test_kafka_should_balance_assignment_with_more_cost(traffic: int, non_overlap: int) -> None:
    problem = kafka_case({2: [(0, 0), (1, 1)], 5: [(0, 1)]})
    before, after, owners = optimised(problem, traffic, non_overlap)
    assert before == after == traffic
    assert owners == [0, 1, 0]


def test_kafka_should_maintain_original_assignment_when_traffic_costs_nothing() -> None:
    problem = kafka_case({1: [(0, 1), (1, 1)], 2: [(1, 0)], 3: [(0, 0)]})
    assert optimised(problem, 0, 1) == (0, 0, problem.active)


KAFKA_STANDBYS = kafka_case(
    {1: [(0, 0)], 2: [(0, 1)], 3: [(1, 0)], 4: [(1, 1)], 6: [(0, 2)], 7: [(1, 2)]},
    {
        1: [(0, 1), (1, 1)],
        2: [(0, 0), (1, 0)],
        3: [(0, 0), (0, 2)],
        4: [(0, 1), (1, 2)],
        6: [(1, 0), (1, 2)],
        7: [(0, 2), (1, 1)],
    },
)


def standby_costs(problem: RackProblem, *, spread: bool) -> tuple[int, int]:
    def movable(source: int, destination: int, task: int, holders: list[int]) -> bool:
        return not problem.narrows(source, destination, task, holders)

    view, plan = problem.view(), problem.plan()
    after = optimize_standby(
        view,
        plan,
        traffic_cost=10,
        non_overlap_cost=1,
        strategy="min_traffic",
        movable=movable if spread else None,
    )
    sizes = [np.bincount(p.standby_process, minlength=view.size).tolist() for p in (plan, after)]
    assert sizes[0] == sizes[1]
    assert np.bincount(after.standby_task).tolist() == np.bincount(plan.standby_task).tolist()
    return standby_cost(view, plan, traffic_cost=10), standby_cost(view, after, traffic_cost=10)


def test_kafka_should_optimize_standby_tasks_when_tasks_all_movable() -> None:
    assert standby_costs(KAFKA_STANDBYS, spread=False) == (60, 20)


def test_kafka_should_optimize_standby_tasks_with_moving_constraint() -> None:
    assert standby_costs(KAFKA_STANDBYS, spread=True) == (60, 50)


def test_kip925_cost_counts_partitions_without_a_replica_in_the_rack() -> None:
    """getCost of the KIP with TRAFFIC_COST 10 and NON_OVERLAP_COST 1: two of three partitions are remote in "b"."""
    sources = [[["a"], ["a", "b"], ["a", "c"]]]
    problem = RackProblem(["a", "b"], [(0, 0)], sources, sources, [0], [[]], [0])
    view = problem.view()
    only_task = np.array([0], dtype=np.int32)
    here, there = np.array([0], dtype=np.int32), np.array([1], dtype=np.int32)
    price = {"traffic_cost": 10, "non_overlap_cost": 1}
    assert active_cost(view, here, only_task, **price, before=here) == 0
    assert active_cost(view, there, only_task, **price, before=here) == 21
    assert active_cost(view, there, only_task, **price) == 20


def kip925_three_clients(actives: Sequence[int]) -> RackProblem:
    """The KIP's example: clients with 1, 2 and 3 threads, two subtopologies of three tasks, each of its own rack."""
    tasks = [(s, p) for s in (1, 2) for p in (1, 2, 3)]
    replica_racks = [[["x"]], [["y"]], [["z"]], [["z"]], [["z"]], [["z"]]]
    return RackProblem(
        ["x", "y", "z"], tasks, replica_racks, replica_racks, list(actives), [[] for _ in tasks], list(range(6))
    )


def test_kip925_balanced_subtopologies_keep_to_ceil_of_share() -> None:
    """Limits per subtopology are ceil(3 * 1/6), ceil(3 * 2/6), ceil(3 * 3/6) = 1, 1, 2."""
    _, cost, owners = optimised(kip925_three_clients([2, 2, 1, 0, 1, 2]), 1, 0, strategy=BALANCE_SUBTOPOLOGY)
    for subtopology in (owners[:3], owners[3:]):
        counts = np.bincount(subtopology, minlength=3)
        assert (counts <= [1, 1, 2]).all()
    assert np.bincount(owners, minlength=3).tolist() == [1, 2, 3]
    assert cost == 1


def test_kip925_the_solution_of_the_kip_is_one_of_bellwethers() -> None:
    """{s1_1}, {s1_2, s2_1}, {s1_3, s2_2, s2_3}: no other within the limits costs less, and so it stays."""
    kips = [0, 1, 2, 1, 2, 2]
    assert optimised(kip925_three_clients(kips), 1, 0, strategy=BALANCE_SUBTOPOLOGY) == (1, 1, kips)
    _, cost, _ = optimised(kip925_three_clients([2, 2, 1, 0, 1, 2]), 1, 0, strategy=BALANCE_SUBTOPOLOGY)
    assert cost == 1, "nor from elsewhere"


def test_kip925_min_traffic_does_not_balance_subtopologies() -> None:
    problem = kip925_three_clients([1, 0, 1, 2, 2, 2])
    assert optimised(problem, 1, 0) == (3, 1, [0, 1, 1, 2, 2, 2])
    _, cost, owners = optimised(problem, 1, 0, strategy=BALANCE_SUBTOPOLOGY)
    assert cost == 1
    assert owners[3:].count(2) == 2


def test_strategy_none_changes_nothing() -> None:
    problem = kafka_case({1: [(0, 1), (1, 1)], 2: [(1, 0)], 3: [(0, 0)]})
    assert optimised(problem, 10, 1, strategy=NO_STRATEGY)[2] == problem.active
    plan = KAFKA_STANDBYS.plan()
    same = optimize_standby(KAFKA_STANDBYS.view(), plan, traffic_cost=10, non_overlap_cost=1, strategy=NO_STRATEGY)
    assert same is plan


def test_a_task_that_is_not_chosen_stays() -> None:
    problem = replace(kafka_case({1: [(0, 1), (1, 1)], 2: [(1, 0)], 3: [(0, 0)]}), chosen=[0, 1])
    _, _, owners = optimised(problem, 10, 1)
    assert owners == [0, 2, 1, 0]


def test_the_current_owner_keeps_its_task_among_equals() -> None:
    replica_racks = [[["x"]], [["x"]], [["y"]], [["y"]]]
    problem = RackProblem(
        ["x", "x", "y", "y"],
        [(0, p) for p in range(4)],
        replica_racks,
        replica_racks,
        [2, 3, 0, 1],
        [[] for _ in replica_racks],
        [0, 1, 2, 3],
    )
    for current in ([1, 0, 3, 2], [0, 1, 2, 3], [1, 0, 2, 3]):
        before, after, owners = optimised(problem, 10, 1, current=current)
        assert (before, after, owners) == (40, 4, current)


def test_a_rack_without_a_broker_costs_every_partition() -> None:
    replica_racks = [[["x"], ["x"]], [["x"]]]
    problem = RackProblem(["x", "nowhere"], [(0, 0), (0, 1)], replica_racks, replica_racks, [1, 0], [[], []], [0, 1])
    assert problem.view().rack.tolist() == [0, FOREIGN_RACK]
    before, after, owners = optimised(problem, 10, 1)
    assert (before, after, owners) == (20, 12, [0, 1])


def test_tables_without_the_column_for_such_racks_count_the_worst_known_rack() -> None:
    problem = RackProblem(["x", "nowhere"], [(0, 0)], [[["x"], ["y"]]], [[["x"]]], [1], [[]], [0])
    view = problem.view()
    tasks = replace(view.tasks, source_remote=view.tasks.source_remote[:, :-1])
    owners, chosen = np.array([1], dtype=np.int32), np.array([0], dtype=np.int32)
    assert active_cost(view, owners, chosen, traffic_cost=10) == 20
    assert active_cost(replace(view, tasks=tasks), owners, chosen, traffic_cost=10) == 10


def with_racks(view: StreamsView, racks: Sequence[str | None]) -> StreamsView:
    processes = tuple(replace(p, rack=rack) for p, rack in zip(view.processes, racks, strict=True))
    return replace(view, processes=processes)


def test_why_racks_cannot_be_used() -> None:
    view = KAFKA_STANDBYS.view()
    assert can_use(view, with_standbys=True) is None
    for rack in (None, ""):
        reason = can_use(with_racks(view, ["0", rack, "2", "3", "0", "1"]), with_standbys=False)
        assert reason is not None
        assert "client.rack" in reason
        assert str(view.processes[1].process_id) in reason
    unknown = replace(view, tasks=replace(view.tasks, racks_known=False))
    assert "source partition" in (can_use(unknown, with_standbys=False) or "")
    half = replace(view, tasks=replace(view.tasks, changelog_racks_known=False))
    assert can_use(half, with_standbys=False) is None
    assert "changelog partition" in (can_use(half, with_standbys=True) or "")


def test_equal_costs_everywhere_are_pointless_to_optimise() -> None:
    assert not is_pointless(KAFKA_STANDBYS.view())
    everywhere = [[["0", "1"]]] * 2
    problem = RackProblem(["0", "1"], [(0, 0), (0, 1)], everywhere, everywhere, [0, 1], [[], []], [0, 1])
    assert is_pointless(problem.view())
    elsewhere = replace(problem, sources=[[["0"]]] * 2)
    assert not is_pointless(elsewhere.view())
    assert not is_pointless(replace(problem, changelogs=[[["1"]]] * 2).view())


def configs(strategy: str, standbys: int = 1) -> AssignmentConfigs:
    return AssignmentConfigs(num_standby_replicas=standbys, rack_aware_assignment_strategy=strategy)


def test_the_stage_is_off_on_or_says_why_not() -> None:
    view = KAFKA_STANDBYS.view()
    assert RackOptimiser.of(view, configs(NO_STRATEGY)) is None
    reason = RackOptimiser.of(with_racks(view, [None] * 6), configs("min_traffic"))
    assert isinstance(reason, str)
    stage = RackOptimiser.of(view, configs("min_traffic"))
    assert isinstance(stage, RackOptimiser)
    problem = kafka_case({1: [(0, 1), (1, 1)], 2: [(1, 0)], 3: [(0, 0)]})
    actives: IntArray = np.array(problem.active, dtype=np.int32)
    moved = RackOptimiser(problem.view(), "min_traffic").actives(actives, np.arange(4, dtype=np.int32), 10, 1)
    assert moved.tolist() == [0, 2, 0, 1]


def placed(problem: RackProblem) -> Placement:
    place = Placement(problem.view())
    for task, (owner, holders) in enumerate(zip(problem.active, problem.standbys, strict=True)):
        assert owner != NOBODY
        place.active[task] = owner
        for process in holders:
            place.add_standby(task, process)
    return place


def test_the_stage_exchanges_standbys_in_the_placement_as_its_rule_allows() -> None:
    view = KAFKA_STANDBYS.view()
    stage = RackOptimiser(view, BALANCE_SUBTOPOLOGY)
    labels = [(("rack", rack),) for rack in KAFKA_STANDBYS.processes]
    rules = {20: StandbyRule(), 50: LabelRule(labels, ["rack"], [0] * view.tasks.size)}
    for cost, rule in rules.items():
        place = placed(KAFKA_STANDBYS)
        before = list(place.load)
        stage.standbys(place, rule, 10, 1)
        assert standby_cost(view, place.plan(probing=False), traffic_cost=10) == cost
        assert place.load == before


@pytest.mark.parametrize(("gain_a", "gain_b"), [(a, b) for a in range(-3, 6) for b in range(-3, 6) if a + b > 0])
def test_two_processes_are_as_far_as_relaxing_their_swaps_makes_them(gain_a: int, gain_b: int) -> None:
    """A swap is two edges: to B it costs what A's task gains less, to A what B's task gains less."""
    far_a = far_b = 0
    for passes in range(2, 12):  # the first one reaches no further than the other process
        far_a, far_b = min(far_a, far_b - gain_b), min(far_b, far_a - gain_a)
        assert _distances(gain_a, gain_b, passes) == (far_a, far_b)
