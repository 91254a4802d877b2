"""StickyTask and FallbackPrior (after the descriptions of Kafka's sticky assignor tests)."""

from random import Random

import numpy as np
import pytest

from bellwether_kafka.assignors.streams.application import LATEST_OFFSET, AssignmentConfigs, StreamsPlan
from bellwether_kafka.assignors.streams.placing import StickyTask, assign_sticky
from bellwether_kafka.assignors.streams.policies import assign_fallback_prior
from bellwether_kafka.assignors.streams.sending import validate_plan
from tests.kit.streams_views import Application, Instance, actives, process_id, random_application, standbys

NONE = AssignmentConfigs()
ONE_STANDBY = AssignmentConfigs(num_standby_replicas=1)


def group(tasks: int, *members: tuple[list[int], list[int], int]) -> Application:
    """Processes as (tasks they ran, tasks they kept standbys of, threads)."""
    application = Application([(tasks, 1000)])
    for number, (active, standby, threads) in enumerate(members, start=1):
        lags = {**dict.fromkeys(standby, 0), **dict.fromkeys(active, LATEST_OFFSET)}
        application.instances.append(
            Instance(process_id(number), threads, {}, lags=lags, active=active, standby=standby)
        )
    return application


def counts(plan: StreamsPlan, size: int) -> list[int]:
    return np.bincount(plan.active, minlength=size).tolist()


def test_new_tasks_are_shared_out() -> None:
    assert counts(assign_sticky(group(6, ([], [], 1), ([], [], 1), ([], [], 1)).view(), NONE), 3) == [2, 2, 2]


def test_more_threads_take_more() -> None:
    assert counts(assign_sticky(group(9, ([], [], 1), ([], [], 2)).view(), NONE), 2) == [3, 6]


def test_tasks_stay_with_their_owners() -> None:
    plan = assign_sticky(group(6, ([5, 1], [], 1), ([0, 3], [], 1), ([2, 4], [], 1)).view(), NONE)
    assert actives(plan, 3) == [[1, 5], [0, 3], [2, 4]]


def test_a_new_process_takes_its_share_and_nothing_else_moves() -> None:
    plan = assign_sticky(group(6, ([0, 1, 2], [], 1), ([3, 4, 5], [], 1), ([], [], 1)).view(), NONE)
    assert counts(plan, 3) == [2, 2, 2]
    assert set(actives(plan, 3)[0]) < {0, 1, 2}
    assert set(actives(plan, 3)[1]) < {3, 4, 5}


def test_orphans_go_to_their_standbys() -> None:
    plan = assign_sticky(group(4, ([0], [3], 1), ([1], [2], 1)).view(), NONE)
    assert actives(plan, 2) == [[0, 3], [1, 2]]


def test_an_overloaded_owner_gives_way() -> None:
    assert counts(assign_sticky(group(4, ([0, 1, 2, 3], [], 1), ([], [], 1)).view(), NONE), 2) == [2, 2]


def test_standbys_stay_with_the_member_that_has_them() -> None:
    plan = assign_sticky(group(3, ([0], [1], 1), ([1], [2], 1), ([2], [0], 1)).view(), ONE_STANDBY)
    assert standbys(plan, 3) == [[1], [2], [0]]


def test_an_owner_that_lost_its_task_may_keep_a_standby() -> None:
    plan = assign_sticky(group(4, ([0, 1, 2, 3], [], 1), ([], [], 1)).view(), ONE_STANDBY)
    assert sorted(actives(plan, 2)[0] + standbys(plan, 2)[0]) == [0, 1, 2, 3]


def test_too_few_processes_for_the_standbys_are_noted() -> None:
    plan = assign_sticky(group(2, ([0, 1], [], 1)).view(), ONE_STANDBY)
    assert len(plan.standby_task) == 0
    assert plan.notes == ("2 tasks have fewer than 1 standbys, because there are too few processes (first: 0_0)",)


def test_the_internal_class_makes_way_for_more_threads_and_the_public_one_does_not() -> None:
    """Five tasks, quota one per thread: task 2 is left over, its owner is full, the other as full with more threads."""
    view = group(5, ([0, 1], [], 1), ([2, 3, 4], [], 3)).view()
    public = StickyTask(view, NONE).assign()
    internal = StickyTask(view, NONE, legacy=True).assign()
    assert actives(public, 2) == [[0, 1], [2, 3, 4]]
    assert actives(internal, 2) == [[0], [1, 2, 3, 4]]


def test_it_never_asks_for_a_probing_rebalance() -> None:
    assert not assign_sticky(group(4, ([0, 1, 2, 3], [], 1), ([], [], 1)).view(), ONE_STANDBY).probing


def test_the_fallback_keeps_everything_and_asks_for_a_probing_rebalance() -> None:
    application = group(6, ([0, 1, 2, 3], [], 1), ([], [4], 1), ([], [], 1))
    plan = assign_fallback_prior(application.view(), NONE)
    assert actives(plan, 3)[0] == [0, 1, 2, 3]
    assert actives(plan, 3)[1:] == [[4], [5]]
    assert plan.probing


def test_the_fallback_ignores_lags() -> None:
    application = group(4, ([0, 1], [2], 1), ([2, 3], [0], 1))
    expected = assign_fallback_prior(application.view(), ONE_STANDBY)
    for instance in application.instances:
        instance.lags = dict.fromkeys(instance.lags, -3)
    plan = assign_fallback_prior(application.view(), ONE_STANDBY)
    assert (plan.active == expected.active).all()
    assert (plan.standby_process == expected.standby_process).all()


@pytest.mark.slow
@pytest.mark.parametrize("preserve", [False, True])
def test_any_plan_is_valid_and_keeps_what_it_must(preserve: bool) -> None:
    for seed in range(150):
        application, configs = random_application(Random(seed))
        view = application.view()
        plan = StickyTask(view, configs, preserve=preserve).assign()
        assert validate_plan(view, plan) == ()
        wanted = min(configs.num_standby_replicas, view.size - 1) * np.count_nonzero(view.tasks.stateful)
        assert len(plan.standby_task) == wanted
        if preserve:
            owned = [set(instance.active) for instance in application.instances]
            assert all(mine <= set(got) for mine, got in zip(owned, actives(plan, view.size), strict=True))
