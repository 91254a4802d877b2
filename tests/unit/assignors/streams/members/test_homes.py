"""A process that goes and comes back, decision by decision: what is remembered of it, and for how long."""

from dataclasses import replace

from bellwether_kafka.assignors.shared import NOBODY, Decision
from bellwether_kafka.assignors.streams import STOCK, Assignors, TaskPlan, stock
from bellwether_kafka.assignors.streams.application import AssignmentConfigs
from bellwether_kafka.assignors.streams.policies import STREAMS_HA, assign_streams
from bellwether_kafka.assignors.streams.stages import NO_STAGES, StageConfigs
from bellwether_kafka.protocol.primitives import ProcessId, TaskId
from tests.kit.streams import NOW_MS, Thread, group, led

WINDOW_MS = 60_000
CONFIGS = AssignmentConfigs(acceptable_recovery_lag=100)
A, B = Thread("a", 1), Thread("b", 2)


def staged(stages: StageConfigs) -> Assignors:
    return replace(stock(stages), assign=lambda view, configs, _: assign_streams(view, configs, STREAMS_HA, stages))


def scenario(stages: StageConfigs, sums: dict[tuple[int, int], int], away_ms: int = 1000) -> list[Decision[TaskPlan]]:
    """Two processes; the second goes, and comes back with these sums."""
    decisions: list[Decision[TaskPlan]] = []
    a, b = A, B
    for generation, (members, now_ms) in enumerate(
        [("ab", NOW_MS), ("a", NOW_MS), ("ab", NOW_MS + away_ms), ("ab", NOW_MS + away_ms)], start=1
    ):
        b = replace(b, member_id="c", sums=sums, owned=(), generation=-1) if generation == 3 else b
        present = [{"a": a, "b": b}[name] for name in members]
        decision = led(
            group(*present, generation=generation),
            memory=decisions[-1].plan.memory if decisions else None,
            configs=CONFIGS,
            assignors=staged(stages),
            now_ms=now_ms,
        )
        decisions.append(decision)
        a = a.after(decision)
        b = b.after(decision) if "b" in members else b
    return decisions


def test_the_tasks_of_a_process_that_went_have_their_home_there() -> None:
    both, alone, back, _ = scenario(StageConfigs(host_affinity_ms=WINDOW_MS), {(1, 2): 950, (1, 3): 940})
    mine = {task for task in both.plan.tasks_of("b")[0] if task.subtopology == 1}
    assert len(mine) == 2
    assert {task for task, home in alone.plan.memory.homes.items() if home.process_id == ProcessId(0, 2)} == mine
    assert (alone.plan.target.active != NOBODY).all(), "meanwhile the other process runs everything"
    assert (alone.plan.view.home == NOBODY).all()
    at_home = [back.plan.view.tasks.task_id(t) for t, p in enumerate(back.plan.view.home.tolist()) if p != NOBODY]
    assert set(at_home) == mine & {TaskId(1, 2), TaskId(1, 3)}


def test_it_gets_back_just_these() -> None:
    both, _, back, _ = scenario(
        StageConfigs(host_affinity_ms=WINDOW_MS), {(1, partition): 950 + partition for partition in range(4)}
    )
    mine = {task for task in both.plan.tasks_of("b")[0] if task.subtopology == 1}
    second = back.plan.view.tasks
    wanted = {
        second.task_id(t) for t, p in enumerate(back.plan.target.active.tolist()) if p == 1 and second.stateful[t]
    }
    assert wanted == mine
    assert any(report.stage.startswith("host affinity") for report in back.stages)


def test_a_process_without_the_state_has_no_home_any_more() -> None:
    *_, back, _ = scenario(StageConfigs(host_affinity_ms=WINDOW_MS), {})
    assert (back.plan.view.home == NOBODY).all()
    assert not back.plan.memory.homes


def test_after_its_time_nothing_is_remembered() -> None:
    *_, back, _ = scenario(StageConfigs(host_affinity_ms=WINDOW_MS), {(1, 2): 950}, away_ms=WINDOW_MS + 1)
    assert not back.plan.memory.homes


def test_without_the_stage_nothing_is_remembered_at_all() -> None:
    assert stock(NO_STAGES) is STOCK
    assert not any(decision.plan.memory.homes for decision in scenario(NO_STAGES, {(1, 2): 950}))
