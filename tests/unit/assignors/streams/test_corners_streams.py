"""Rare turns of deciding for applications: last checks that find something, racks in policies that are mostly asked for
other things, tables too large for the short way, bounds that are reached."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from bellwether_kafka.assignors.consumer.load_aware import LoadAware
from bellwether_kafka.assignors.explain.explanation import explain
from bellwether_kafka.assignors.shared.change import Change, WhatIfError
from bellwether_kafka.assignors.shared.group import DescribedMember
from bellwether_kafka.assignors.shared.model import NOBODY, ClusterView
from bellwether_kafka.assignors.shared.weights import Weights
from bellwether_kafka.assignors.streams import decide as deciding
from bellwether_kafka.assignors.streams import whatif
from bellwether_kafka.assignors.streams.api.bridge import from_plan, from_view
from bellwether_kafka.assignors.streams.application.model import AssignmentConfigs, StreamsPlan, ThreadPlan
from bellwether_kafka.assignors.streams.application.offsets import EndOffsets
from bellwether_kafka.assignors.streams.decide import Assignors
from bellwether_kafka.assignors.streams.members.memory import recall_streams
from bellwether_kafka.assignors.streams.placing.placement import Placement
from bellwether_kafka.assignors.streams.placing.priority_set import PrioritySet
from bellwether_kafka.assignors.streams.policies.assign import assign_streams
from bellwether_kafka.assignors.streams.policies.load_aware import cores, task_weights
from bellwether_kafka.assignors.streams.sending.validate import validate_plan
from bellwether_kafka.assignors.streams.stages.rules import _named
from bellwether_kafka.assignors.streams.threads.deal import _heap_order
from bellwether_kafka.assignors.streams.whatif import rounds_of_tasks
from bellwether_kafka.protocol.primitives.types import TopicPartition
from tests.unit.assignors.consumer.scenes import cluster_of
from tests.unit.assignors.streams.scenes import RACKS, Application, Instance, process_id
from tests.unit.assignors.streams.test_whatif import application
from tests.unit.assignors.streams.world import (
    SHOP,
    SHOP_COUNTS,
    Thread,
    always,
    by_turns,
    group,
    led,
    placed,
    refused,
    round_robin,
)

TWO = (Thread("a", 1), Thread("b", 2))


# ---- last checks ----------------------------------------------------------------------------------------------------


def test_where_not_even_the_fallback_has_a_plan_the_group_is_left() -> None:
    nowhere = placed([NOBODY] * 8)
    step = refused(group(*TWO), assignors=Assignors(lambda *_: nowhere, lambda *_: nowhere, by_turns))
    assert step.reason.startswith("no valid plan: task 0_0 runs nowhere; ")


def test_threads_of_another_process_are_found() -> None:
    def swapped(view: object, plan: StreamsPlan) -> ThreadPlan:
        return ThreadPlan((1 - plan.active).astype(np.int32), plan.standby_process)

    step = refused(group(*TWO), assignors=Assignors(round_robin, round_robin, swapped))
    assert step.reason.startswith("no valid plan on threads: task 0_0 is on a wrong thread; ")


@pytest.mark.parametrize(
    ("check", "reason"),
    [("validate_bytes", "the plan cannot be sent: odd"), ("validate_own", "odd")],
)
def test_bytes_that_do_not_hold_are_not_sent(monkeypatch: pytest.MonkeyPatch, check: str, reason: str) -> None:
    monkeypatch.setattr(deciding, check, lambda *_: ("odd",))
    assert refused(group(*TWO)).reason == reason


# ---- explanations ---------------------------------------------------------------------------------------------------


def test_alternatives_say_what_racks_would_gain_and_lose() -> None:
    threads = (Thread("a", 1, rack="a"), Thread("b", 2, rack="b"), Thread("c", 3))
    cluster = cluster_of(SHOP_COUNTS, racks=("a", "b"))
    decision = led(group(*threads), cluster=cluster, assignors=always(placed([0, 0, 1, 1, 0, 1, 2, 2])))
    told = [a.verdict for task in range(8) for a in explain(decision, task).alternatives]
    assert any("1 more partitions would be read from another rack" in verdict for verdict in told)
    assert any("1 fewer partitions would be read from another rack" in verdict for verdict in told)


def test_alternatives_say_that_a_lag_is_not_known() -> None:
    decision = led(group(*TWO), ends=EndOffsets.failed("no answer"))
    verdicts = [a.verdict for a in explain(decision, 4).alternatives if not a.chosen]
    assert verdicts == ["It has a lag that is not known."]


# ---- load and racks -------------------------------------------------------------------------------------------------


def test_load_is_levelled_inside_racks_and_stateless_tasks_beside_stateful_ones() -> None:
    instances = [Instance(process_id(n), rack=RACKS[n % 2], tags={"cores": "0"}) for n in range(4)]
    away = [p % 2 for p in range(12)] * 2  # tasks without a replica in rack a, then in rack b, in turn
    app = Application([(12, 10), (12, None)], instances, away)
    view = replace(app.view(), cluster=ClusterView.of({"t0": [[None]] * 12, "t1": [[None]] * 12}))
    assert cores(view).tolist() == [1, 1, 1, 1], "no cores are no statement"
    sizes = {TopicPartition(f"t{g}", p): 300.0 if p < 4 else 100.0 for g in range(2) for p in range(12)}
    load = LoadAware(Weights(sizes))
    plan = assign_streams(view, AssignmentConfigs(), "load-aware", load=load)
    assert validate_plan(view, plan) == ()
    rack = view.rack[plan.active]
    assert (view.tasks.source_remote[view.tasks.source_signature, rack] == 0).all(), "every task is near its replica"
    weight, _ = task_weights(view, load)
    assert weight is not None
    full = np.bincount(plan.active, weight, 4)
    assert full.max() / full.mean() < 1.15


def test_topics_that_are_not_known_weigh_nothing() -> None:
    view = Application([(2, None), (2, None)], [Instance(process_id(1))]).view()
    view = replace(view, cluster=ClusterView.of({"t0": [[None]] * 2}))
    weight, reason = task_weights(view, LoadAware(Weights({TopicPartition("t0", p): 5.0 for p in range(2)})))
    assert reason == ""
    assert weight is not None
    assert weight.tolist() == [1, 1, 0, 0]


# ---- small parts ----------------------------------------------------------------------------------------------------


def test_an_item_that_no_task_can_be_called_rules_nothing() -> None:
    table = Application([(2, None)]).table()
    assert not _named(table, "orders").any()
    assert not _named(table, "0_x").any()
    assert _named(table, "0").all()


def test_members_that_cannot_be_read_are_not_recalled() -> None:
    odd = DescribedMember("odd", None, b"\0", b"")
    good = DescribedMember("a", None, TWO[0].raw.metadata, b"")
    assert list(recall_streams(3, "stream", cluster_of(SHOP_COUNTS), [odd, good]).threads) == ["a"]


def test_a_task_without_owner_is_in_no_assignment() -> None:
    view = Application([(2, None)], [Instance(process_id(1))]).view()
    state = from_view(view, AssignmentConfigs())
    (assigned,) = from_plan(state, placed([NOBODY, 0])).values()
    assert [str(task) for task in assigned.tasks] == ["0_1"]


def test_what_is_removed_from_a_heap_leaves_a_heap() -> None:
    random = Random(8)
    for _ in range(300):
        tasks = random.sample(range(100), random.randint(1, 40))
        kept = random.sample(tasks, random.randint(0, len(tasks)))
        heap = _heap_order(tasks, kept, 0, [])
        assert sorted(heap) == sorted(set(tasks) - set(kept))
        assert all(heap[(at - 1) >> 1] < heap[at] for at in range(1, len(heap)))


def test_a_set_out_of_steps_answers_the_lightest() -> None:
    view = Application([(6, 100)], [Instance(process_id(n)) for n in range(1, 7)]).view()
    for steps in range(40):
        place = Placement(view)
        place.load = [3, 3, 3, 3, 3, 3]
        ours = PrioritySet(place, lambda: list(range(6)), steps=steps)
        for number in range(8):
            wanted = [number % 6, (number + 1) % 6, (number + 3) % 6]
            lightest = min(place.load[p] for p in wanted)
            found = ours.poll(wanted)
            assert found is not None
            assert place.load[found] == lightest
            place.load[found] += 1
            ours.offer(found, (found + 1) % 6, gained=1, polled=True)


# ---- what if --------------------------------------------------------------------------------------------------------


def test_what_would_come_cannot_be_told_without_lags_or_threads() -> None:
    unknown = led(group(*TWO), ends=EndOffsets.failed("no answer"))
    with pytest.raises(WhatIfError, match="The ends of changelogs cannot be read"):
        rounds_of_tasks(unknown, {}, Change(), "kafka")
    future = [thread.with_user_data((12).to_bytes(4) + (12).to_bytes(4)) for thread in TWO]
    with pytest.raises(WhatIfError, match="No thread can be read"):
        rounds_of_tasks(led(group(*future)), {}, Change(new_members=("az1",)), "kafka")


def test_members_that_cannot_be_read_are_left_out_of_what_would_come() -> None:
    odd = Thread("odd", 3).with_user_data(b"\0\0")
    decision = led(group(*TWO, odd), ends=EndOffsets({"shop-totals-changelog": np.zeros(4, dtype=np.int64)}))
    made = rounds_of_tasks(decision, {}, Change(), "kafka")
    assert made[-1].decision.plan.view.size == 2
    assert [r.restored for r in made] == [0] * len(made), "changelogs are empty"


def test_what_would_come_may_be_that_nobody_leads() -> None:
    present, held = application("az1", "az2")
    broken = replace(present, plan=replace(present.plan, topology=replace(SHOP, undecided=("some-changelog",))))
    with pytest.raises(WhatIfError, match="It could not be led then: the topology does not say"):
        rounds_of_tasks(broken, held, Change(), "kafka")


def test_rounds_that_would_not_end_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whatif, "ROUNDS_MAX", 1)
    present, held = application("az1", "az2")
    (made,) = rounds_of_tasks(present, held, Change(new_members=("az3",)), "kafka")
    assert made.decision.followup or made.probing
