"""Whatever is remembered of processes that restart, right or wrong: nobody waits for it, and the application comes to
rest."""

from random import Random

import numpy as np
import pytest

from bellwether_kafka.assignors.shared import NOBODY, Decision
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.assignors.streams.application import NO_STRATEGY, StreamsView, is_caught_up
from bellwether_kafka.assignors.streams.policies import STREAMS_HA
from tests.unit.assignors.streams.fleet import Fleet

RETURNING_MS = 5_000

SEEDS = 12
EVENTS = 8


def really_near(view: StreamsView, acceptable_lag: int) -> set[tuple[int, int]]:
    """(task, process) pairs that have caught up by their own word, or because there is next to nothing to restore."""
    process = view.report.row
    message = is_caught_up(view.report_lag, acceptable_lag)
    if len(view.report_hidden):
        message &= ~view.report_hidden
    pairs = set(zip(view.report.values[message].tolist(), process[message].tolist(), strict=True))
    small = np.flatnonzero(view.tasks.end_sum <= acceptable_lag).tolist()
    return pairs | {(task, p) for task in small for p in range(view.size)}


def check(decision: Decision[TaskPlan]) -> None:
    """Where processes could go on with a task at once, such a process is given it."""
    go_on(decision, set())


def check_durable(decision: Decision[TaskPlan]) -> None:
    """Or the process that ran it until now, and has come back within this rebalance or a moment ago."""
    view, memory = decision.plan.view, decision.plan.memory
    process = view.report.row
    rows = np.flatnonzero(view.report_hidden & (view.report_lag == 0)).tolist() if len(view.report_hidden) else []
    trusted = {(int(view.report.values[i]), int(process[i])) for i in rows}
    for _, p in trusted:
        restarted_ms = memory.records[view.processes[p].process_id].restarted_ms
        assert restarted_ms is not None
        assert view.now_ms - restarted_ms <= RETURNING_MS
    go_on(decision, trusted)


def go_on(decision: Decision[TaskPlan], trusted: set[tuple[int, int]]) -> None:
    view, active = decision.plan.view, decision.plan.target.active.tolist()
    near = really_near(view, decision.plan.configs.acceptable_recovery_lag) | trusted
    able = {task for task, _ in near}
    late = [t for t in able if view.tasks.stateful[t] and (t, active[t]) not in near]
    assert not late, [str(view.tasks.task_id(t)) for t in late]
    assert (decision.plan.target.active != NOBODY).all()


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("strategy", [NO_STRATEGY, "min_traffic"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_task_waits_for_a_memory(seed: int, strategy: str, durable: bool) -> None:
    """Processes restart, together too, come back early, late or empty, and are asked in between or not."""
    random = Random(seed)
    fleet = Fleet(STREAMS_HA, strategy, durable=durable)
    fleet.each_rebalance = check_durable if durable else check
    for _ in range(EVENTS):
        for process in random.sample(range(3), random.choice([1, 1, 1, 2, 3])):
            fleet.stop(process)
            fleet.now_ms += random.choice([1_000, 10_000, 700_000])
            if fleet.threads and random.random() < 0.4:
                fleet.rebalance()
            fleet.start(process, wiped=random.random() < 0.3)
            if random.random() < 0.5:
                fleet.rebalance()
        if random.random() < 0.7:
            fleet.rest()
    fleet.settle()
    owners = fleet.owners()
    assert len(owners) == 18
    assert max(map(list(owners.values()).count, range(3))) == 6
