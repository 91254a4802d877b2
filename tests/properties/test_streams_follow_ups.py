"""Random applications in which processes come, go and lose their stores: what the first plan after a change announces
is what happens, in few steps. BELLWETHER_SEEDS raises the number of histories."""

import os
from collections.abc import Sequence
from itertools import pairwise
from random import Random

import pytest

from bellwether_kafka.assignors.streams.application.task_views import PINNED, AssignmentConfigs
from bellwether_kafka.assignors.streams.members.memory import HAND_OVER_MS
from bellwether_kafka.assignors.streams.policies.assign import STREAMS_HA
from tests.unit.assignors.streams.restoring import Rebalance, RestoringApplication, shown

SEEDS = int(os.environ.get("BELLWETHER_SEEDS", "40"))
EVENTS = 5
# a hand-over every three seconds takes forty, and a process that returns is asked five times
REBALANCES_PER_MINUTE = 45


def application(random: Random) -> RestoringApplication:
    configs = AssignmentConfigs(
        acceptable_recovery_lag=random.choice([100, 1_000, 1_000, PINNED]),
        max_warmup_replicas=random.choice([1, 2, 2, 6]),
        num_standby_replicas=random.choice([0, 1, 1, 2]),
        probing_rebalance_interval_ms=60_000,
    )
    sizes = [random.choice([500, 1_500, 4_000, 20_000]) for _ in range(random.randint(1, 4))]
    return RestoringApplication(
        STREAMS_HA,
        configs,
        stores={f"s{number}": size for number, size in enumerate(sizes)},
        stateless=random.randint(0, 2),
        partitions=random.randint(1, 4),
        growth=random.choice([0.0, 0.0, 20.0]),
        durable=random.random() < 0.3,
    )


def change(random: Random, made: RestoringApplication) -> None:
    """One process comes, goes, or restarts: at once or when others have its tasks, with its stores or without."""
    here, gone = sorted(made.here), sorted(made.processes.keys() - made.here)
    kind = random.choice(["new", "stop", "restart", "restart", "back"])
    if kind == "back" and gone:
        made.start(random.choice(gone), wiped=random.random() < 0.5)
    elif kind == "restart":
        number = random.choice(here)
        made.stop(number)
        if len(here) > 1 and random.random() < 0.5:
            made.rest()
        made.start(number, wiped=random.random() < 0.5)
    elif kind == "stop" and len(here) > 1:
        made.stop(random.choice(here))
    else:
        made.start(len(made.processes) + 1, threads=random.choice([1, 1, 2]), rate=random.choice([2e3, 1.2e4, 6e4]))


def check(rebalances: Sequence[Rebalance]) -> None:
    reported = shown(rebalances)
    first, last = rebalances[0], rebalances[-1]
    assert all(r.destination == first.destination for r in rebalances), reported
    assert last.owner == first.destination, reported
    at_ms = [r.at_ms for r in rebalances if r.hands_over]
    assert all(b - a >= HAND_OVER_MS for a, b in pairwise(at_ms)), reported
    for r in rebalances:
        assert sum(r.at_ms <= other.at_ms < r.at_ms + 60_000 for other in rebalances) <= REBALANCES_PER_MINUTE, reported


@pytest.mark.timeout(300 + 10 * SEEDS)
@pytest.mark.parametrize("part", range(4))
def test_follow_ups_do_what_was_announced(part: int) -> None:
    for seed in range(part, SEEDS, 4):
        random = Random(seed)
        made = application(random)
        made.start(1)
        made.rest()
        for number in range(EVENTS):
            change(random, made)
            begun = len(made.rebalances)
            made.rest()
            try:
                check(made.rebalances[begun:])
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, event {number}: {error}") from error
            made.idle(random.choice([0, 5_000, 60_000]))
