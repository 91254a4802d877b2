"""The policy streams-ha: stays where it is balanced, evens out subtopologies, prefers warm processes."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from bellwether_kafka.assignors.streams.application import LATEST_OFFSET, AssignmentConfigs, StreamsPlan, TaskLags
from bellwether_kafka.assignors.streams.placing import Evener
from bellwether_kafka.assignors.streams.policies import STREAMS_HA, assign_fallback_prior, assign_streams
from bellwether_kafka.assignors.streams.policies.assign import UnknownPolicyError
from tests.kit.streams_views import RACKS, Application, Instance, actives, process_id, random_process_id
from tests.seeds import seeds

CONFIGS = AssignmentConfigs(acceptable_recovery_lag=100)


def running(subtopologies: list[tuple[int, int | None]], owned: list[list[int]], threads: int = 1) -> Application:
    """Processes that run these tasks, caught up."""
    application = Application(subtopologies)
    stateful = application.table().stateful
    for number, tasks in enumerate(owned, start=1):
        lags = {task: LATEST_OFFSET for task in tasks if stateful[task]}
        application.instances.append(Instance(process_id(number), threads, lags=lags, active=list(tasks)))
    return application


def plan_of(application: Application, configs: AssignmentConfigs = CONFIGS) -> StreamsPlan:
    return assign_streams(application.view(), configs, STREAMS_HA)


def test_a_balanced_group_stays_as_it_is_however_odd() -> None:
    owned = [[1, 4, 9], [0, 5, 6], [2, 3, 7, 8]]
    plan = plan_of(running([(3, 1000), (3, 1000), (4, None)], owned))
    assert actives(plan, 3) == [sorted(tasks) for tasks in owned]
    assert not plan.probing


@pytest.mark.parametrize("replicas", [0, 1])
def test_adopting_a_group_that_java_led_moves_nothing(replicas: int) -> None:
    """Also the other way round: a Java leader that follows on streams-ha's plan has nothing to move."""
    configs = AssignmentConfigs(num_standby_replicas=replicas)
    for seed in range(20):
        random = Random(seed)
        application = Application([(random.randint(1, 9), random.choice([None, 1_000_000])) for _ in range(4)])
        application.instances = [Instance(random_process_id(random)) for _ in range(random.randint(1, 6))]
        java = assign_streams(application.view(), configs, "kafka")
        application.settle(java)
        own = assign_streams(application.view(), configs, STREAMS_HA)
        assert (own.active == java.active).all()
        assert (own.standby_process == java.standby_process).all()
        assert not own.probing
        application.settle(own)
        assert (assign_streams(application.view(), configs, "kafka").active == java.active).all()


def test_only_what_must_move_moves_to_a_new_process() -> None:
    application = running([(12, 100)], [list(range(6)), list(range(6, 12)), []])
    plan = plan_of(application)
    assert [len(tasks) for tasks in actives(plan, 3)] == [4, 4, 4]
    assert set(range(6)) > set(actives(plan, 3)[0])
    assert set(range(6, 12)) > set(actives(plan, 3)[1])


def test_subtopologies_are_evened_out_too() -> None:
    """In total balanced, but each subtopology runs on one process only: shipped Kafka's balance would not see that."""
    plan = plan_of(running([(4, 100), (4, 100)], [[0, 1, 2, 3], [4, 5, 6, 7]]))
    for first in (0, 4):
        assert np.bincount(plan.active[first : first + 4], minlength=2).tolist() == [2, 2]
    assert np.count_nonzero(plan.active != np.repeat([0, 1], 4)) == 4, "two tasks each way and no more"


def test_the_process_that_warmed_up_for_a_task_gets_that_task() -> None:
    application = running([(4, 1000)], [[0, 1, 2, 3], []])
    application.instances[1].lags = {2: 0, 3: 500}
    plan = plan_of(application)
    assert actives(plan, 2)[1] == [2], "it has caught up"
    assert plan.standby_task[plan.warmup].tolist() == [3], "it is on its way"


def test_a_process_that_lost_its_tasks_gets_them_back_rather_than_those_that_run_elsewhere() -> None:
    """A leader that was removed from its group comes back without its tasks and with checkpoints a little behind the
    standbys of the other process. That one would keep everything if nothing had to be even; what it runs stays."""
    application = running([(8, 10_000)], [[0, 2, 4, 6], []])
    application.instances[0].lags |= dict.fromkeys((1, 3, 5, 7), 3)
    application.instances[1].lags = dict.fromkeys((0, 2, 4, 6), 5) | dict.fromkeys((1, 3, 5, 7), 40)
    plan = plan_of(application)
    assert actives(plan, 2) == [[0, 2, 4, 6], [1, 3, 5, 7]]
    assert not plan.probing


def test_what_has_not_caught_up_is_not_started_for_the_sake_of_what_runs() -> None:
    application = running([(8, 10_000)], [[0, 2, 4, 6], []])
    application.instances[0].lags |= dict.fromkeys((1, 3, 5, 7), 3)
    application.instances[1].lags = dict.fromkeys((0, 2, 4, 6), 5) | dict.fromkeys((1, 3, 5, 7), 400)
    assert actives(plan_of(application), 2) == [[1, 3, 5, 7], [0, 2, 4, 6]]


def test_orphans_go_to_their_standbys() -> None:
    application = running([(4, 1000)], [[0], [1]])
    application.instances[0].lags[3] = 0
    application.instances[1].lags[2] = 0
    plan = plan_of(application)
    assert actives(plan, 2) == [[0, 3], [1, 2]]
    assert not plan.probing


def test_stateless_tasks_stay_too() -> None:
    application = running([(2, 1000), (4, None)], [[1, 4, 5], [0, 2, 3]])
    assert actives(plan_of(application), 2) == [[1, 4, 5], [0, 2, 3]]


def test_racks_are_left_out_where_everything_costs_the_same() -> None:
    """All processes in one rack: balance_subtopology would reshuffle for nothing in shipped Kafka."""
    application = running([(3, 1000), (3, 1000)], [[0, 3, 4], [1, 2, 5]])
    application.replicas = [0] * 6
    for instance in application.instances:
        instance.rack = "b"
    plan = plan_of(application, AssignmentConfigs(rack_aware_assignment_strategy="balance_subtopology"))
    assert actives(plan, 2) == [[0, 3, 4], [1, 2, 5]]


@pytest.mark.parametrize("policy", ["kafka", STREAMS_HA])
def test_racks_are_optimised(policy: str) -> None:
    """Task t has no replica in rack t % 2: each process should get the tasks of the other rack."""
    application = Application([(8, 100)], replicas=[t % 2 for t in range(8)])
    application.instances = [Instance(process_id(n + 1), rack=RACKS[n]) for n in range(2)]
    plan = assign_streams(application.view(), AssignmentConfigs(rack_aware_assignment_strategy="min_traffic"), policy)
    assert plan.active.tolist() == [1, 0, 1, 0, 1, 0, 1, 0]


@pytest.mark.parametrize("policy", ["kafka", STREAMS_HA])
def test_why_racks_are_not_used_is_reported(policy: str) -> None:
    application = running([(2, 100)], [[0], [1]])
    plan = assign_streams(application.view(), AssignmentConfigs(rack_aware_assignment_strategy="min_traffic"), policy)
    assert "racks are not taken into account" in plan.notes[0]
    assert "has no client.rack" in plan.notes[0]


def test_unknown_policies_are_refused() -> None:
    with pytest.raises(UnknownPolicyError, match="kafka, streams-ha, sticky, load-aware"):
        assign_streams(Application([(1, 1)]).view(), CONFIGS, "stikcy")


@pytest.mark.parametrize("policy", ["kafka", STREAMS_HA, "sticky"])
def test_while_lags_are_unknown_everything_stays_and_a_probing_rebalance_is_asked_for(policy: str) -> None:
    application = running([(4, -3)], [[0, 1, 2], [], [3]])
    view = application.view()
    object.__setattr__(view, "lags_known", False)
    plan = assign_streams(view, CONFIGS, policy)
    assert plan.probing
    assert actives(plan, 3) == actives(assign_fallback_prior(view, CONFIGS), 3) == [[0, 1, 2], [], [3]]


class TestEvener:
    def even(self, owner: list[int], subtopology: list[int], threads: list[int]) -> np.ndarray:
        sizes = np.bincount(subtopology).tolist()
        application = Application([(count, 1000) for count in sizes])
        application.instances = [Instance(process_id(n + 1), room) for n, room in enumerate(threads)]
        view = application.view()
        owners = np.array(owner, dtype=np.int32)
        tasks = np.arange(len(owner), dtype=np.int32)
        none = np.zeros(len(threads), dtype=np.int64)
        Evener(tasks, owners, view.tasks.subtopology, none, view.capacity, TaskLags.of(view, 100)).run()
        return owners

    @pytest.mark.slow
    def test_equal_threads_end_within_one_task_in_total_and_per_subtopology(self) -> None:
        for seed in range(150):
            random = Random(seed)
            subtopology = sorted(random.randrange(5) for _ in range(random.randint(1, 60)))
            subtopology = np.unique(subtopology, return_inverse=True)[1].tolist()
            size = random.randint(1, 8)
            owners = self.even([random.randrange(size) for _ in subtopology], subtopology, [1] * size)
            assert np.ptp(np.bincount(owners, minlength=size)) <= 1
            for number in range(max(subtopology) + 1):
                mine = owners[np.array(subtopology) == number]
                assert np.ptp(np.bincount(mine, minlength=size)) <= 1

    def test_unequal_threads_end_where_no_move_is_for_the_better(self) -> None:
        for seed in range(100):
            random = Random(seed)
            threads = [random.randint(1, 5) for _ in range(random.randint(2, 6))]
            owner = [random.randrange(len(threads)) for _ in range(random.randint(1, 60))]
            counts = np.bincount(self.even(owner, [0] * len(owner), threads), minlength=len(threads))
            assert max((counts - 1) / threads) < min((counts + 1) / threads)


def scaled_out() -> Application:
    """Two processes in balance with standbys of each other's tasks, and a third that has nothing yet.

    Partitions 2 and 5 of each subtopology belong into the rack of the third: what is in none of the others has to go.
    """
    application = Application([(6, 10_000)], replicas=None)
    for number, (mine, theirs) in enumerate((((0, 3, 5), (1, 2, 4)), ((1, 2, 4), (0, 3, 5))), start=1):
        lags = {**dict.fromkeys(mine, LATEST_OFFSET), **dict.fromkeys(theirs, 0)}
        application.instances.append(Instance(process_id(number), 1, lags=lags, active=list(mine)))
    application.instances.append(Instance(process_id(3), 1))
    return application


@pytest.mark.parametrize("seed", seeds(50))
def test_a_task_that_waits_for_a_warm_up_waits_where_it_runs(seed: int) -> None:
    """Java sends it to a caught-up standby meanwhile if that is lighter: it moves, and so has no owner, twice."""
    random = Random(seed)
    application = scaled_out()
    rack_of = [random.randrange(3) for _ in range(6)]
    application.replicas = rack_of
    for instance, rack in zip(application.instances, RACKS, strict=False):
        instance.rack = rack
    configs = AssignmentConfigs(
        acceptable_recovery_lag=100, num_standby_replicas=1, rack_aware_assignment_strategy="min_traffic"
    )
    view = application.view()
    plan = assign_streams(view, configs, STREAMS_HA)
    lags = TaskLags.of(view, 100)
    before = [next(p for p, i in enumerate(application.instances) if t in i.active) for t in range(6)]
    for task in range(6):
        if plan.active[task] != before[task]:
            assert int(lags.at(np.array([task]), plan.active[[task]])[0]) <= 100
            warming = plan.standby_process[plan.warmup & (plan.standby_task == task)]
            assert not len(warming), "it would move once more"


def test_warm_ups_of_tasks_to_run_come_before_those_of_standbys() -> None:
    """A standby that changes places can wait: until then it has a copy elsewhere that has caught up."""
    application = scaled_out()
    configs = AssignmentConfigs(acceptable_recovery_lag=100, num_standby_replicas=1, max_warmup_replicas=2)
    final = scaled_out()
    final.instances[2].lags = dict.fromkeys(range(6), 0)
    aims = {t for t in range(6) if plan_of(final, configs).active[t] == 2}
    assert len(aims) == 2
    plan = plan_of(application, configs)
    assert set(plan.standby_task[plan.warmup].tolist()) <= set(range(6))
    assert (plan.active != 2).all()
    assert np.count_nonzero(plan.warmup) == 2
    again = scaled_out()
    for task in plan.standby_task[plan.warmup].tolist():
        again.instances[2].lags[task] = 0
    assert np.count_nonzero(plan_of(again, configs).active == 2) == 2, "both ran after one round of warming up"


def test_a_task_on_its_way_is_not_taken_by_who_would_have_to_warm_up_for_it() -> None:
    """Task 1 was pending for process 0, which has caught up, and runs nowhere now. Process 2, far behind, took it from
    there for the sake of even counts; it went back to process 1, process 0 was promised task 3 instead, and so on to
    and fro, as fast as threads can join, until process 2 had caught up (simulation, seed 1053)."""
    running = {1: [0, 3, 8, 9, 10, 11, 12, 13], 0: [4, 6, 7], 2: [2, 5]}
    lags = {
        0: dict.fromkeys(range(14), 0),
        1: {1: 0, 2: 47_898, 4: 0, 5: 48_540, 6: 0, 7: 0},
        2: {0: 25_935, 1: 50_214, 3: 95_751, 8: 32_938, 11: 52_335},
    }
    instances = [
        Instance(process_id(p), lags=lags[p] | dict.fromkeys(mine, LATEST_OFFSET), active=mine)
        for p, mine in sorted(running.items())
    ]
    view = Application([(14, 100_000)], instances).view()
    at_home = np.zeros(14, dtype=np.int32)
    at_home[[2, 5]] = 2
    configs = AssignmentConfigs(num_standby_replicas=1, acceptable_recovery_lag=10_000)
    plan = assign_streams(replace(view, home=at_home), configs, STREAMS_HA)
    assert plan.active[1] == 0
    assert plan.warmup.any(), "process 2 warms up for tasks that run elsewhere meanwhile"


class TestWhereKafkasOwnTestsWantAnotherPlan:
    """Tests of HighAvailabilityTaskAssignor that this policy fails: docs/guides/policies.md."""

    def test_what_is_even_where_it_is_caught_up_needs_no_warm_up(self) -> None:
        """shouldComputeNewAssignmentIfActiveTasksWasNotOnCaughtUpClient: 0_0 ran on 1 and is caught up on 2."""
        application = Application([(1, 1000), (1, None)])
        application.instances = [
            Instance(process_id(1), lags={0: 500}, active=[0]),
            Instance(process_id(2), lags={0: 0}, active=[1]),
        ]
        plan = plan_of(application)
        assert actives(plan, 2) == [[1], [0]]
        assert (plan.probing, plan.warmup.any()) == (False, False)

    def test_the_most_caught_up_has_the_task_and_nothing_is_to_move(self) -> None:
        """shouldAssignToMostCaughtUpIfActiveTasksWasNotOnCaughtUpClient."""
        application = Application([(1, 100_000)])
        lags = ({}, {0: 1_000}, {0: 500})
        application.instances = [
            Instance(process_id(n), lags=dict(lags_of_process)) for n, lags_of_process in enumerate(lags, start=1)
        ]
        plan = plan_of(application, replace(CONFIGS, num_standby_replicas=1))
        assert actives(plan, 3) == [[], [], [0]]
        assert plan.standby_process.tolist() == [1]
        assert (plan.probing, plan.warmup.any()) == (False, False)

    def test_stateless_tasks_are_placed_beside_where_the_others_will_be(self) -> None:
        """shouldDistributeStatelessTasksToBalanceTotalTaskLoad: they do not move when the warm-ups end."""
        application = running([(4, 1000), (3, None)], [[0, 1, 2, 3], []])
        configs = replace(CONFIGS, num_standby_replicas=1)
        first = plan_of(application, configs)
        assert first.probing
        counts = np.bincount(first.active, minlength=2)
        waiting = int((first.destination != first.active).sum())
        aims = np.bincount(first.destination, minlength=2)
        assert abs(int(aims[0] - aims[1])) <= 1
        assert counts.tolist() == [int(aims[0]) + waiting, int(aims[1]) - waiting]
        application.settle(first)
        last = plan_of(application, configs)
        assert not last.probing
        assert last.active[4:].tolist() == first.active[4:].tolist()
        assert last.active.tolist() == first.destination.tolist()
