"""From a change of the group to rest: how many rebalances that takes, and that no rebalance undoes what one before it
began.

Kafka's policy runs beside Bellwether's: if it moved as little in as few rebalances, the numbers would prove nothing.
"""

from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import pytest

from bellwether_kafka.assignors.streams.application import PINNED, AssignmentConfigs
from bellwether_kafka.assignors.streams.policies import STREAMS_HA
from tests.unit.assignors.streams.restoring import Rebalance, RestoringApplication, path, shown

DIED_MS = 20_000
HAND_OVER_MS = 3_000

ANY_LAG = AssignmentConfigs(acceptable_recovery_lag=PINNED, num_standby_replicas=1)
# Warm-ups at a time, standbys, and whether it is back before its session ends.
RETURNS = [
    *((2, standbys, early) for standbys in (0, 1) for early in (True, False)),
    *(pytest.param((6, *each), marks=pytest.mark.slow) for each in ((0, True), (0, False), (1, True), (1, False))),
]
STORES = {"small": 1_500, "middle": 2_500, "large": 4_000, "huge": 8_000}


@cache
def standby_scenario(policy: str) -> list[tuple[str, list[Rebalance]]]:
    """Kafka's system test of standby replicas (StreamsStandbyTask): up to three processes with one thread, six tasks,
    one standby, any lag is acceptable. The rebalances of each step."""
    application = RestoringApplication(policy, ANY_LAG, stores={"count": 50_000})
    steps = []
    for word, number in ("+1", "+2", "+3", "-1", "-2", "+1", "+2", "-3", "-1", "+1", "+3"):
        (application.start if word == "+" else application.stop)(int(number))
        steps.append((word + number, application.rest()))
        application.idle(DIED_MS)  # until everything is restored, as the test waits for it, and nobody is expected
    return steps


def grown(policy: str, standbys: int) -> list[Rebalance]:
    """The rebalances after a third process has joined two, with empty stores; any lag is acceptable."""
    configs = AssignmentConfigs(acceptable_recovery_lag=PINNED, num_standby_replicas=standbys)
    application = RestoringApplication(policy, configs, stores={"count": 50_000})
    for number in (1, 2):
        application.start(number)
        application.rest()
    application.start(3)
    return application.rebalances[-1:] + application.rest()


def returned(policy: str, *, warmups: int = 2, standbys: int = 1, early: bool = False) -> list[Rebalance]:
    """The rebalances after one of three processes was killed and has come back with empty stores, as under
    exactly-once: before its session ended, or after it when others had its tasks. The first one is that before it came
    back."""
    configs = AssignmentConfigs(
        acceptable_recovery_lag=1_000,
        num_standby_replicas=standbys,
        max_warmup_replicas=warmups,
        probing_rebalance_interval_ms=60_000,
    )
    application = RestoringApplication(policy, configs, stores=STORES, stateless=1, partitions=3, growth=50.0)
    for number in (1, 2, 3):
        application.start(number, rate=12_000.0)
    application.rest()
    application.stop(3)
    if not early:
        application.rest()
    before = application.rebalances[-1:]
    application.start(3, wiped=True)
    return before + application.rest()


def undone(rebalances: Sequence[Rebalance]) -> dict[str, list[int]]:
    """Tasks that were given to more than one other process."""
    paths = {str(task): path(task, rebalances) for task in rebalances[0].owner}
    return {task: processes for task, processes in paths.items() if len(processes) > 2}


class TestAnyLagIsAcceptable:
    @pytest.mark.parametrize("standbys", [0, 1])
    def test_a_third_process_gets_two_of_six_tasks_in_two_rebalances(self, standbys: int) -> None:
        rebalances = grown(STREAMS_HA, standbys)
        assert [r.moved for r in rebalances[1:]] == [2, 0]
        assert not undone(rebalances)

    @pytest.mark.slow
    def test_kafkas_standby_scenario_moves_less_in_a_rebalance_more_for_each_process_that_two_others_miss(self) -> None:
        """Two of four do not come back while two are left, and their copies are made once they are not expected."""
        own, kafka = standby_scenario(STREAMS_HA), standby_scenario("kafka")
        assert sum(len(rebalances) for _, rebalances in own) == 19 + 2
        assert sum(len(rebalances) for _, rebalances in kafka) == 19
        assert sum(r.moved for _, rebalances in own for r in rebalances) == 17
        assert sum(r.moved for _, rebalances in kafka for r in rebalances) == 25

    @pytest.mark.slow
    def test_in_its_follow_ups_nothing_moves_but_where_a_process_is_missed(self) -> None:
        for step, rebalances in standby_scenario(STREAMS_HA):
            assert not undone(rebalances), step
            if step[0] == "+":
                assert not any(r.moved for r in rebalances[1:]), step
            else:
                assert [r.moved for r in rebalances] in ([0, 1, 0], [0]), step


@pytest.mark.slow
class TestReturnWithEmptyStores:
    @pytest.fixture(scope="class", params=RETURNS, ids=str)
    @classmethod
    def rebalances(cls, request: pytest.FixtureRequest) -> list[Rebalance]:
        """The rebalances since it came back."""
        warmups, standbys, early = request.param
        return returned(STREAMS_HA, warmups=warmups, standbys=standbys, early=early)[1:]

    def test_no_task_is_given_away_twice(self, rebalances: list[Rebalance]) -> None:
        """Its active tasks were 0, 1, 3, 4, 3, 4 in successive rebalances."""
        assert not undone(rebalances), shown(rebalances)

    def test_nothing_moves_that_the_first_plan_did_not_announce(self, rebalances: list[Rebalance]) -> None:
        assert [r for r in rebalances if r.destination != rebalances[0].destination] == []
        assert rebalances[-1].owner == rebalances[0].destination

    def test_running_tasks_leave_their_processes_together(self, rebalances: list[Rebalance]) -> None:
        at_ms = [r.at_ms for r in rebalances if r.hands_over]
        assert all(b - a >= HAND_OVER_MS for a, b in pairwise(at_ms)), shown(rebalances)

    def test_it_takes_few_rebalances(self, rebalances: list[Rebalance]) -> None:
        """It took up to twelve within seven seconds: the return, looks at what it has by now, and two rebalances for
        each hand-over."""
        assert len(rebalances) <= 7, shown(rebalances)
        assert sum(r.at_ms < rebalances[0].at_ms + 4_000 for r in rebalances) <= 5, shown(rebalances)


@pytest.mark.slow
def test_kafkas_policy_gives_tasks_away_twice() -> None:
    """What the product is compared with is alive."""
    assert undone(returned("kafka")[1:])


def test_tasks_that_were_pending_go_where_they_were_meant_although_another_process_joined() -> None:
    application = RestoringApplication(STREAMS_HA, ANY_LAG, stores={"count": 50_000})
    for number in (1, 2):
        application.start(number)
        application.rest()
    application.start(3)
    first = application.rebalance()
    given_up = [task for task, process in first.owner.items() if process == 3]
    application.start(4)
    second = application.rebalance()
    assert given_up
    assert {task: second.owner[task] for task in given_up} == dict.fromkeys(given_up, 3)
