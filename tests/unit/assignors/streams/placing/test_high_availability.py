"""HighAvailability: placement, balance, ranking (after what Kafka's HighAvailabilityTaskAssignorTest checks)."""

import numpy as np
import pytest

from bellwether_kafka.assignors.streams.application import (
    LATEST_OFFSET,
    PINNED,
    UNKNOWN_OFFSET_SUM,
    AssignmentConfigs,
    StreamsPlan,
    TaskLags,
)
from bellwether_kafka.assignors.streams.placing import assign_high_availability, deal
from bellwether_kafka.assignors.streams.policies import STREAMS_HA, assign_streams
from bellwether_kafka.protocol.primitives import ProcessId
from tests.kit.streams_views import Application, Instance, actives, process_id, standbys

ALL_LAGS = AssignmentConfigs(acceptable_recovery_lag=100, max_warmup_replicas=2)


def fresh(subtopologies: list[tuple[int, int | None]], threads: list[int]) -> Application:
    application = Application(subtopologies)
    application.instances = [Instance(process_id(n + 1), capacity) for n, capacity in enumerate(threads)]
    return application


def plan_of(application: Application, configs: AssignmentConfigs = ALL_LAGS) -> StreamsPlan:
    return assign_high_availability(application.view(), configs)


def test_tasks_go_round_robin_over_processes_in_java_s_order() -> None:
    """Ids are two signed numbers: 8000… comes before 0000…."""
    application = Application([(4, 1000)])
    application.instances = [Instance(ProcessId(0, 0)), Instance(ProcessId(-(2**63), 0))]
    view = application.view()
    assert view.processes[0].process_id == ProcessId(-(2**63), 0)
    assert assign_high_availability(view, ALL_LAGS).active.tolist() == [0, 1, 0, 1]


def test_subtopologies_follow_on_without_a_gap() -> None:
    plan = plan_of(fresh([(3, 1000), (3, 1000)], [1, 1]))
    assert actives(plan, 2) == [[0, 2, 4], [1, 3, 5]]


@pytest.mark.parametrize(
    ("threads", "counts"),
    [([1, 2, 3], [2, 4, 6]), ([1, 1, 1], [4, 4, 4]), ([5, 1], [10, 2]), ([1, 5], [2, 10]), ([1, 100], [1, 11])],
)
def test_actives_are_balanced_by_threads(threads: list[int], counts: list[int]) -> None:
    plan = plan_of(fresh([(12, 1000)], threads))
    assert [len(tasks) for tasks in actives(plan, len(threads))] == counts


def test_more_threads_than_tasks() -> None:
    plan = plan_of(fresh([(2, 1000)], [3, 3, 3]))
    assert [len(tasks) for tasks in actives(plan, 3)] == [1, 1, 0]


def test_a_caught_up_task_stays_with_its_owner_while_another_warms_up() -> None:
    """Nine tasks run on the first process; the second lags by 10 (acceptable is 11), the third by everything."""
    application = fresh([(9, 1_000_000)], [1, 1, 1])
    first, second, _ = application.instances
    first.lags = dict.fromkeys(range(9), LATEST_OFFSET)
    first.active = list(range(9))
    second.lags = dict.fromkeys(range(9), 10)
    second.standby = list(range(9))
    configs = AssignmentConfigs(acceptable_recovery_lag=11, max_warmup_replicas=2, num_standby_replicas=1)
    plan = plan_of(application, configs)
    copies = [len(a) + len(s) for a, s in zip(actives(plan, 3), standbys(plan, 3), strict=True)]
    assert copies == [9, 9, 2]
    assert actives(plan, 3)[2] == []
    assert plan.probing


def test_standbys_are_never_beside_their_active_task() -> None:
    plan = plan_of(fresh([(6, 1000)], [1, 1, 1]), AssignmentConfigs(num_standby_replicas=2))
    holders = [{int(plan.active[t]), *plan.standby_process[plan.standby_task == t].tolist()} for t in range(6)]
    assert holders == [{0, 1, 2}] * 6


def test_fewer_standbys_than_asked_for_are_noted() -> None:
    plan = plan_of(fresh([(6, 1000)], [1, 1]), AssignmentConfigs(num_standby_replicas=2))
    assert len(plan.standby_task) == 6
    assert plan.notes == ("6 tasks have fewer than 2 standbys, because there are too few processes (first: 0_0)",)


def test_stateless_tasks_have_no_standbys_and_fill_up_the_least_loaded() -> None:
    plan = plan_of(fresh([(3, 1000), (5, None)], [1, 1]), AssignmentConfigs(num_standby_replicas=1))
    assert set(plan.standby_task.tolist()) == {0, 1, 2}
    assert [len(tasks) for tasks in actives(plan, 2)] == [4, 4]


def test_only_stateless_tasks() -> None:
    plan = plan_of(fresh([(5, None)], [1, 4]))
    assert [len(tasks) for tasks in actives(plan, 2)] == [1, 4]
    assert not plan.probing


def test_no_tasks_at_all() -> None:
    plan = plan_of(fresh([], [1, 1]))
    assert len(plan.active) == 0
    assert not plan.probing


@pytest.mark.parametrize("policy", ["kafka", STREAMS_HA, "sticky"])
def test_no_processes_at_all(policy: str) -> None:
    plan = assign_streams(Application([(3, 1000), (2, None)]).view(), ALL_LAGS, policy)
    assert plan.active.tolist() == [-1] * 5


def test_any_lag_is_fine_if_the_acceptable_lag_is_the_greatest_number() -> None:
    application = fresh([(4, 1_000_000)], [1, 1])
    application.instances[0].lags = dict.fromkeys(range(4), LATEST_OFFSET)
    plan = plan_of(application, AssignmentConfigs(acceptable_recovery_lag=PINNED))
    assert [len(tasks) for tasks in actives(plan, 2)] == [2, 2]
    assert not plan.probing


def test_small_changelogs_count_as_caught_up_everywhere() -> None:
    application = fresh([(4, 100)], [1, 1])
    application.instances[0].lags = dict.fromkeys(range(4), LATEST_OFFSET)
    assert [len(tasks) for tasks in actives(plan_of(application), 2)] == [2, 2]


def test_at_most_so_many_tasks_warm_up_at_once() -> None:
    application = fresh([(10, 1000)], [1, 1])
    application.instances[0].lags = dict.fromkeys(range(10), LATEST_OFFSET)
    plan = plan_of(application, AssignmentConfigs(acceptable_recovery_lag=100, max_warmup_replicas=3))
    assert actives(plan, 2) == [list(range(10)), []]
    assert plan.standby_task.tolist() == [1, 3, 5]
    assert plan.warmup.all()
    assert plan.probing


class TestLags:
    def lags(self, mine: dict[int, int], theirs: dict[int, int]) -> TaskLags:
        application = fresh([(2, 1000)], [1, 1, 1])
        application.instances[0].lags = mine
        application.instances[2].lags = theirs
        return TaskLags.of(application.view(), 100)

    def test_what_is_not_reported_is_all_to_be_restored(self) -> None:
        lags = self.lags({0: 7}, {})
        at = lags.at(np.array([0, 0, 1], dtype=np.int32), np.array([0, 1, 0], dtype=np.int32))
        assert at.tolist() == [7, 1000, 1000]

    def test_who_has_caught_up(self) -> None:
        lags = self.lags({0: 101, 1: 100}, {0: LATEST_OFFSET, 1: UNKNOWN_OFFSET_SUM})
        assert lags.caught_up(0) == [2]
        assert lags.caught_up(1) == [0]
        assert lags.caught_count.tolist() == [1, 1]

    def test_everybody_has_caught_up_on_little(self) -> None:
        application = fresh([(1, 100)], [1, 1, 1])
        application.instances[1].lags = {0: UNKNOWN_OFFSET_SUM}
        lags = TaskLags.of(application.view(), 100)
        assert lags.caught_up(0) == [0, 2]
        assert lags.caught_count.tolist() == [2]

    def test_who_is_behind(self) -> None:
        lags = self.lags({0: 500}, {0: 200})
        tasks, processes = np.array([0, 0, 0, 1], dtype=np.int32), np.array([0, 1, 2, 0], dtype=np.int32)
        assert lags.behind(tasks, processes).tolist() == [True, True, False, False]

    def test_unknown_lags_come_first_and_never_count_as_caught_up(self) -> None:
        lags = self.lags({0: UNKNOWN_OFFSET_SUM}, {0: 200})
        assert lags.least.tolist() == [UNKNOWN_OFFSET_SUM, 1000]
        assert lags.first_before(0, 1, lambda _: True) == 0
        assert lags.first_before(0, 2, lambda p: p != 0) is None

    def test_processes_that_lag_alike_come_in_order(self) -> None:
        lags = self.lags({}, {0: 500})
        assert lags.first_before(0, 1, lambda p: p != 2) == 0
        assert lags.first_before(0, 1, lambda p: p != 2, closer=True) is None
        assert lags.first_before(0, 1, lambda _: True, closer=True) == 2

    def test_usable_state(self) -> None:
        lags = self.lags({0: 1000, 1: 999}, {0: LATEST_OFFSET, 1: UNKNOWN_OFFSET_SUM})
        assert lags.state_of(0) == {1: 999}
        assert lags.state_of(2) == {0: LATEST_OFFSET}
        assert lags.holders(0) == [(LATEST_OFFSET, 2)]


class TestDeal:
    def one_by_one(self, counts: list[int], capacity: list[int], tasks: int) -> list[int]:
        counts, dealt = list(counts), []
        for _ in range(tasks):
            process = min(range(len(counts)), key=lambda p: (counts[p] / capacity[p], p))
            counts[process] += 1
            dealt.append(process)
        return dealt

    @pytest.mark.parametrize(
        ("counts", "capacity"),
        [([0, 0, 0], [1, 1, 1]), ([5, 0, 1], [1, 2, 3]), ([3, 3], [7, 1]), ([0, 40], [1, 9]), ([2], [4])],
    )
    @pytest.mark.parametrize("tasks", [1, 2, 7, 100])
    def test_dealing_at_once_is_dealing_one_by_one(self, counts: list[int], capacity: list[int], tasks: int) -> None:
        dealt = deal(np.array(counts, dtype=np.int64), np.array(capacity, dtype=np.int32), tasks)
        assert dealt.tolist() == self.one_by_one(counts, capacity, tasks)
