"""The worked examples of KIP-441 ("Example Scenarios"), stage by stage, under both policies."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from bellwether_kafka.assignors.streams.application import LATEST_OFFSET, AssignmentConfigs, StreamsPlan
from bellwether_kafka.assignors.streams.policies import STREAMS_HA, assign_streams
from tests.kit.streams_views import Application, Instance, actives, process_id, standbys

END_SUM = 100_000
LAGGING = 50_000
CONFIGS = AssignmentConfigs(num_standby_replicas=1, max_warmup_replicas=2)
BOTH = pytest.mark.parametrize("policy", ["kafka", STREAMS_HA])

T1, T2, T3, T4 = range(4)


def application(tasks: int, instances: Sequence[tuple[Sequence[int], Mapping[int, int]]]) -> Application:
    """Instances I1, I2, … as (active tasks, standby tasks with their lags)."""
    started = Application([(tasks, END_SUM)])
    for number, (active, standby) in enumerate(instances, start=1):
        lags = {**dict.fromkeys(active, LATEST_OFFSET), **standby}
        started.instances.append(Instance(process_id(number), lags=lags, active=list(active), standby=list(standby)))
    return started


def decide(app: Application, policy: str) -> StreamsPlan:
    return assign_streams(app.view(), CONFIGS, policy)


def copies(plan: StreamsPlan) -> list[int]:
    return (1 + np.bincount(plan.standby_task, minlength=len(plan.active))).tolist()


class TestScalingOut:
    """Three tasks on I1 and I2, one standby each; I3 joins."""

    def group(self) -> Application:
        return application(3, [([T1, T3], {T2: 0}), ([T2], {T1: 0, T3: 0}), ([], {})])

    @BOTH
    def test_stage_1_nothing_moves_before_i3_has_caught_up(self, policy: str) -> None:
        plan = decide(self.group(), policy)
        i1, i2, i3 = actives(plan, 3)
        assert i3 == []
        assert sorted(i1 + i2) == [T1, T2, T3]
        assert plan.probing

    @BOTH
    def test_stage_1_i3_restores_what_it_will_run_beside_the_standbys(self, policy: str) -> None:
        plan = decide(self.group(), policy)
        warming = plan.standby_task[plan.warmup & (plan.standby_process == 2)].tolist()
        assert len(warming) == 2, "a task to run and a standby to keep"
        assert [copies(plan)[task] for task in warming] == [3, 3]
        in_sync = {(T1, 0), (T1, 1), (T2, 0), (T2, 1), (T3, 0), (T3, 1)}
        placed = {*zip(range(3), plan.active.tolist(), strict=True)}
        placed |= {*zip(plan.standby_task.tolist(), plan.standby_process.tolist(), strict=True)}
        assert all(len({pair for pair in placed & in_sync if pair[0] == task}) == 2 for task in range(3))

    @BOTH
    def test_stage_2_i3_takes_over_when_it_has_caught_up(self, policy: str) -> None:
        group = self.group()
        first = decide(group, policy)
        warming = first.standby_task[first.warmup & (first.standby_process == 2)].tolist()
        group.settle(first)
        second = decide(group, policy)
        assert set(actives(second, 3)[2]) < set(warming)
        assert [len(tasks) for tasks in actives(second, 3)] == [1, 1, 1]

    @BOTH
    def test_stage_3_the_stable_state_stays(self, policy: str) -> None:
        group = self.group()
        plan = decide(group, policy)
        for _ in range(5):
            group.settle(plan)
            plan = decide(group, policy)
        assert not plan.probing
        assert not plan.warmup.any()
        assert [len(tasks) for tasks in actives(plan, 3)] == [1, 1, 1]
        assert copies(plan) == [2, 2, 2]
        group.settle(plan)
        assert (decide(group, policy).active == plan.active).all()


class TestScalingInWithStandbysInSync:
    """Four tasks on three instances; I1 goes, all standbys are in sync."""

    def group(self) -> Application:
        full = application(4, [([T1, T4], {T3: 0}), ([T2], {T1: 0, T4: 0}), ([T3], {T2: 0})])
        del full.instances[0]
        return full

    @BOTH
    def test_stage_1_processing_resumes_at_once_on_the_standbys(self, policy: str) -> None:
        group = self.group()
        plan = decide(group, policy)
        assert actives(plan, 2) == [[T1, T4], [T2, T3]]
        for task, process in enumerate(plan.active.tolist()):
            assert group.instances[process].lags[task] <= 0, "it runs where the state is"

    @BOTH
    def test_stage_1_every_task_has_a_standby_again(self, policy: str) -> None:
        assert standbys(decide(self.group(), policy), 2) == [[T2, T3], [T1, T4]]

    def test_stage_2_no_further_rebalance_is_necessary(self) -> None:
        """What the KIP promises. Shipped Kafka goes on to its round robin order, and needs a second one."""
        group = self.group()
        plan = decide(group, STREAMS_HA)
        assert not plan.probing
        group.settle(plan)
        assert (decide(group, STREAMS_HA).active == plan.active).all()
        assert decide(self.group(), "kafka").probing


class TestScalingInWithLaggingStandbys:
    """The same group, but standbys lag by more than acceptable.recovery.lag."""

    def group(self) -> Application:
        lagging = LAGGING
        full = application(4, [([T1, T4], {T3: lagging}), ([T2], {T1: lagging, T4: lagging}), ([T3], {T2: lagging})])
        del full.instances[0]
        return full

    @BOTH
    def test_stage_1_orphans_go_where_least_is_left_to_restore(self, policy: str) -> None:
        plan = decide(self.group(), policy)
        assert actives(plan, 2) == [[T1, T2, T4], [T3]], "unbalanced for now"
        assert plan.probing

    @BOTH
    def test_stage_1_i3_restores_the_rest(self, policy: str) -> None:
        assert standbys(decide(self.group(), policy), 2) == [[T3], [T1, T2, T4]]

    @BOTH
    def test_stage_2_balanced_once_a_task_has_been_restored(self, policy: str) -> None:
        group = self.group()
        group.settle(decide(group, policy))
        plan = decide(group, policy)
        assert [len(tasks) for tasks in actives(plan, 2)] == [2, 2]

    @BOTH
    def test_stage_3_the_stable_state_stays(self, policy: str) -> None:
        group = self.group()
        for _ in range(5):
            plan = decide(group, policy)
            group.settle(plan)
        assert not plan.probing
        assert [len(tasks) for tasks in actives(plan, 2)] == [2, 2]
        assert copies(plan) == [2, 2, 2, 2]
