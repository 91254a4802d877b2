"""Convergence (after Kafka's TaskAssignorConvergenceTest): whatever happens to an application, a bounded number of
rebalances brings it to a balanced placement that the next rebalance leaves alone.

After each rebalance each process has caught up on what it was given and forgets the rest. BELLWETHER_SEEDS raises the
number of random histories.
"""

from random import Random

import numpy as np
import pytest

from bellwether_kafka.assignors.streams.application import (
    BALANCE_SUBTOPOLOGY,
    NO_STRATEGY,
)
from bellwether_kafka.assignors.streams.policies import STREAMS_HA
from tests.kit.streams_views import SEEDS, STRATEGIES, History, skew


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("policy", ["kafka", STREAMS_HA])
class TestKnownHistories:
    def history(self, policy: str, strategy: str, *, stateful: int, stateless: int, processes: int) -> History:
        history = History(Random(7), stateful, stateless, 2, 0, policy, strategy)
        for _ in range(processes):
            history.add()
        return history

    def test_a_static_group_is_settled_at_once(self, policy: str, strategy: str) -> None:
        assert self.history(policy, strategy, stateful=1, stateless=1, processes=1).converge(1) == 1

    def test_a_new_process_is_warmed_up_two_tasks_at_a_time(self, policy: str, strategy: str) -> None:
        history = self.history(policy, strategy, stateful=11, stateless=7, processes=1)
        history.converge(1)
        history.add()
        history.converge(11 // 2 + 1)

    def test_a_lost_process_is_made_up_for(self, policy: str, strategy: str) -> None:
        history = self.history(policy, strategy, stateful=13, stateless=11, processes=7)
        history.converge(1)
        history.drop()
        history.converge(13 // 2 + 2)


@pytest.mark.timeout(300 + 10 * SEEDS)
@pytest.mark.parametrize("policy", ["kafka", STREAMS_HA])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_any_history_converges(policy: str, strategy: str) -> None:
    for seed in range(SEEDS):
        live_through(seed, policy, strategy)


@pytest.mark.parametrize("standbys", [1, 2])
def test_without_racks_copies_are_even(standbys: int) -> None:
    """Active tasks with state and standbys together, as Kafka's TaskAssignorConvergenceTest wants it."""
    for seed in range(min(SEEDS, 50)):
        random = Random(seed)
        history = History(random, random.randint(1, 10), 3, 2, standbys, STREAMS_HA, NO_STRATEGY)
        for change in range(6):
            history.add()
            history.application.instances[-1].rack = None
            if change % 3 == 2:
                history.drop()
            history.converge(80)
            plan, stateful = history.rebalance(), history.application.table().stateful
            copies = np.concatenate([plan.active[stateful], plan.standby_process])
            assert skew(copies, len(history.application.instances)) <= 1, seed


def test_half_an_exchange_is_completed_and_not_undone() -> None:
    """Two tasks were to change places for the sake of racks; one had been warmed up and went ahead, the other was to
    follow. Then the first was sent back for the sake of balance, and so on for ever."""
    live_through(324, STREAMS_HA, BALANCE_SUBTOPOLOGY)


def live_through(seed: int, policy: str, strategy: str) -> None:
    """A random history. Raises AssertionError where it does not come to rest in between."""
    random = Random(seed)
    stateful, processes = random.randint(1, 10), random.randint(1, 10)
    standbys = random.randint(0, processes)
    history = History(random, stateful, random.randint(1, 10), random.randint(1, stateful), standbys, policy, strategy)
    for _ in range(processes):
        history.add()
    most = 2 * (stateful + stateful * standbys)
    for _ in range(random.randint(1, 10)):
        history.converge(most)
        for _ in range(random.randint(1, 3)):
            if random.random() < 0.5 or len(history.application.instances) == 1:
                history.add()
            else:
                history.drop()
    history.converge(most)
