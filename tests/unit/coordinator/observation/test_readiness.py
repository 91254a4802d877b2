"""Whether a member that was away has its share again."""

from dataclasses import replace

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, Decision, GroupPlan, Rule
from bellwether_kafka.coordinator.observation import Observation, Shadow, Unknown, unready
from bellwether_kafka.protocol.primitives import ProcessId
from tests.kit.plans import decided, member
from tests.kit.streams import Thread, always, group, led, placed

A, B = Thread("a", 1), Thread("b", 2)


def seen(decision: Decision[GroupPlan], reported_tasks: object = None, state: str = "Stable") -> Observation:
    owner = decision.plan.owner if reported_tasks is None else np.array(reported_tasks, dtype=np.int32)
    return Observation("g", "classic", state, "range", 0, shadow=Shadow.of(decision, owner))


def test_a_member_with_all_that_the_plan_gives_it_is_ready() -> None:
    decision = decided(member("a-1", None), member("b-1", None))
    assert unready(seen(decision), "member:a-1", ()) == ""


def test_what_is_still_to_come_is_named() -> None:
    decision = decided(member("a-1", None), member("b-1", None))
    its = np.flatnonzero(decision.plan.owner == 0)
    copied = decision.plan.owner.copy()
    copied[its] = (1, NOBODY)
    names = ", ".join(decision.plan.names(its))
    assert unready(seen(decision, copied), "member:a-1", ()) == f"member:a-1 does not have {names} yet."


def test_one_that_is_not_there_or_whose_order_has_not_ended_is_not_ready() -> None:
    decision = decided(member("a-1", None), member("b-1", None))
    assert unready(seen(decision), "member:c-1", ()) == "member:c-1 is not in the group."
    empties = Rule("ban", "*", "member:a-1")
    assert "waits for the end of the order to empty it" in unready(seen(decision), "member:a-1", (empties,))
    assert unready(seen(decision), "member:b-1", (empties, Rule("ban", "t-0", "member:b-1"))) == ""


def test_of_a_group_that_moves_or_has_no_plan_nothing_is_known() -> None:
    decision = decided(member("a-1", None))
    assert "is not Stable" in unready(seen(decision, state="PreparingRebalance"), "member:a-1", ())
    bare = replace(seen(decision), shadow=None, trouble="its topics are unknown")
    assert unready(bare, "member:a-1", ()) == "There is no plan for it: its topics are unknown."


def test_a_group_whose_coordinator_node_loads_is_not_known_rather_than_absent() -> None:
    unknown = Unknown("its coordinator node answers COORDINATOR_LOAD_IN_PROGRESS", 0)
    loading = replace(Observation("g", "unknown", "", "", 0, trouble=unknown.reason), unknown=unknown)
    assert unready(loading, "member:a-1", ()) == f"Whether it is ready is not known: {unknown.reason}."
    last_known = replace(seen(decided(member("a-1", None))), unknown=unknown)
    assert "is not known" in unready(last_known, "member:a-1", ())


def test_state_that_warms_up_is_not_back_yet() -> None:
    first = led(group(A, B), assignors=always(placed([0] * 8)))
    warming = placed([0] * 8, [(4, 1), (5, 1)])
    warming = replace(warming, warmup=np.array([True, False]))
    decision = led(
        group(A.after(first), B.after(first), generation=2), memory=first.plan.memory, assignors=always(warming)
    )
    process = str(ProcessId(0, 2))
    assert unready(seen(decision), f"member:{process}", ()) == (
        f"member:{process} restores 1 task; 1_0 is 1000 records behind."
    )
    assert unready(seen(decision), "member:a", ()) == ""
