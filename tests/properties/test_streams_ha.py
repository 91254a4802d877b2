"""What holds for every plan of the stock policies, on random applications in any state."""

from random import Random

import numpy as np
import pytest

from bellwether_kafka.assignors.streams.application import AssignmentConfigs, StreamsPlan, StreamsView, TaskLags
from bellwether_kafka.assignors.streams.policies import STREAMS_HA, STREAMS_POLICIES, assign_streams
from bellwether_kafka.assignors.streams.sending import validate_plan
from tests.kit.streams_views import random_application

SEEDS = range(300)


def inputs(*, tags: bool = False) -> list[tuple[StreamsView, AssignmentConfigs]]:
    views = []
    for seed in SEEDS:
        application, configs = random_application(Random(seed), tags=tags)
        views.append((application.view(), configs))
    return views


def same(plan: StreamsPlan, other: StreamsPlan) -> bool:
    pairs = ((plan.active, other.active), (plan.standby_task, other.standby_task), (plan.warmup, other.warmup))
    return all(np.array_equal(a, b) for a, b in (*pairs, (plan.standby_process, other.standby_process)))


@pytest.mark.parametrize("policy", STREAMS_POLICIES)
@pytest.mark.parametrize("tags", [False, True])
def test_plans_are_valid_and_the_same_each_time(policy: str, tags: bool) -> None:
    for view, configs in inputs(tags=tags):
        plan = assign_streams(view, configs, policy)
        assert validate_plan(view, plan) == ()
        assert same(plan, assign_streams(view, configs, policy))


@pytest.mark.parametrize("policy", ["kafka", STREAMS_HA])
def test_there_are_as_many_standbys_as_asked_for_and_no_more_warm_ups_than_allowed(policy: str) -> None:
    for view, configs in inputs():
        plan = assign_streams(view, configs, policy)
        stateful = np.flatnonzero(view.tasks.stateful)
        copies = np.bincount(plan.standby_task, minlength=view.tasks.size)[stateful]
        wanted = min(configs.num_standby_replicas, view.size - 1)
        assert np.count_nonzero(plan.warmup) <= configs.max_warmup_replicas
        assert copies.sum() == wanted * len(stateful) + np.count_nonzero(plan.warmup)
        assert bool(plan.notes) == (wanted < configs.num_standby_replicas and len(stateful) > 0)


@pytest.mark.parametrize("policy", ["kafka", STREAMS_HA])
def test_no_task_leaves_a_process_that_has_caught_up_for_one_that_has_not(policy: str) -> None:
    """The promise of KIP-441: an active task is where it can go on, wherever anybody can."""
    for view, configs in inputs():
        plan = assign_streams(view, configs, policy)
        lags = TaskLags.of(view, configs.acceptable_recovery_lag)
        for task in np.flatnonzero(view.tasks.stateful).tolist():
            able = lags.caught_up(task)
            least_is_unknown = int(lags.least[task]) == -3
            assert not able or int(plan.active[task]) in able or least_is_unknown


@pytest.mark.parametrize("policy", ["kafka", STREAMS_HA])
def test_warm_ups_mean_a_probing_rebalance(policy: str) -> None:
    for view, configs in inputs():
        plan = assign_streams(view, configs, policy)
        assert plan.probing or not plan.warmup.any()


def test_streams_ha_spreads_replicas_over_as_many_racks_as_there_can_be() -> None:
    for seed in SEEDS:
        random = Random(seed)
        application, _ = random_application(random)
        for instance in application.instances:
            instance.rack = random.choice("abc")
        view = application.view()
        racks = np.array([process.rack for process in view.processes])
        plan = assign_streams(view, AssignmentConfigs(2**63 - 1, num_standby_replicas=2), STREAMS_HA)
        best = min(3, len(set(racks.tolist())), view.size)
        for task in np.flatnonzero(view.tasks.stateful).tolist():
            holders = [int(plan.active[task]), *plan.standby_process[plan.standby_task == task].tolist()]
            assert len(set(racks[holders].tolist())) == best
