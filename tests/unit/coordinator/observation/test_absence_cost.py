"""What the end of a member would cost, computed by hand."""

from dataclasses import replace

import numpy as np
import pytest

from bellwether_kafka.assignors.shared import Decision, RawMember
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.coordinator.observation import GUARD, Ending, Pace, absence_cost, costliest_crash
from tests.kit.plans import decided, member
from tests.kit.streams import one_holds_all

PACE = Pace(restore_records_per_s=50.0)


def cost_of(ending: Ending, decision: Decision[TaskPlan], pace: Pace = PACE):  # type: ignore[no-untyped-def]
    return absence_cost(ending, decision, decision.plan.owner, 0, pace)


def test_a_crash_waits_for_the_session_and_for_the_task_that_restores_longest() -> None:
    cost = cost_of(Ending.CRASH, one_holds_all(t0=1000, t1=950, t2=400))
    assert (cost.items, cost.by, cost.unhelped) == (8, GUARD, "")
    assert cost.restored == 0 + 50 + 600 + 1000, "the last one has no copy: its changelog is read from its beginning"
    assert (cost.as_it_is.unowned_s, cost.as_it_is.restoring_s) == (48.0, 20.0), "45 + 3; 1,000 at 50 a second"
    assert cost.helped.seconds == pytest.approx(0.2 + 3.0 + 20.0)
    assert cost.beforehand_s is None


def test_an_evacuation_moves_the_restoring_to_before_the_stop() -> None:
    cost = cost_of(Ending.RESTART, one_holds_all(t0=1000, t1=950, t2=400))
    assert cost.as_it_is.seconds == 48.0, "the ghost's session; its own disk has the state"
    assert (cost.by, cost.helped.unowned_s) == ("evacuation", 3.0)
    assert cost.helped.restoring_s == 2.0, "no copy lacks more than the 100 that count as caught up"
    assert cost.beforehand_s == 20.0, "600 and 1,000 are restored at the same time"


def test_warm_ups_that_take_turns_take_longer() -> None:
    cost = cost_of(Ending.REMOVE, one_holds_all())
    assert cost.as_it_is.seconds == 48.0 + 20.0, "the state on its disk is gone with it"
    assert cost.beforehand_s == 40.0, "four tasks, two at a time"


def test_nobody_knows_how_long_state_takes_at_an_unknown_rate() -> None:
    unknown = cost_of(Ending.CRASH, one_holds_all(t0=1000), Pace())
    assert (unknown.as_it_is.unowned_s, unknown.as_it_is.seconds, unknown.helped.seconds) == (48.0, None, None)
    caught_up = cost_of(Ending.CRASH, one_holds_all(t0=1000, t1=1000, t2=1000, t3=1000), Pace())
    assert caught_up.helped.seconds == 3.2, "nothing is to be restored at whatever rate"


def test_without_known_ends_only_what_runs_elsewhere_is_known() -> None:
    decision = one_holds_all(t0=1000)
    table = replace(decision.plan.view.tasks, end_sum=np.full(8, -3, dtype=np.int64))
    lags = np.full(len(decision.plan.view.report_lag), -3, dtype=np.int64)
    blind = replace(
        decision, plan=replace(decision.plan, view=replace(decision.plan.view, tasks=table, report_lag=lags))
    )
    cost = cost_of(Ending.CRASH, blind)
    assert (cost.restored, cost.as_it_is.seconds) == (None, None)


def test_a_policy_that_ignores_evacuations_leaves_the_guard() -> None:
    cost = cost_of(Ending.RESTART, one_holds_all("kafka", t0=1000))
    assert (cost.by, cost.beforehand_s) == (GUARD, None)
    assert cost.unhelped == 'the policy kafka ignores evacuations; set policy = "streams-ha"'
    assert cost.helped.seconds == pytest.approx(23.2), "worse than its own disk, but sooner"


def test_a_consumer_that_leaves_costs_a_heartbeat_and_one_that_dies_its_session() -> None:
    decision = decided(member("a-1", None), member("b-1", None))
    seconds = {
        ending: (cost.as_it_is.seconds, cost.helped.seconds)
        for ending in Ending
        for cost in (absence_cost(ending, decision, decision.plan.owner, 0, Pace(10_000, 1_000)),)
    }
    assert seconds == {"restart": (1.0, 1.0), "crash": (11.0, 1.2), "remove": (1.0, 1.0)}


def test_a_static_consumer_does_not_leave() -> None:
    def static(name: str) -> RawMember:
        return replace(member(name, None), instance_id=name)

    decision = decided(static("a"), static("b"))
    cost = absence_cost(Ending.RESTART, decision, decision.plan.owner, 0, Pace(10_000, 1_000))
    assert (cost.as_it_is.seconds, cost.by, cost.helped.seconds) == (11.0, "evacuation", 1.0)
    dead = absence_cost(Ending.CRASH, decision, decision.plan.owner, 0, Pace(10_000, 1_000))
    assert (dead.as_it_is.seconds, dead.helped.seconds) == (11.0, 11.0), "no guard removes a static member"


def test_the_costliest_crash_is_that_of_whom_most_is_to_be_restored() -> None:
    decision = one_holds_all(t0=1000)
    cost = costliest_crash(decision, decision.plan.owner)
    assert cost is not None
    assert (cost.items, cost.restored) == (8, 3000)
    assert costliest_crash(decision, np.full(8, -1, dtype=np.int32)) is None
    consumers = decided(member("a-1", None), member("b-1", None))
    most = costliest_crash(consumers, np.array([1, 1, 1, 0], dtype=np.int32))
    assert most is not None
    assert (most.member, most.items) == ("b-1", 3)
