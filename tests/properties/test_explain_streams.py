"""What `explain` says of a task, against a plan that is made without the stage it names. The same for consumers is in
tests/unit/assignors/explain/test_explanation.py."""

from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from bellwether_kafka.assignors.explain import explain
from bellwether_kafka.assignors.shared import Decision, Rule
from bellwether_kafka.assignors.streams import TaskPlan, stock
from bellwether_kafka.assignors.streams.application import AssignmentConfigs
from bellwether_kafka.assignors.streams.policies import STREAMS_HA, assign_streams
from bellwether_kafka.assignors.streams.stages import NO_STAGES, StageConfigs
from tests.kit.streams import Thread, always, group, led, placed

TASKS = 8  # 0_0 to 0_3 have no state, 1_0 to 1_3 have
RULES = (Rule("ban", "*", "rack:az1"), Rule("pin", "1_2", "rack:az2"))
STAGES = {
    "co-location": StageConfigs(colocate=((0, 1),)),
    "moves budget": StageConfigs(max_concurrent_moves=1),
}
CAUGHT_UP = AssignmentConfigs(acceptable_recovery_lag=2**62)  # nothing has to be warmed up first


def decided(
    owners: list[int], racks: list[str | None], stages: StageConfigs, configs: AssignmentConfigs
) -> Decision[TaskPlan]:
    """A rebalance of processes that run these tasks, with these stages."""
    threads = [Thread(f"m{i}", i + 1, rack=rack) for i, rack in enumerate(racks)]
    first = led(group(*threads), assignors=always(placed([owner % len(racks) for owner in owners])))
    assignors = replace(
        stock(stages), assign=lambda view, configs, _: assign_streams(view, configs, STREAMS_HA, stages)
    )
    again = group(*(thread.after(first) for thread in threads), generation=2)
    return led(again, memory=first.plan.memory, assignors=assignors, configs=configs)


@settings(max_examples=80)
@given(
    owners=st.lists(st.integers(0, 3), min_size=TASKS, max_size=TASKS),
    racks=st.lists(st.sampled_from(["az1", "az2", None]), min_size=2, max_size=4),
    name=st.sampled_from(sorted(STAGES)),
)
def test_the_stage_named_is_the_one_without_which_the_task_would_be_elsewhere(
    owners: list[int], racks: list[str | None], name: str
) -> None:
    with_it = decided(owners, racks, STAGES[name], CAUGHT_UP)
    without = decided(owners, racks, NO_STAGES, CAUGHT_UP)
    for task in range(TASKS):
        if not with_it.plan.view.tasks.stateful[task]:
            continue  # these are placed beside where those with state end up
        reported = explain(with_it, task)
        if with_it.plan.target.active[task] != without.plan.target.active[task]:
            assert reported.stage.startswith(name), reported
        else:
            assert reported.stage.startswith("placement by"), reported


@settings(max_examples=80)
@given(
    owners=st.lists(st.integers(0, 3), min_size=TASKS, max_size=TASKS),
    racks=st.lists(st.sampled_from(["az1", "az2", None]), min_size=2, max_size=4),
)
@example(owners=[0] * 4 + [1] * 4, racks=["az1", "az2"])  # nothing is evened out
def test_the_operators_rules_are_named_for_what_they_take_from_its_owner(
    owners: list[int], racks: list[str | None]
) -> None:
    """Also where the task would be without them, and only there: what nothing takes away, the placement keeps."""
    decision = decided(owners, racks, StageConfigs(rules=RULES), CAUGHT_UP)
    plan = decision.plan
    taken = set(plan.against(RULES, plan.before).tolist())
    for task in range(TASKS):
        reported = explain(decision, task)
        assert reported.stage.startswith("operator's rules" if task in taken else "placement by"), reported
        if plan.target.suspended and task not in taken:
            assert reported.before == reported.after


@settings(max_examples=40)
@given(owners=st.lists(st.integers(0, 1), min_size=TASKS, max_size=TASKS))
def test_a_task_that_waits_for_its_warm_up_says_so(owners: list[int]) -> None:
    decision = decided(owners, [None, None, None], NO_STAGES, AssignmentConfigs(acceptable_recovery_lag=0))
    warming = set(decision.plan.target.standby_task[decision.plan.target.warmup].tolist())
    for task in range(TASKS):
        reported = explain(decision, task).stage
        assert (reported.startswith("task movement")) == (task in warming)
