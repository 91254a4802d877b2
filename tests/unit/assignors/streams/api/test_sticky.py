"""The sticky assignor through the plug-in API: the scenes of Kafka's CustomStickyTaskAssignorTest, under each strategy.

What can be checked on every answer (each task active once, no standby beside its active task) is checked by `solve`.
"""

from collections.abc import Sequence
from itertools import combinations

import pytest

from bellwether_kafka.assignors.streams.api import ApplicationState, AssignmentError, TaskAssignment, TaskAssignor
from bellwether_kafka.assignors.streams.application import AssignmentConfigs
from bellwether_kafka.assignors.streams.policies import assign_streams
from tests.unit.assignors.streams.api.api_scenes import (
    Application,
    Process,
    active_of,
    from_plan,
    process_id,
    standby_of,
    validate_task_assignment,
)

STRATEGIES = ("none", "min_traffic", "balance_subtopology")
THREE = Application(stateless=(3,))
Placed = dict[int, tuple[list[str], list[str]]]


@pytest.fixture(params=STRATEGIES)
def strategy(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class HighAvailabilityTaskAssignor(TaskAssignor):
    """KIP-441, as policy `kafka`. Where warm-ups are pending, the first process asks for a rebalance after
    probing.rebalance.interval.ms."""

    policy = "kafka"

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        configs = application_state.assignment_configs
        plan = assign_streams(application_state.view, configs, self.policy)
        placed = list(from_plan(application_state, plan).values())
        if plan.probing and placed:
            deadline_ms = application_state.now_ms + configs.probing_rebalance_interval_ms
            placed[0] = placed[0].with_followup_rebalance(deadline_ms)
        return TaskAssignment(placed)


class StickyTaskAssignor(HighAvailabilityTaskAssignor):
    """KIP-924's StickyTaskAssignor: tasks go back to where they ran, then to where their state is. Never probes."""

    policy = "sticky"


def solve(
    app: Application,
    processes: Sequence[Process],
    strategy: str = "none",
    standbys: int = 0,
    assignor: TaskAssignor | None = None,
) -> Placed:
    """(active tasks, standbys) by process number."""
    configs = AssignmentConfigs(num_standby_replicas=standbys, rack_aware_assignment_strategy=strategy)
    state = app.state(*processes, configs=configs)
    answer = (assignor or StickyTaskAssignor()).assign(state)
    assert validate_task_assignment(state, answer) is AssignmentError.NONE
    by_process = {a.process_id: (active_of(a), standby_of(a)) for a in answer.assignment}
    return {p.number: by_process[process_id(p.number)] for p in processes}


def fresh(count: int, threads: int = 1) -> tuple[Process, ...]:
    return tuple(Process(n, threads) for n in range(1, count + 1))


def test_each_process_gets_a_task_where_there_are_as_many(strategy: str) -> None:
    assert [len(active) for active, _ in solve(THREE, fresh(3), strategy).values()] == [1, 1, 1]


@pytest.mark.parametrize("standbys", [0, 1])
def test_subtopologies_spread_evenly(strategy: str, standbys: int) -> None:
    app = Application(stateful=(3, 3))
    for active, _ in solve(app, fresh(3, threads=2), strategy, standbys).values():
        assert sorted(name[0] for name in active) == ["0", "1"]


def test_running_tasks_stay_wherever_they_run(strategy: str) -> None:
    for first, second in (("0_0", "0_1"), ("0_1", "0_0")):
        placed = solve(THREE, (Process(1, active=(first,)), Process(2, active=(second,))), strategy)
        assert first in placed[1][0]
        assert second in placed[2][0]


def test_a_new_process_takes_a_task_and_the_rest_stays(strategy: str) -> None:
    processes = (Process(1, active=("0_0", "0_2")), Process(2, active=("0_1",)), Process(3))
    placed = solve(THREE, processes, strategy)
    assert [len(active) for active, _ in placed.values()] == [1, 1, 1]
    assert placed[2][0] == ["0_1"]
    assert set(placed[1][0]) < {"0_0", "0_2"}


def test_capacity_counts(strategy: str) -> None:
    assert [len(a) for a, _ in solve(THREE, (Process(1), Process(2, 2)), strategy).values()] == [1, 2]
    many = Application(stateless=(3, 3, 3, 3))
    assert [len(a) for a, _ in solve(many, (Process(1), Process(2, 2)), strategy).values()] == [4, 8]


def test_unequal_subtopologies_split_evenly_and_only_what_must_move_moves(strategy: str) -> None:
    app = Application(stateless=(6, 1))
    every = ("0_0", "0_1", "0_2", "0_3", "0_4", "0_5", "1_0")
    placed = solve(app, (Process(1, active=every), Process(2)), strategy)
    assert sorted(len(active) for active, _ in placed.values()) == [3, 4]


def test_more_processes_than_tasks_move_nothing(strategy: str) -> None:
    for owners in (("0_0", "0_2", "0_1", None, None), (None, None, "0_1", "0_0", "0_2")):
        processes = tuple(Process(n, active=(own,) if own else ()) for n, own in enumerate(owners, 1))
        placed = solve(THREE, processes, strategy)
        assert [active for active, _ in placed.values()] == [[own] if own else [] for own in owners]


def test_orphans_go_to_their_standbys(strategy: str) -> None:
    processes = tuple(Process(n, standby=(name,)) for n, name in enumerate(("0_2", "0_1", "0_0"), 1))
    placed = solve(THREE, processes, strategy)
    assert [active for active, _ in placed.values()] == [["0_2"], ["0_1"], ["0_0"]]


def test_of_two_standbys_the_process_with_more_room_gets_the_task(strategy: str) -> None:
    processes = (Process(1, active=("0_0",), standby=("0_1",)), Process(2, 2, active=("0_2",), standby=("0_1",)))
    placed = solve(THREE, processes, strategy)
    assert [active for active, _ in placed.values()] == [["0_0"], ["0_1", "0_2"]]


def test_standbys_are_away_from_their_active_tasks_and_spread(strategy: str) -> None:
    processes = tuple(Process(n, active=(f"0_{n - 1}",)) for n in range(1, 5))
    placed = solve(Application(stateful=(4,)), processes, strategy, standbys=1)
    assert [active for active, _ in placed.values()] == [["0_0"], ["0_1"], ["0_2"], ["0_3"]]
    assert all(len(standbys) <= 2 for _, standbys in placed.values())
    assert sum(bool(standbys) for _, standbys in placed.values()) >= 3
    assert sorted(name for _, standbys in placed.values() for name in standbys) == ["0_0", "0_1", "0_2", "0_3"]


def test_every_other_process_has_a_standby_where_two_are_asked_for(strategy: str) -> None:
    processes = tuple(Process(n, active=(f"0_{n - 1}",)) for n in range(1, 4))
    placed = solve(Application(stateful=(3,)), processes, strategy, standbys=2)
    assert placed == {1: (["0_0"], ["0_1", "0_2"]), 2: (["0_1"], ["0_0", "0_2"]), 3: (["0_2"], ["0_0", "0_1"])}


def test_a_lone_process_has_no_standby(strategy: str) -> None:
    placed = solve(Application(stateful=(1,)), (Process(1, active=("0_0",)),), strategy, standbys=2)
    assert placed == {1: (["0_0"], [])}


def test_active_tasks_and_standbys_fill_idle_processes(strategy: str) -> None:
    placed = solve(Application(stateful=(3,)), fresh(6), strategy, standbys=1)
    assert all(active or standbys for active, standbys in placed.values())
    assert sum(len(active) for active, _ in placed.values()) == 3
    assert sum(len(standbys) for _, standbys in placed.values()) == 3


def test_only_stateful_tasks_have_standbys(strategy: str) -> None:
    app = Application(stateful=(1,), stateless=(2,))
    placed = solve(app, fresh(4), strategy, standbys=3)
    holders = [number for number, (_, standbys) in placed.items() if standbys == ["0_0"]]
    assert len(holders) == 3
    assert not any("0_0" in placed[number][0] for number in holders)


@pytest.mark.parametrize("owned", [((), (), (), ()), (("0_1", "0_2"), ("0_3",), ("0_0",), ())])
def test_no_two_processes_hold_the_same_tasks(strategy: str, owned: tuple[tuple[str, ...], ...]) -> None:
    processes = tuple(Process(n, active=mine) for n, mine in enumerate(owned, 1))
    placed = solve(Application(stateful=(4,)), processes, strategy, standbys=1)
    for (tasks, _), (two, _) in combinations([(sorted(a + s), n) for n, (a, s) in placed.items()], 2):
        assert tasks != two


def test_racks_pull_tasks_only_as_far_as_costs_say(strategy: str) -> None:
    app = Application(stateful=(2,), racks={"0_0": ("r2",), "0_1": ("r1",)})
    processes = (Process(1, rack="r1", active=("0_0",)), Process(2, rack="r2", active=("0_1",)))
    assert solve(app, processes, strategy) == {1: (["0_0"], []), 2: (["0_1"], [])}


@pytest.mark.slow
def test_a_thousand_tasks_on_a_hundred_processes_in_thirty_racks(strategy: str) -> None:
    racks = {f"{i}_{j}": (f"rack-{(i * j) % 31}",) for i in range(10) for j in range(100)}
    processes = tuple(Process(n, 50, rack=f"rack-{n % 31}") for n in range(1, 101))
    placed = solve(Application(stateful=(100,) * 10, racks=racks), processes, strategy, standbys=2)
    assert sum(len(active) for active, _ in placed.values()) == 1000
    assert sum(len(standbys) for _, standbys in placed.values()) == 2000


def test_high_availability_is_there_too_and_asks_for_a_probing_rebalance() -> None:
    app = Application(stateful=(2,))
    processes = (Process(1, active=("0_0", "0_1")), Process(2, lags={}))
    configs = AssignmentConfigs(acceptable_recovery_lag=10)
    state = app.state(*processes, configs=configs, now_ms=1000)
    answer = HighAvailabilityTaskAssignor().assign(state)
    first, second = answer.assignment
    assert (active_of(first), standby_of(second)) == (["0_0", "0_1"], ["0_1"])
    assert first.followup_rebalance_deadline_ms == 1000 + configs.probing_rebalance_interval_ms
    assert second.followup_rebalance_deadline_ms is None
    settled = HighAvailabilityTaskAssignor().assign(app.state(Process(1, active=("0_0",)), Process(2, active=("0_1",))))
    assert [a.followup_rebalance_deadline_ms for a in settled.assignment] == [None, None]
