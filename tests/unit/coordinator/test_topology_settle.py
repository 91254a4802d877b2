"""A learned topology in which it is open whose a changelog is: what the members of our own rounds say of it."""

import asyncio
import time
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from assignors.model import LongArray
from assignors.streams.memory import StreamsMemory
from assignors.streams.model import Subtopology
from assignors.streams.topology import Topology
from coordinator.commands import Decide
from coordinator.planning import PlanError
from coordinator.topology_settle import GUESSED, Settled, settle
from protocol.streams_subscription import LATEST_OFFSET
from tests.unit.assignors.scenes import cluster_of
from tests.unit.assignors.streams.world import SHOP, SHOP_COUNTS, Thread, group, led
from tests.unit.coordinator.applications import App, Known

CHANGELOG = "shop-totals-changelog"
OPEN = replace(
    SHOP,
    source="learned",
    subtopologies=tuple(replace(s, changelogs=()) for s in SHOP.subtopologies),
    undecided=(CHANGELOG,),
)
EQUAL = {"t": 2, "u": 2, "app-s-changelog": 2, "app-r-changelog": 2}
TWO = Topology(
    "app",
    (Subtopology(0, ("t",)), Subtopology(1, ("u",))),
    "learned",
    undecided=("app-r-changelog", "app-s-changelog"),
)
ENDS = {"app-s-changelog": np.array([5001, 4900]), "app-r-changelog": np.array([92, 100])}
NOTHING: Mapping[str, LongArray] = {}
A, B = Thread("a", 1), Thread("b", 2)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def held(*threads: Thread, topology: Topology = SHOP, counts: Mapping[str, int] = SHOP_COUNTS) -> StreamsMemory:
    """What is known of a group that runs all its tasks on these threads."""
    return led(group(*threads), topology=topology, counts=dict(counts)).memory


def of_two(*threads: Thread, ends: Mapping[str, LongArray] = ENDS) -> Settled:
    ran = [replace(t, topics=("t", "u")) for t in threads]
    plain = replace(TWO, undecided=(), source="file")
    return settle(
        TWO,
        group(*ran),
        held(*(replace(t, sums={}) for t in ran), topology=plain, counts=EQUAL),
        cluster_of(EQUAL),
        ends,
    )


def test_a_thread_that_has_lost_its_tasks_tells_who_keeps_state() -> None:
    """It reports offsets of all that it ran and kept state of; of what it ran and does not report, it kept none."""
    lost = replace(A, member_id="a'", sums={(1, p): 70 + p for p in range(4)})
    found = settle(OPEN, group(lost), held(A), cluster_of(SHOP_COUNTS), NOTHING)
    assert found.open == ()
    assert found.topology.digest == SHOP.digest
    assert found.topology.source == "learned"


def test_so_does_one_that_runs_them() -> None:
    ran = A.after(led(group(A)))
    found = settle(OPEN, group(ran), StreamsMemory.empty(), cluster_of(SHOP_COUNTS), NOTHING)
    assert found.topology.digest == SHOP.digest


def test_offsets_tell_two_stores_apart() -> None:
    found = of_two(Thread("a", 1, sums={(0, 0): 5000, (0, 1): 4900, (1, 0): 90, (1, 1): 100}))
    assert found.open == ()
    assert [s.changelogs for s in found.topology.subtopologies] == [("app-s-changelog",), ("app-r-changelog",)]


def test_two_stores_of_tasks_that_run_stay_open() -> None:
    running = {(s, p): LATEST_OFFSET for s in (0, 1) for p in (0, 1)}
    found = of_two(Thread("a", 1, sums=running))
    assert found.open == ("app-r-changelog", "app-s-changelog")
    assert not found.told
    assert found.topology.source == GUESSED
    assert [len(s.changelogs) for s in found.topology.subtopologies] == [1, 1], "both keep state, whichever it is"


def test_offsets_that_fit_both_ways_stay_open() -> None:
    same = {t: np.array([100, 100]) for t in ENDS}
    found = of_two(Thread("a", 1, sums={(s, p): 100 for s in (0, 1) for p in (0, 1)}), ends=same)
    assert found.open
    assert found.told


def test_a_member_that_cannot_be_read_says_nothing() -> None:
    found = settle(OPEN, group(A.with_user_data(b"\x00")), StreamsMemory.empty(), cluster_of(SHOP_COUNTS), NOTHING)
    assert found.open == (CHANGELOG,)


def test_state_that_fits_no_changelog_leaves_it_open() -> None:
    """Both subtopologies keep state and there is one changelog of two sources: nothing is certain."""
    counts = {"t": 2, "x": 2, "u": 2, "app-s-changelog": 2}
    topology = Topology(
        "app", (Subtopology(0, ("t", "x")), Subtopology(1, ("u",))), "learned", undecided=("app-s-changelog",)
    )
    running = Thread("a", 1, ("t", "u", "x"), sums={(s, p): LATEST_OFFSET for s in (0, 1) for p in (0, 1)})
    found = settle(topology, group(running), StreamsMemory.empty(), cluster_of(counts), NOTHING)
    assert found.open == ("app-s-changelog",)


def open_app() -> App:
    app = App(known=Known(OPEN))
    app.known.witnesses = frozenset({"a", "b"})
    return app


def order(app: App, generation: int, *threads: Thread) -> Decide:
    return app.order(generation, *threads, deadline=time.monotonic() + 5.0)


def test_one_process_is_led_all_the_same_and_what_it_says_later_is_kept() -> None:
    async def story() -> None:
        app = open_app()
        planned = await app.planner.plan(order(app, 1, A))
        decision = planned.chosen.decision
        assert not decision.lags_known
        assert (decision.plan.active == 0).all()
        app.planner.delivered(1)
        assert app.known.topology is OPEN, "nothing has been said yet"
        planned = await app.planner.plan(order(app, 2, A.after(decision)))
        assert planned.chosen.decision.lags_known
        app.planner.delivered(2)
        assert app.known.topology is not None
        assert app.known.topology.digest == SHOP.digest

    run(story())


def test_beside_others_a_java_member_leads_until_enough_has_been_said() -> None:
    async def story() -> None:
        app = open_app()
        with pytest.raises(PlanError, match=f"which subtopology these belong to: {CHANGELOG}"):
            await app.planner.plan(order(app, 1, A, B))
        assert app.known.topology is OPEN

    run(story())


def test_a_leader_may_be_removed_to_hear_its_offsets_once_but_not_where_others_say_theirs() -> None:
    async def story() -> None:
        app = open_app()
        assert (await app.planner.compare(order(app, -1, A, B))).decision.view.size == 2
        app = App(known=Known(replace(TWO, application_id="shop")))
        app.known.witnesses = frozenset({"a", "b"})
        app.cluster.counts = dict(EQUAL)
        threads = [replace(t, topics=("t", "u"), sums={(0, 0): 7, (1, 0): 7}) for t in (A, B)]
        with pytest.raises(PlanError, match="which subtopology these belong to"):
            await app.planner.compare(order(app, -1, *threads))

    run(story())


def test_what_a_person_left_open_in_a_file_is_not_led() -> None:
    async def story() -> None:
        app = App(known=Known(replace(OPEN, source="file")))
        with pytest.raises(PlanError, match="does not say which subtopology"):
            await app.planner.plan(order(app, 1, A))

    run(story())
