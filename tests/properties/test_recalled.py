"""Whatever is remembered of processes that restart, right or wrong: nobody waits for it, and the application comes to
rest."""

from random import Random

import numpy as np
import pytest

from assignors.model import NOBODY
from assignors.streams.assign import STREAMS_HA
from assignors.streams.lags import is_caught_up
from assignors.streams.model import MIN_TRAFFIC, NO_STRATEGY, StreamsView
from assignors.streams.result import StreamsDecision
from tests.unit.assignors.streams.fleet import Fleet

SEEDS = 12
EVENTS = 8


def really_near(view: StreamsView, acceptable_lag: int) -> set[tuple[int, int]]:
    """(task, process) pairs that have caught up by their own word, or because there is next to nothing to restore."""
    process = np.repeat(np.arange(view.size), np.diff(view.report_first))
    said = is_caught_up(view.report_lag, acceptable_lag)
    if len(view.recalled):
        said &= ~view.recalled
    pairs = set(zip(view.report_task[said].tolist(), process[said].tolist(), strict=True))
    small = np.flatnonzero(view.tasks.end_sum <= acceptable_lag).tolist()
    return pairs | {(task, p) for task in small for p in range(view.size)}


def check(decision: StreamsDecision) -> None:
    """Where somebody could go on with a task at once, somebody who could is given it."""
    view, active = decision.view, decision.plan.active.tolist()
    near = really_near(view, decision.configs.acceptable_recovery_lag)
    able = {task for task, _ in near}
    late = [t for t in able if view.tasks.stateful[t] and (t, active[t]) not in near]
    assert not late, [str(view.tasks.task_id(t)) for t in late]
    assert (decision.plan.active != NOBODY).all()


@pytest.mark.parametrize("strategy", [NO_STRATEGY, MIN_TRAFFIC])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_task_waits_for_a_memory(seed: int, strategy: str) -> None:
    """Processes restart, together too, come back early, late or empty, and are asked in between or not."""
    random = Random(seed)
    fleet = Fleet(STREAMS_HA, strategy)
    fleet.each_round = check
    for _ in range(EVENTS):
        for process in random.sample(range(3), random.choice([1, 1, 1, 2, 3])):
            fleet.stop(process)
            fleet.now_ms += random.choice([1_000, 10_000, 700_000])
            if fleet.threads and random.random() < 0.4:
                fleet.round()
            fleet.start(process, wiped=random.random() < 0.3)
            if random.random() < 0.5:
                fleet.round()
        if random.random() < 0.7:
            fleet.rest()
    fleet.rest()
    owners = fleet.owners()
    assert len(owners) == 18
    assert max(map(list(owners.values()).count, range(3))) == 6
