"""Random applications in which processes come, go and lose their stores: what the first plan after a change announces
is what happens, in few steps, and what it left pending is handed out by the next. BELLWETHER_SEEDS raises the number
of histories."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from bellwether_kafka.assignors.streams import STOCK, PluginHealth, run_plugin
from bellwether_kafka.assignors.streams.api import (
    ApplicationState,
    AssignedTask,
    KafkaStreamsAssignment,
    TaskAssignment,
    TaskAssignor,
)
from bellwether_kafka.assignors.streams.application import PINNED, AssignmentConfigs, StreamsPlan, StreamsView
from bellwether_kafka.assignors.streams.policies import STREAMS_HA, STREAMS_POLICIES
from tests.seeds import seeds
from tests.unit.assignors.streams.restoring import Rebalance, RestoringApplication, shown

HAND_OVER_MS = 3_000

SEEDS = int(os.environ.get("BELLWETHER_SEEDS", "40"))
EVENTS = 5
# a hand-over every three seconds takes forty, and a process that returns is asked five times
REBALANCES_PER_MINUTE = 45


RESTLESS = "restless"


class Restless(TaskAssignor):
    """A plug-in that moves tasks whenever it is asked."""

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        processes = sorted(application_state.kafka_streams_states(compute_task_lags=False))
        placed = {process: KafkaStreamsAssignment.of(process) for process in processes}
        first = application_state.now_ms // 50 % len(processes)
        for number, task in enumerate(application_state.all_tasks):
            placed[processes[(first + number) % len(processes)]].assign_task(AssignedTask.active(task))
        return TaskAssignment(placed.values())

    def configure(self, configs: Mapping[str, object]) -> None:
        """Needs no settings."""

    def on_assignment_computed(self, *_: object) -> None:
        """Wants no answer."""


def plugged(view: StreamsView, configs: AssignmentConfigs, _policy: str) -> StreamsPlan:
    return run_plugin(Restless(), view, configs, PluginHealth(), now_ms=view.now_ms, cluster=view.cluster).plan


def application(
    random: Random, policy: str = STREAMS_HA, kind: type[RestoringApplication] = RestoringApplication
) -> RestoringApplication:
    configs = AssignmentConfigs(
        acceptable_recovery_lag=random.choice([100, 1_000, 1_000, PINNED]),
        max_warmup_replicas=random.choice([1, 2, 2, 6]),
        num_standby_replicas=random.choice([0, 1, 1, 2]),
        probing_rebalance_interval_ms=60_000,
    )
    sizes = [random.choice([500, 1_500, 4_000, 20_000]) for _ in range(random.randint(1, 4))]
    return kind(
        policy,
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


class ChainedApplication(RestoringApplication):
    """Remembers the rebalances that follow only from what the one before left pending, as chains. Those after an event,
    a probe or a report of a process that restarted begin a chain."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.chains: list[list[Rebalance]] = []
        self.happened = True

    def start(self, *arguments: Any, **options: Any) -> None:
        super().start(*arguments, **options)
        self.happened = True

    def stop(self, number: int) -> None:
        super().stop(number)
        self.happened = True

    def rebalance(self) -> Rebalance:
        last = self.decision
        reports = any(record.hidden.any() for record in self.memory.records.values())
        if last is None or not last.followup or self.happened or reports:
            self.chains.append([])
        self.happened = False
        rebalance = super().rebalance()
        self.chains[-1].append(rebalance)
        return rebalance


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", seeds(SEEDS // 4))
@pytest.mark.parametrize("policy", [*STREAMS_POLICIES, RESTLESS])
def test_what_was_left_pending_is_handed_out_by_the_next_rebalance(policy: str, seed: int) -> None:
    """Under every policy, and it takes nothing more from anybody."""
    random = Random(seed)
    made = application(random, policy, ChainedApplication)
    assert isinstance(made, ChainedApplication)
    if policy == RESTLESS:
        made.assignors = replace(STOCK, assign=plugged, without_lags=True)
    made.start(1)
    made.rest()
    for _ in range(EVENTS):
        change(random, made)
        made.rest()
        made.idle(random.choice([0, 5_000, 60_000]))
    for chain in made.chains:
        assert len(chain) <= 2, shown(chain)
        assert not sum(rebalance.moved for rebalance in chain[1:]), shown(chain)
