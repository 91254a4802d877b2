"""What a change causes in an application: rebalances until it is at rest, moves, what is restored; and what cannot
be."""

from dataclasses import replace

import numpy as np
import pytest

from bellwether_kafka.assignors.shared import NOBODY, Change, WhatIfError
from bellwether_kafka.assignors.streams import STOCK, rebalances_of_tasks, whatif
from bellwether_kafka.assignors.streams.application import EndOffsets
from bellwether_kafka.assignors.streams.policies import BROKER_STICKY, assign_broker_sticky
from bellwether_kafka.assignors.streams.whatif import StreamsRebalance
from tests.kit.streams import END_OF_STORES, SHOP, Thread, group, led, settled_application

TWO = (Thread("a", 1), Thread("b", 2))


def loads(made: tuple[StreamsRebalance, ...]) -> list[int]:
    plan = made[-1].decision.plan
    return sorted(
        np.bincount(
            plan.target.active[plan.target.active != NOBODY], minlength=made[-1].decision.plan.view.size
        ).tolist()
    )


@pytest.mark.parametrize("policy", ["kafka", "streams-ha"])
def test_without_a_change_nothing_happens(policy: str) -> None:
    made = rebalances_of_tasks(*settled_application("az1", "az2", "az3"), Change(), policy)
    assert [(r.decision.moves.moved, r.decision.moves.new, r.restored) for r in made] == [(0, 0, 0)]


@pytest.mark.parametrize("policy", ["kafka", "streams-ha"])
def test_a_lost_rack_without_standbys_restores_its_tasks(policy: str) -> None:
    made = rebalances_of_tasks(*settled_application("az1", "az2", "az3"), Change(without_racks=("az3",)), policy)
    first = made[0].decision
    assert first.plan.view.size == 2
    assert first.moves.new == 8, "a third of 24 tasks"
    warmups = int(first.plan.target.warmup.sum())
    assert len(made[0].copies) == 4 + warmups, "and half of these have state"
    assert made[0].restored == len(made[0].copies) * END_OF_STORES
    assert loads(made) == [12, 12]
    assert not made[-1].decision.followup
    assert made[-1].decision.probing_at_ms is None


@pytest.mark.slow
def test_a_lost_process_with_standbys_moves_to_where_the_state_is_and_restores_new_standbys_only() -> None:
    present, holdings = settled_application("az1", "az2", "az3", standbys=1)
    lost = present.plan.view.processes[0]
    made = rebalances_of_tasks(present, holdings, Change(without_members=(str(lost.process_id),)), "kafka")
    by_thread = rebalances_of_tasks(present, holdings, Change(without_members=lost.members), "kafka")
    assert len(made) == len(by_thread)
    assert (made[0].decision.plan.target.active >= 0).all()
    assert made[0].restored > 0
    assert len(made[0].copies) * END_OF_STORES == made[0].restored
    ran = {task for member in lost.members for task in holdings[member].active if task.subtopology == 1}
    kept = {task for member in lost.members for task in holdings[member].standby}
    assert len(made[0].copies) == len(ran) + len(kept), (
        "each lost copy is made anew once, the tasks themselves run at once"
    )


@pytest.mark.slow
def test_new_processes_get_tasks_when_warm_ups_have_caught_up() -> None:
    present, holdings = settled_application("az1", "az2")
    made = rebalances_of_tasks(present, holdings, Change(new_members=("az3",)), "kafka")
    assert made[0].decision.plan.view.size == 3
    assert made[0].probing or made[0].decision.followup
    assert any(r.probing for r in made)
    assert loads(made) == [8, 8, 8]
    assert sum(r.restored for r in made) == END_OF_STORES * sum(len(r.copies) for r in made) >= 4 * END_OF_STORES, (
        "a third of those with state"
    )
    assert made[-1].restored == 0
    assert len(made[0].decision.plan.view.processes[0].members) == 2, "as many threads as those that are there"


def test_another_policy_moves_what_it_would_place_elsewhere() -> None:
    present, holdings = settled_application("az1", "az1", "az2")
    made = rebalances_of_tasks(present, holdings, Change(), "sticky")
    assert made[-1].decision.policy == "sticky"
    assert (made[-1].decision.plan.target.active >= 0).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (Change(without_racks=("moon",)), "No process of the application is in rack moon; their racks are az1, az2."),
        (Change(without_members=("x",)), "no thread or process x"),
        (Change(without_racks=("az1", "az2")), "Nobody would be left"),
        (Change(topics={"orders": 24}), "cannot grow"),
    ],
)
def test_what_cannot_be_is_one_sentence(change: Change, message: str) -> None:
    with pytest.raises(WhatIfError, match=message):
        rebalances_of_tasks(*settled_application("az1", "az2"), change, "kafka")


def test_what_would_come_cannot_be_reported_without_lags_or_threads() -> None:
    unknown = led(group(*TWO), ends=EndOffsets.failed("no answer"))
    with pytest.raises(WhatIfError, match="The ends of changelogs cannot be read"):
        rebalances_of_tasks(unknown, {}, Change(), "kafka")
    future = [thread.with_user_data((12).to_bytes(4) + (12).to_bytes(4)) for thread in TWO]
    with pytest.raises(WhatIfError, match="No thread can be read"):
        rebalances_of_tasks(led(group(*future)), {}, Change(new_members=("az1",)), "kafka")


def test_members_that_cannot_be_read_are_left_out_of_what_would_come() -> None:
    odd = Thread("odd", 3).with_user_data(b"\0\0")
    decision = led(group(*TWO, odd), ends=EndOffsets({"shop-totals-changelog": np.zeros(4, dtype=np.int64)}))
    made = rebalances_of_tasks(decision, {}, Change(), "kafka")
    assert made[-1].decision.plan.view.size == 2
    assert [r.restored for r in made] == [0] * len(made), "changelogs are empty"


def test_what_would_come_may_be_that_nobody_leads() -> None:
    present, holdings = settled_application("az1", "az2")
    broken = replace(present, plan=replace(present.plan, topology=replace(SHOP, undecided=("some-changelog",))))
    with pytest.raises(WhatIfError, match="It could not be led then: the topology does not say"):
        rebalances_of_tasks(broken, holdings, Change(), "kafka")


def test_rebalances_that_would_not_end_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whatif, "REBALANCES_MAX", 1)
    present, holdings = settled_application("az1", "az2")
    (made,) = rebalances_of_tasks(present, holdings, Change(new_members=("az3",)), "kafka")
    assert made.decision.followup or made.probing


def test_a_broker_places_tasks_without_warm_ups() -> None:
    """`broker-sticky` gives a new process its share at once, although it restores everything first."""
    now, holdings = settled_application("az1", "az2", standbys=1)
    broker = replace(STOCK, assign=assign_broker_sticky)
    made = rebalances_of_tasks(now, holdings, Change(new_members=("az3",)), BROKER_STICKY, broker)
    assert loads(made) == [8, 8, 8]
    assert not any(rebalance.decision.plan.target.warmup.any() for rebalance in made)
    assert made[0].restored > 0


@pytest.mark.parametrize(("release", "moved"), [("4.3", 8), ("4.4", 0)])
def test_a_broker_recognises_what_stopped_processes_have_on_their_disks_from_4_4_on(release: str, moved: int) -> None:
    """Tasks with state return to their processes. Up to 4.3 all are placed as in a new group."""
    now, _ = settled_application("az1", "az2", "az3")
    view, stateful = now.plan.view, now.plan.view.tasks.stateful
    plan = assign_broker_sticky(view, now.plan.configs, release=release, restarted=True)
    assert (plan.active >= 0).all()
    assert int((plan.active != now.plan.target.active)[stateful].sum()) == moved
