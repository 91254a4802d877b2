"""What people read about stages: in explanations of single tasks, and in the picture of a whole rebalance."""

from dataclasses import replace

from bellwether_kafka.assignors.explain import explain
from bellwether_kafka.assignors.shared import Decision
from bellwether_kafka.assignors.streams import TaskPlan, stock
from bellwether_kafka.assignors.streams.policies import STREAMS_HA, assign_streams
from bellwether_kafka.assignors.streams.stages import StageConfigs
from bellwether_kafka.coordinator.web import picture_of
from tests.kit.streams import Thread, always, group, led, placed

A, B = Thread("a", 1), Thread("b", 2)


def rebalance_with(stages: StageConfigs) -> Decision[TaskPlan]:
    """Each process runs the other half of the stateless tasks (0_0 to 0_3) than of the stateful ones (1_0 to 1_3)."""
    first = led(group(A, B), assignors=always(placed([0, 0, 1, 1, 1, 1, 0, 0])))
    assignors = replace(
        stock(stages), assign=lambda view, configs, _: assign_streams(view, configs, STREAMS_HA, stages)
    )
    return led(group(A.after(first), B.after(first), generation=2), memory=first.plan.memory, assignors=assignors)


def test_a_task_that_followed_its_anchor_says_so() -> None:
    decision = rebalance_with(StageConfigs(colocate=((0, 1),)))
    assert decision.plan.target.active.tolist() == [1, 1, 0, 0, 1, 1, 0, 0]
    reported = [explain(decision, task) for task in range(8)]
    assert [sentence.stage for sentence in reported[:4]] == ["co-location, stateless tasks"] * 4
    assert "co-location" in reported[0].sentence
    assert all(sentence.stage.startswith("placement by") for sentence in reported[4:])


def test_a_task_that_waits_for_the_budget_says_so() -> None:
    decision = rebalance_with(StageConfigs(colocate=((0, 1),), max_concurrent_moves=2))
    reported = [explain(decision, task).stage for task in range(4)]
    assert sorted(reported) == ["co-location, stateless tasks"] * 2 + ["moves budget, stateless tasks"] * 2


def test_a_picture_of_the_rebalance_has_a_line_for_every_stage() -> None:
    stages = StageConfigs(
        host_affinity_ms=60_000, colocate=((0, 1), (7, 8)), capacity_tag="cores", max_concurrent_moves=4
    )
    picture = picture_of(rebalance_with(stages))
    names = [line.stage.split(",")[0] for line in picture.stages]
    for name in ("capacity", "host affinity", "co-location", "moves budget"):
        assert name in names
    assert any("colocate names subtopologies" in line.reason for line in picture.stages)
    assert any("threads weigh" in line.reason for line in picture.stages)


def test_a_place_means_processes_by_rack_id_and_the_ids_of_threads() -> None:
    plan = led(group(Thread("a", 1, rack="az1"), Thread("b", 2, rack="az2"))).plan
    (first, second) = plan.owners

    def meant(where: str) -> list[str]:
        return [owner.name for owner, named in zip(plan.owners, plan.named(where), strict=True) if named]

    assert meant("rack:az1") == [first.name]
    assert meant(f"member:{second.name}") == meant(f"member:{second.members[0]}") == [second.name]
    assert meant("member:nobody") == []
