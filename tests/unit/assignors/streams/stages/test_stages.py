"""Each stage on a small application: what it does, what it must not do, and what it says about it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from bellwether_kafka.assignors.shared import NOBODY, IntArray, Rule, StageReport
from bellwether_kafka.assignors.streams.application import (
    LATEST_OFFSET,
    AssignmentConfigError,
    AssignmentConfigs,
    StreamsPlan,
    StreamsView,
    TaskLags,
)
from bellwether_kafka.assignors.streams.placing import quotas
from bellwether_kafka.assignors.streams.policies import STREAMS_HA, assign_streams
from bellwether_kafka.assignors.streams.stages import StageConfigs, last_copies
from bellwether_kafka.assignors.streams.stages.chain import RackTraffic, TaskProblem, run
from bellwether_kafka.assignors.streams.stages.rules import _named
from bellwether_kafka.assignors.streams.stages.steps import MoveBudget, choose
from tests.kit.streams_views import RACKS, Application, Instance, process_id

CONFIGS = AssignmentConfigs(acceptable_recovery_lag=100)
Shape = Sequence[tuple[int, int | None]]


def running(shape: Shape, owned: Sequence[Sequence[int]], tags: Sequence[Mapping[str, str]] = ()) -> Application:
    """Processes that run these tasks, whole. `shape`: tasks and end sum of each subtopology."""
    application = Application(shape)
    stateful = application.table().stateful
    for number, tasks in enumerate(owned):
        lags = {task: LATEST_OFFSET for task in tasks if stateful[task]}
        mine = tags[number] if tags else {}
        application.instances.append(Instance(process_id(number + 1), tags=mine, lags=lags, active=list(tasks)))
    return application


def with_copies(application: Application) -> Application:
    """Everybody has a whole copy of whatever others run."""
    for instance in application.instances:
        instance.lags = {t: LATEST_OFFSET if t in instance.active else 0 for t in range(application.table().size)}
    return application


def plan_of(application: Application, stages: StageConfigs, home: Mapping[int, int] | None = None) -> StreamsPlan:
    view = application.view()
    homes = np.full(view.tasks.size, NOBODY, dtype=np.int32)
    homes[list(home or {})] = list((home or {}).values())
    return assign_streams(replace(view, home=homes), CONFIGS, STREAMS_HA, stages)


def report_of(plan: StreamsPlan, name: str) -> StageReport:
    return next(report for report in plan.stages if report.stage.startswith(name))


class TestHostAffinity:
    ON = StageConfigs(host_affinity_ms=60_000)

    def returned(self) -> Application:
        """The second process ran 2 and 3, is back with nearly all of their state, and with a fresher copy of 0."""
        application = running([(4, 100_000)], [[0, 1, 2, 3], []])
        application.instances[1].lags = {0: 10, 1: 20, 2: 50, 3: 60}
        return application

    def test_a_process_that_is_back_gets_back_what_it_had(self) -> None:
        assert plan_of(self.returned(), StageConfigs()).active.tolist() == [1, 1, 0, 0]
        plan = plan_of(self.returned(), self.ON, {2: 1, 3: 1})
        assert plan.active.tolist() == [0, 0, 1, 1]
        assert report_of(plan, "host affinity").after == 0

    def test_its_warm_ups_come_first(self) -> None:
        """Two warm-ups are allowed and three processes want some: those of the one that is back are reserved."""
        application = running([(6, 100_000)], [[0, 1, 2, 3, 4, 5], [], []])
        application.instances[2].lags = {4: 5000, 5: 5000}
        plan = plan_of(application, self.ON, {4: 2, 5: 2})
        assert plan.standby_task[plan.warmup].tolist() == [4, 5]
        assert plan.standby_process[plan.warmup].tolist() == [2, 2]
        assert plan.active.tolist() == [0] * 6, "every task goes on running meanwhile"

    def test_while_it_is_away_others_run_its_tasks(self) -> None:
        application = running([(4, 100_000)], [[0], [1]])
        plan = plan_of(application, self.ON, {2: NOBODY, 3: NOBODY})
        assert (plan.active != NOBODY).all()
        assert np.bincount(plan.active).tolist() == [2, 2]

    def test_balance_goes_before_home(self) -> None:
        """All four tasks have their home on the second process, which gets no more than its half for it."""
        application = self.returned()
        plan = plan_of(application, self.ON, dict.fromkeys(range(4), 1))
        assert np.bincount(plan.active).tolist() == [2, 2]
        assert report_of(plan, "host affinity").after == 2


class TestCoLocation:
    ON = StageConfigs(colocate=((0, 1),))

    def test_tasks_of_one_partition_share_a_process(self) -> None:
        plan = plan_of(with_copies(running([(2, 100), (2, 100)], [[0, 3], [1, 2]])), self.ON)
        assert plan.active.tolist() == [0, 1, 0, 1]
        report = report_of(plan, "co-location")
        assert (report.before, report.after, report.taken) == (2, 0, True)
        assert "from 2 to 0 with 2 tasks" in report.reason

    def test_stateless_tasks_follow_stateful_ones_whatever_the_order_of_the_group(self) -> None:
        application = running([(2, None), (2, 100)], [[0, 3], [1, 2]])
        plan = plan_of(application, self.ON)
        assert plan.active.tolist() == [1, 0, 1, 0]

    def test_partitions_that_the_anchor_has_not_are_free(self) -> None:
        application = running([(1, 100), (3, 100)], [[0, 1], [2, 3]])
        assert plan_of(application, self.ON).active.tolist() == [0, 0, 1, 1]

    def test_unknown_subtopologies_are_named(self) -> None:
        plan = plan_of(running([(2, 100)], [[0], [1]]), StageConfigs(colocate=((0, 7), (1, 9))))
        assert plan.notes == ("colocate names subtopologies that the application does not have: 1, 7, 9",)

    def test_rack_traffic_is_not_given_up_for_it(self) -> None:
        """Each process is in the only rack that has its partitions: to exchange them would cost."""
        application = running([(2, 100), (2, 100)], [[0, 3], [1, 2]])
        application.replicas = [1, 0, 0, 1]  # the rack that lacks the task
        for number, instance in enumerate(application.instances):
            instance.rack = RACKS[number]
        configs = AssignmentConfigs(acceptable_recovery_lag=100, rack_aware_assignment_strategy="min_traffic")
        plan = assign_streams(application.view(), configs, STREAMS_HA, self.ON)
        assert plan.active.tolist() == [0, 1, 1, 0]


class TestCapacity:
    ON = StageConfigs(capacity_tag="cores")

    def cores(self, *numbers: str) -> list[dict[str, str]]:
        return [{"cores": number} for number in numbers]

    def test_weights_weigh_instead_of_threads(self) -> None:
        plan = plan_of(running([(8, 0)], [[], [], []], self.cores("1", "2", "5")), self.ON)
        assert np.bincount(plan.active).tolist() == [1, 2, 5]
        assert report_of(plan, "capacity").after == 0

    def test_only_what_must_move_moves(self) -> None:
        application = running([(6, 0)], [[0, 1, 2], [3, 4, 5]], self.cores("1", "2"))
        assert plan_of(application, self.ON).active.tolist() == [1, 0, 0, 1, 1, 1]

    def test_stateless_tasks_make_up_for_stateful_ones(self) -> None:
        plan = plan_of(running([(3, 0), (3, None)], [[], []], self.cores("1", "2")), self.ON)
        assert np.bincount(plan.active[:3]).tolist() == [1, 2]
        assert np.bincount(plan.active).tolist() == [2, 4]

    @pytest.mark.parametrize("odd", ["", "0", "-1", "2.5", "many", "4294967296", "²"])
    def test_threads_weigh_as_long_as_one_process_has_no_usable_tag(self, odd: str) -> None:
        plan = plan_of(running([(8, 0)], [[], []], self.cores("7", odd)), self.ON)
        assert np.bincount(plan.active).tolist() == [4, 4]
        assert "threads weigh instead of the client tag cores" in plan.notes[0]
        assert not report_of(plan, "capacity").taken

    def test_quotas_are_exact_shares_rounded(self) -> None:
        none = np.zeros(3, dtype=np.int64)
        weight = np.array([1, 1, 2], dtype=np.int32)
        assert quotas(7, weight, none, none).tolist() == [2, 2, 3]
        assert quotas(7, weight, np.array([0, 0, 4]), none).tolist() == [2, 1, 4], "who has more keeps it"
        assert quotas(7, weight, none, np.array([3, 0, 0])).tolist() == [3, 1, 3], "who must have more gets it"
        assert quotas(0, weight, none, none).tolist() == [0, 0, 0]


class TestMovesBudget:
    def test_so_many_tasks_move_at_once_and_the_rest_waits(self) -> None:
        application = running([(6, None)], [[0, 1, 2, 3, 4, 5], []])
        plan = plan_of(application, StageConfigs(max_concurrent_moves=2))
        assert np.bincount(plan.active).tolist() == [4, 2]
        assert (plan.deferred, plan.probing) == (1, True)
        assert report_of(plan, "moves budget, stateless").before == 1

    def test_stateful_tasks_go_first(self) -> None:
        application = running([(2, 0), (2, None)], [[0, 1, 2, 3], []])
        application.instances[1].lags = {0: 0, 1: 0}
        plan = plan_of(application, StageConfigs(max_concurrent_moves=1))
        moved = np.flatnonzero(plan.active == 1).tolist()
        assert len(moved) == 1
        assert moved[0] < 2

    def test_tasks_that_nobody_runs_are_placed_whatever_the_budget(self) -> None:
        plan = plan_of(running([(6, None)], [[], []]), StageConfigs(max_concurrent_moves=1))
        assert np.bincount(plan.active).tolist() == [3, 3]
        assert (plan.deferred, plan.probing) == (0, False)

    def test_an_exchange_that_no_rebalance_can_make_is_given_up_and_reported(self) -> None:
        application = with_copies(running([(2, 100), (2, 100)], [[0, 3], [1, 2]]))
        plan = plan_of(application, StageConfigs(colocate=((0, 1),), max_concurrent_moves=1))
        assert plan.active.tolist() == [0, 1, 1, 0]
        assert (plan.deferred, plan.probing) == (0, False)
        assert "2 stateful tasks stay where they are" in plan.notes[0]


def test_policy_kafka_knows_no_stages() -> None:
    application = running([(4, 0)], [[], []], [{"cores": "1"}, {"cores": "3"}])
    plan = assign_streams(application.view(), CONFIGS, "kafka", StageConfigs(capacity_tag="cores"))
    assert np.bincount(plan.active).tolist() == [2, 2]
    assert plan.stages == ()


class Wild:
    """A stage that is nobody's friend."""

    name = "wild"
    delays = False

    def __init__(self, owner: list[int]) -> None:
        self.owner = owner

    def apply(self, problem: TaskProblem, owner: IntArray) -> IntArray:
        return np.array(self.owner, dtype=np.int32)

    def score(self, problem: TaskProblem, owner: IntArray) -> float:
        return float(owner.tolist() != self.owner)


@pytest.mark.parametrize(
    ("owner", "reason"),
    [
        ([0, NOBODY, 1, 1], "Its plan would break the placement."),
        ([0, 2, 1, 1], "Its plan would break the placement."),
        ([0, 0, 1, 0], "Its plan would break the placement."),
        ([0, 0, 0, 1], "Its plan would worsen balance from 0 to 2."),
        ([0, 1, 0, 1], "It went from 1 to 0 with 2 tasks placed anew."),
    ],
)
def test_no_stage_may_break_the_placement_or_the_balance(owner: list[int], reason: str) -> None:
    view: StreamsView = running([(3, 0), (1, None)], [[0, 1], [2, 3]]).view()
    nobody = np.full(4, NOBODY, dtype=np.int32)
    tasks = np.arange(3, dtype=np.int32)
    problem = TaskProblem(view, TaskLags.of(view, 0), tasks, nobody, nobody, racks=False)
    start = np.array([0, 0, 1, 1], dtype=np.int32)
    placed, (report,) = run([Wild(owner)], problem, start)
    assert report.reason == reason
    assert placed.tolist() == (owner if report.taken else start.tolist())


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"host_affinity_ms": -1}, "host_affinity_ms must be 0 to 2147483647, but it is -1"),
        ({"max_concurrent_moves": -3}, "max_concurrent_moves must be 0 to 2147483647, but it is -3"),
        ({"capacity_tag": "x" * 21}, "capacity_tag must be a client tag key of at most 20 characters"),
        ({"colocate": ((0,),)}, r"groups of two or more subtopology ids, but it holds \[0\]"),
        ({"colocate": ((0, 1), (1, 2))}, "each subtopology once and none below 0, but it holds 1 twice"),
        ({"colocate": ((0, -1),)}, "each subtopology once and none below 0, but it holds -1"),
    ],
)
def test_what_cannot_be_meant_is_refused(values: dict[str, object], sentence: str) -> None:
    with pytest.raises(AssignmentConfigError, match=sentence):
        StageConfigs(**values)  # type: ignore[arg-type]  # wrong values are the point


def test_a_path_longer_than_the_budget_begins_with_a_task_that_goes_all_the_way() -> None:
    """The fullest process shall give to the second, and that to the empty one; one move a rebalance is allowed."""
    view = running([(4, 0), (0, None)], [[0, 1, 2], [3], []]).view()
    live = np.array([0, 0, 0, 1], dtype=np.int32)
    nobody = np.full(4, NOBODY, dtype=np.int32)
    problem = TaskProblem(view, TaskLags.of(view, 0), np.arange(4, dtype=np.int32), live, nobody, racks=False)
    wanted = np.array([0, 0, 1, 2], dtype=np.int32)
    assert choose(problem, wanted, 2, 2).now == [2, 3]
    placed, (report,) = run([MoveBudget(1, 1)], problem, wanted)
    assert placed.tolist() == [0, 0, 2, 1]
    assert (report.before, report.after) == (1, 0)


def test_what_the_stages_before_have_used_of_the_budget_is_gone() -> None:
    view = running([(2, 0)], [[0, 1], []]).view()
    live = np.zeros(2, dtype=np.int32)
    nobody = np.full(2, NOBODY, dtype=np.int32)
    problem = TaskProblem(view, TaskLags.of(view, 0), np.arange(2, dtype=np.int32), live, nobody, racks=False)
    wanted = np.array([0, 1], dtype=np.int32)
    assert choose(problem, wanted, 3, 0).waiting == [1]
    assert choose(problem, wanted, 3, 1).now == [1]


class Contrary:
    """A stage that makes its own score worse."""

    name = "contrary"
    delays = False

    def apply(self, problem: TaskProblem, owner: IntArray) -> IntArray:
        return owner[::-1].copy()

    def score(self, problem: TaskProblem, owner: IntArray) -> float:
        return float(owner[0] != 0)


def test_a_plan_that_is_no_better_by_its_own_score_is_not_taken() -> None:
    view = running([(2, 0)], [[0], [1]]).view()
    nobody = np.full(2, NOBODY, dtype=np.int32)
    problem = TaskProblem(view, TaskLags.of(view, 0), np.arange(2, dtype=np.int32), nobody, nobody, racks=False)
    placed, (report,) = run([Contrary()], problem, np.array([0, 1], dtype=np.int32))
    assert placed.tolist() == [0, 1]
    assert (report.taken, report.reason) == (False, "Its plan was no better: 0 to 1.")


def test_rack_traffic_may_not_get_worse() -> None:
    application = Application([(2, 100)], [Instance(process_id(n + 1), rack=RACKS[n]) for n in range(2)], [0, 1])
    view = application.view()
    nobody = np.full(2, NOBODY, dtype=np.int32)
    problem = TaskProblem(view, TaskLags.of(view, 0), np.arange(2, dtype=np.int32), nobody, nobody, racks=True)
    owner = np.array([0, 1], dtype=np.int32)
    assert RackTraffic().score(problem, owner) == 2
    assert run([Wild([1, 0])], problem, owner)[1][0].taken
    assert "worsen rack traffic from 0 to 2" in run([Wild([0, 1])], problem, owner[::-1].copy())[1][0].reason


class TestOperatorRules:
    def test_an_evacuated_process_empties_to_where_the_state_is(self) -> None:
        application = with_copies(running([(4, 100_000)], [[0, 1], [2, 3], []]))
        stages = StageConfigs(rules=(Rule("ban", "*", f"member:{process_id(1)}"),))
        plan = plan_of(application, stages)
        assert 0 not in plan.active.tolist()
        assert np.bincount(plan.active, minlength=3).tolist() == [0, 2, 2]
        assert report_of(plan, "operator's rules").after == 0

    def test_emptying_moves_each_task_once_although_another_process_has_less_to_do(self) -> None:
        application = running([(6, 100_000)], [[0, 1], [2, 3], [4, 5]])
        application.instances[1].lags |= {0: 0, 1: 0}
        plan = plan_of(application, StageConfigs(rules=(Rule("ban", "*", f"member:{process_id(1)}"),)))
        assert plan.active.tolist() == [1, 1, 1, 1, 2, 2]
        assert not plan.warmup.any()
        assert not plan.probing

    def test_tasks_without_state_are_dealt_evenly_beside_those_that_run_where_they_may(self) -> None:
        owned = [[0, 1, 2, 3, 13, 16], [4, 5, 6, 7, 14, 17], [8, 9, 10, 11, 12, 15]]
        application = with_copies(running([(12, 100), (6, None)], owned))
        plan = plan_of(application, StageConfigs(rules=(Rule("ban", "*", f"member:{process_id(1)}"),)))
        assert np.bincount(plan.active[:12], minlength=3).tolist() == [0, 6, 6]
        assert np.bincount(plan.active[12:], minlength=3).tolist() == [0, 3, 3]
        assert plan.active[[14, 17, 12, 15]].tolist() == [1, 1, 2, 2]

    def test_without_state_elsewhere_tasks_run_on_while_they_warm_up(self) -> None:
        application = running([(4, 100_000)], [[0, 1], [2, 3]])
        plan = plan_of(application, StageConfigs(rules=(Rule("ban", "*", f"member:{process_id(1)}"),)))
        assert plan.active.tolist() == [0, 0, 1, 1], "nobody pauses"
        assert plan.standby_process[plan.warmup].tolist() == [1, 1]
        assert plan.probing

    def test_racks_pins_and_subtopologies(self) -> None:
        application = with_copies(running([(2, 100), (2, 100)], [[0, 1], [2, 3]]))
        for number, instance in enumerate(application.instances):
            instance.rack = RACKS[number]
        stages = StageConfigs(rules=(Rule("pin", "1", f"rack:{RACKS[0]}"), Rule("pin", "0_1", f"rack:{RACKS[1]}")))
        assert plan_of(application, stages).active.tolist()[1:] == [1, 0, 0]

    def test_an_applied_plan_places_tasks_among_its_threads_only_and_yields_to_bans(self) -> None:
        application = with_copies(running([(4, 100)], [[0, 1], [2, 3]]))
        threads = frozenset(member for process in application.view().processes for member in process.members)
        owner = (2, 2, 2, 1)
        applied = tuple(Rule("plan", f"0_{t}", f"member:{process_id(n)}", "eve", threads) for t, n in enumerate(owner))
        plan = plan_of(application, StageConfigs(rules=applied))
        assert plan.active.tolist() == [1, 1, 1, 0]
        assert report_of(plan, "operator's rules").orders == "eve"
        others = tuple(replace(rule, among=threads | {"new"}) for rule in applied)
        assert plan_of(application, StageConfigs(rules=others)).active.tolist() == [0, 0, 1, 1]
        ban = Rule("ban", "*", f"member:{process_id(1)}")
        assert plan_of(application, StageConfigs(rules=(*applied, ban))).active.tolist() == [1, 1, 1, 1]

    def test_what_nobody_can_carry_out_is_left_alone(self) -> None:
        application = with_copies(running([(2, 100)], [[0], [1]]))
        rules = (Rule("ban", "*", f"member:{process_id(1)}"), Rule("ban", "*", f"member:{process_id(2)}"))
        plan = plan_of(application, StageConfigs(rules=(*rules, Rule("pin", "0_0", "rack:moon"))))
        assert (plan.active != NOBODY).all()

    def test_what_only_evacuated_processes_have_a_caught_up_copy_of_is_known(self) -> None:
        first, second = (Rule("ban", "*", f"member:{process_id(n)}") for n in (1, 2))
        bare, copied = (running([(4, 100_000)], [[0, 1], [2, 3], []]) for _ in range(2))
        assert last_copies(bare.view(), (first,), 0).tolist() == [0, 1]
        assert last_copies(bare.view(), (first, second), 0).tolist() == [0, 1, 2, 3]
        in_part = replace(first, item="0")
        assert last_copies(bare.view(), (in_part,), 0).tolist() == []
        assert last_copies(with_copies(copied).view(), (first, second), 0).tolist() == []


def test_configs_are_equal_whatever_clock_measures_the_stages() -> None:
    assert StageConfigs(clock=lambda: 1.0) == StageConfigs()
    assert not StageConfigs(clock=lambda: 1.0).any
    assert StageConfigs(max_concurrent_moves=1).any


def test_an_item_that_no_task_can_be_called_rules_nothing() -> None:
    table = Application([(2, None)]).table()
    assert not _named(table, "orders").any()
    assert not _named(table, "0_x").any()
    assert _named(table, "0").all()
