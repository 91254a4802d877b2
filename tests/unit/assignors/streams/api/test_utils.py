"""The utilities that assignors share: KIP-924's TaskAssignmentUtilsTest, and each difference to the shipped copy."""

from dataclasses import replace

import pytest

from bellwether_kafka.assignors.streams.api import (
    AssignmentError,
    InvalidAssignmentError,
    TaskAssignment,
    UnknownTaskError,
)
from bellwether_kafka.assignors.streams.application import AssignmentConfigs
from bellwether_kafka.plugins import (
    RackAwareOptimizationParams,
    default_standby_task_assignment,
    identity_assignment,
    optimize_rack_aware_active_tasks,
    optimize_rack_aware_standby_tasks,
)
from bellwether_kafka.protocol.primitives import TaskId
from tests.unit.assignors.streams.api.api_scenes import (
    Application,
    Process,
    active_of,
    assigned,
    process_id,
    standby_of,
    task,
    tasks,
    validate_task_assignment,
)

STRATEGIES = ("min_traffic", "balance_subtopology")
RACKED = (Process(1, rack="r1"), Process(2, rack="r2"))
CROSSED = Application(stateful=(2,), racks={"0_0": ("r2",), "0_1": ("r1",)})


def configs(strategy: str = "min_traffic", **more: object) -> AssignmentConfigs:
    return replace(AssignmentConfigs(rack_aware_assignment_strategy=strategy), **more)  # type: ignore[arg-type]


def by_process(*assignments):  # type: ignore[no-untyped-def]
    return {a.process_id: a for a in assignments}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_active_tasks_move_to_their_racks(strategy: str) -> None:
    state = CROSSED.state(*RACKED, configs=configs(strategy))
    placed = by_process(assigned(1, active=("0_0",)), assigned(2, active=("0_1",)))
    for _ in range(2):
        optimize_rack_aware_active_tasks(RackAwareOptimizationParams.of(state), placed)
        assert active_of(placed[process_id(1)]) == ["0_1"]
        assert active_of(placed[process_id(2)]) == ["0_0"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_standbys_move_to_their_racks(strategy: str) -> None:
    app = Application(stateful=(2,), racks={"0_0": ("r2",), "0_1": ("r3",)})
    three = (Process(1, 2, "r1"), Process(2, 2, "r2"), Process(3, 2, "r3"))
    state = app.state(*three, configs=configs(strategy, num_standby_replicas=1))
    placed = by_process(assigned(1, ("0_0", "0_1")), assigned(2, (), ("0_1",)), assigned(3, (), ("0_0",)))
    optimize_rack_aware_standby_tasks(RackAwareOptimizationParams.of(state), placed)
    assert active_of(placed[process_id(1)]) == ["0_0", "0_1"]
    assert standby_of(placed[process_id(2)]) == ["0_0"]
    assert standby_of(placed[process_id(3)]) == ["0_1"]


def test_standbys_spread_over_client_tags() -> None:
    zones = ("1", "1", "2", "3")
    four = tuple(Process(n, 2, tags={"az": zone}) for n, zone in enumerate(zones, 1))
    settings = AssignmentConfigs(num_standby_replicas=2, rack_aware_assignment_tags=("az",))
    state = Application(stateful=(1,)).state(*four, configs=settings)
    placed = by_process(assigned(1, active=("0_0",)))
    default_standby_task_assignment(state, placed)
    assert list(placed) == [process_id(n) for n in (1, 2, 3, 4)]
    assert [standby_of(a) for a in placed.values()] == [[], [], ["0_0"], ["0_0"]]
    assert active_of(placed[process_id(1)]) == ["0_0"]


def test_standbys_go_by_load_and_to_stateful_tasks_only() -> None:
    five = tuple(Process(n, 5) for n in range(1, 6))
    state = Application(stateful=(1,), stateless=(5,)).state(*five, configs=AssignmentConfigs(num_standby_replicas=3))
    placed = by_process(assigned(1, ("0_0", "1_0", "1_1")), assigned(2, ("1_2", "1_3", "1_4")))
    default_standby_task_assignment(state, placed)
    assert [standby_of(a) for a in placed.values()] == [[], [], ["0_0"], ["0_0"], ["0_0"]]
    assert active_of(placed[process_id(2)]) == ["1_2", "1_3", "1_4"]


def test_standbys_are_fewer_where_processes_run_out_and_tasks_nobody_runs_get_some_too() -> None:
    settings = AssignmentConfigs(num_standby_replicas=2, rack_aware_assignment_tags=("az",))
    state = Application(stateful=(2,)).state(Process(1, tags={"az": "1"}), Process(2), configs=settings)
    placed = by_process(assigned(1, active=("0_0",)))
    default_standby_task_assignment(state, placed)
    assert [standby_of(a) for a in placed.values()] == [["0_1"], ["0_0", "0_1"]]


def test_identity_is_what_processes_reported() -> None:
    state = Application(stateful=(2,), stateless=(1,)).state(
        Process(1, active=("0_0", "1_0")), Process(2, active=("0_1",), standby=("0_0",)), Process(3)
    )
    placed = identity_assignment(state)
    assert [active_of(a) for a in placed.values()] == [["0_0", "1_0"], ["0_1"], []]
    assert [standby_of(a) for a in placed.values()] == [[], ["0_0"], []]
    assert validate_task_assignment(state, TaskAssignment(placed.values())) is AssignmentError.NONE


def test_identity_leaves_a_process_without_the_tasks_of_another_that_left() -> None:
    state = Application(stateful=(2,)).state(Process(1, active=("0_0",)))
    error = validate_task_assignment(state, TaskAssignment(identity_assignment(state).values()))
    assert error is AssignmentError.ACTIVE_TASK_NOT_ASSIGNED


def test_identity_lets_active_win_where_a_task_was_reported_in_both_roles() -> None:
    state = Application(stateful=(1,)).state(Process(1, active=("0_0",), standby=("0_0",)))
    assert active_of(identity_assignment(state)[process_id(1)]) == ["0_0"]


def test_active_cost_ignores_changelogs() -> None:
    """Shipped Java counts the changelog as well, so there a task is drawn to a rack from which it reads nothing."""
    everywhere = {"0_0": ("r1", "r2"), "0_1": ("r1", "r2")}
    state = Application(stateful=(2,), racks=everywhere).state(*RACKED, configs=configs())
    crossed = CROSSED.view(*RACKED).tasks
    mixed = replace(
        state.view.tasks, changelog_signature=crossed.changelog_signature, changelog_remote=crossed.changelog_remote
    )
    state.view = replace(state.view, tasks=mixed)
    placed = by_process(assigned(1, ("0_0",)), assigned(2, ("0_1",)))
    optimize_rack_aware_active_tasks(RackAwareOptimizationParams.of(state), placed)
    assert [active_of(a) for a in placed.values()] == [["0_0"], ["0_1"]]


def test_stock_costs_apply_where_none_are_configured() -> None:
    """Shipped Java does nothing then."""
    state = CROSSED.state(*RACKED, configs=configs())
    everything = RackAwareOptimizationParams.of(state)
    assert everything.costs == (10, 1)
    assert everything.with_traffic_cost_override(3).costs == (3, 1)
    assert everything.with_non_overlap_cost_override(0).costs == (10, 0)
    chosen = RackAwareOptimizationParams.of(
        CROSSED.state(*RACKED, configs=configs(rack_aware_traffic_cost=5, rack_aware_non_overlap_cost=6))
    )
    assert chosen.costs == (5, 6)
    assert chosen.with_traffic_cost_override(0).costs == (0, 6)
    stateless = Application(stateless=(2,)).state(*RACKED, configs=configs(rack_aware_traffic_cost=5))
    assert RackAwareOptimizationParams.of(stateless).costs == (1, 0)
    for change in (everything.with_traffic_cost_override, everything.with_non_overlap_cost_override):
        with pytest.raises(ValueError, match="cost must not be negative, but it is -1"):
            change(-1)


def test_a_traffic_cost_of_zero_moves_nothing() -> None:
    state = CROSSED.state(*RACKED, configs=configs())
    placed = by_process(assigned(1, ("0_0",)), assigned(2, ("0_1",)))
    params = RackAwareOptimizationParams.of(state).with_traffic_cost_override(0).with_non_overlap_cost_override(1)
    optimize_rack_aware_active_tasks(params, placed)
    assert [active_of(a) for a in placed.values()] == [["0_0"], ["0_1"]]


def test_only_the_chosen_tasks_move() -> None:
    racks = {"0_0": ("r2",), "0_1": ("r1",), "1_0": ("r2",), "1_1": ("r1",)}
    app = Application(stateful=(2,), stateless=(2,), racks=racks)
    state = app.state(*RACKED, configs=configs())
    everything = RackAwareOptimizationParams.of(state)
    assert everything.for_stateful_tasks().tasks_to_optimize == tasks("0_0", "0_1")
    assert everything.for_stateless_tasks().tasks_to_optimize == tasks("1_0", "1_1")
    assert everything.for_tasks({task("1_1"), task("0_0")}).tasks_to_optimize == tasks("0_0", "1_1")
    with pytest.raises(UnknownTaskError, match="task 7_7 is not a task of app"):
        everything.for_tasks([TaskId(7, 7)])
    placed = by_process(assigned(1, ("0_0", "1_0")), assigned(2, ("0_1", "1_1")))
    optimize_rack_aware_active_tasks(everything.for_stateless_tasks(), placed)
    assert [active_of(a) for a in placed.values()] == [["0_0", "1_1"], ["0_1", "1_0"]]


def test_only_the_chosen_standbys_move() -> None:
    racks = {"0_0": ("r2",), "0_1": ("r3",), "1_0": ("r2",), "1_1": ("r3",)}
    three = (Process(1, 1, "r1"), Process(2, 1, "r2"), Process(3, 1, "r3"))
    state = Application(stateful=(2, 2), racks=racks).state(*three, configs=configs(num_standby_replicas=1))
    every = ("0_0", "0_1", "1_0", "1_1")
    placed = by_process(assigned(1, every), assigned(2, (), ("0_1", "1_1")), assigned(3, (), ("0_0", "1_0")))
    optimize_rack_aware_standby_tasks(RackAwareOptimizationParams.of(state).for_tasks(tasks("1_0", "1_1")), placed)
    assert [standby_of(a) for a in placed.values()] == [[], ["0_1", "1_0"], ["0_0", "1_1"]]


def test_an_active_task_that_lands_on_its_standby_changes_places_with_it() -> None:
    state = CROSSED.state(*RACKED, configs=configs())
    placed = by_process(assigned(1, ("0_0",), ("0_1",)), assigned(2, ("0_1",), ("0_0",)))
    optimize_rack_aware_active_tasks(RackAwareOptimizationParams.of(state), placed)
    assert [active_of(a) for a in placed.values()] == [["0_1"], ["0_0"]]
    assert [standby_of(a) for a in placed.values()] == [["0_0"], ["0_1"]]


def test_tags_hold_standbys_where_they_are() -> None:
    """Shipped Java compares the source with itself, so there tags never stop a move."""
    app = Application(stateful=(2,), racks={"0_0": ("r2",), "0_1": ("r3",)})
    tags = ({"az": "1"}, {"az": "1"}, {"az": "2"})
    three = tuple(Process(n, 2, f"r{n}", tag) for n, tag in enumerate(tags, 1))
    tagged = configs(num_standby_replicas=1, rack_aware_assignment_tags=("az",))
    for settings, expected in ((tagged, [[], ["0_1"], ["0_0"]]), (configs(), [[], ["0_0"], ["0_1"]])):
        state = app.state(*three, configs=settings)
        placed = by_process(assigned(1, ("0_0", "0_1")), assigned(2, (), ("0_1",)), assigned(3, (), ("0_0",)))
        optimize_rack_aware_standby_tasks(RackAwareOptimizationParams.of(state), placed)
        assert [standby_of(a) for a in placed.values()] == expected


@pytest.mark.parametrize("off", ["no strategy", "a process without a rack", "a partition without a rack"])
def test_without_racks_nothing_moves(off: str) -> None:
    app = replace(CROSSED, racks={"0_0": ("r2",)}) if off == "a partition without a rack" else CROSSED
    pair = (Process(1, rack="r1"), Process(2)) if off == "a process without a rack" else RACKED
    state = app.state(*pair, configs=configs("none" if off == "no strategy" else "min_traffic"))
    placed = by_process(assigned(1, ("0_0",), ("0_1",)), assigned(2, ("0_1",), ("0_0",)))
    optimize_rack_aware_active_tasks(RackAwareOptimizationParams.of(state), placed)
    optimize_rack_aware_standby_tasks(RackAwareOptimizationParams.of(state), placed)
    assert [active_of(a) for a in placed.values()] == [["0_0"], ["0_1"]]


def test_standbys_need_the_racks_of_changelogs_and_active_tasks_do_not() -> None:
    state = CROSSED.state(*RACKED, configs=configs(num_standby_replicas=1))
    state.view = replace(state.view, tasks=replace(state.view.tasks, changelog_racks_known=False))
    placed = by_process(assigned(1, (), ("0_0",)), assigned(2, (), ("0_1",)))
    optimize_rack_aware_standby_tasks(RackAwareOptimizationParams.of(state), placed)
    assert [standby_of(a) for a in placed.values()] == [["0_0"], ["0_1"]]
    placed = by_process(assigned(1, ("0_0",)), assigned(2, ("0_1",)))
    optimize_rack_aware_active_tasks(RackAwareOptimizationParams.of(state), placed)
    assert [active_of(a) for a in placed.values()] == [["0_1"], ["0_0"]]


def test_what_the_application_lacks_is_refused() -> None:
    state = CROSSED.state(*RACKED, configs=configs())
    with pytest.raises(InvalidAssignmentError, match=r"process in the assignment is not of this application.*0009"):
        optimize_rack_aware_active_tasks(RackAwareOptimizationParams.of(state), by_process(assigned(9)))
    with pytest.raises(InvalidAssignmentError, match="task in the assignment is not of this application: 8_8"):
        default_standby_task_assignment(state, by_process(assigned(1, ("8_8",))))


def test_deadlines_and_objects_stay() -> None:
    state = CROSSED.state(*RACKED, configs=configs())
    first = assigned(1, ("0_0",)).with_followup_rebalance(5)
    placed = by_process(first, assigned(2, ("0_1",)))
    optimize_rack_aware_active_tasks(RackAwareOptimizationParams.of(state), placed)
    assert placed[process_id(1)] is first
    assert (first.followup_rebalance_deadline_ms, active_of(first)) == (5, ["0_1"])
