"""A learned topology in which it is open whose a changelog is: what the members of its own rebalances say of it."""

import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from bellwether_kafka.assignors.shared import LongArray, RefusalError
from bellwether_kafka.assignors.streams import STOCK
from bellwether_kafka.assignors.streams.application import GUESSED, Subtopology, Topology
from bellwether_kafka.assignors.streams.members import StreamsMemory
from bellwether_kafka.coordinator.kafka.client import Offsets
from bellwether_kafka.coordinator.membership import Decide
from bellwether_kafka.coordinator.topology import settle
from bellwether_kafka.coordinator.topology.resolve_changelogs import Settled
from bellwether_kafka.protocol.messages import LATEST_OFFSET
from tests.kit.applications import App, Log, TopologySource
from tests.kit.consumers import cluster_of
from tests.kit.streams import CHANGELOG, SHOP, SHOP_COUNTS, Thread, group, led

OPEN = replace(
    SHOP,
    source="learned",
    subtopologies=tuple(replace(s, changelogs=()) for s in SHOP.subtopologies),
    undecided=(CHANGELOG,),
)
T, U = "app-t-repartition", "app-u-repartition"
EQUAL = {T: 2, U: 2, "app-s-changelog": 2, "app-r-changelog": 2}
TWO = Topology(
    "app",
    (Subtopology(0, (T,), repartition_sources=(T,)), Subtopology(1, (U,), repartition_sources=(U,))),
    "learned",
    undecided=("app-r-changelog", "app-s-changelog"),
)
ENDS = {"app-s-changelog": np.array([5001, 4900]), "app-r-changelog": np.array([92, 100])}
NOTHING: Mapping[str, LongArray] = {}
A, B = Thread("a", 1), Thread("b", 2)


def remembered(*threads: Thread, topology: Topology = SHOP, counts: Mapping[str, int] = SHOP_COUNTS) -> StreamsMemory:
    """What is known of a group that runs all its tasks on these threads."""
    return led(group(*threads), topology=topology, counts=dict(counts)).plan.memory


def of_two(*threads: Thread, ends: Mapping[str, LongArray] = ENDS) -> Settled:
    ran = [replace(t, topics=(T, U)) for t in threads]
    plain = replace(TWO, undecided=(), source="file")
    return settle(
        TWO,
        group(*ran),
        remembered(*(replace(t, sums={}) for t in ran), topology=plain, counts=EQUAL),
        cluster_of(EQUAL),
        ends,
    )


BOTH_WAYS = {(("app-s-changelog",), ("app-r-changelog",)), (("app-r-changelog",), ("app-s-changelog",))}


def changelogs_of(settled: Settled) -> set[tuple[tuple[str, ...], ...]]:
    return {tuple(s.changelogs for s in way.subtopologies) for way in settled.ways}


def test_a_thread_that_has_lost_its_tasks_shows_who_keeps_state() -> None:
    """It reports offsets of all that it ran and kept state of; of what it ran and does not report, it kept none."""
    lost = replace(A, member_id="a'", sums={(1, p): 70 + p for p in range(4)})
    settled = settle(OPEN, group(lost), remembered(A), cluster_of(SHOP_COUNTS), NOTHING)
    assert settled.open == ()
    assert settled.topology.digest == SHOP.digest
    assert settled.topology.source == "learned"


def test_so_does_one_that_runs_them() -> None:
    ran = A.after(led(group(A)))
    settled = settle(OPEN, group(ran), StreamsMemory.empty(), cluster_of(SHOP_COUNTS), NOTHING)
    assert settled.topology.digest == SHOP.digest


def test_offsets_distinguish_two_stores() -> None:
    topology = of_two(Thread("a", 1, sums={(0, 0): 5000, (0, 1): 4900, (1, 0): 90, (1, 1): 100}))
    assert topology.open == ()
    assert [s.changelogs for s in topology.topology.subtopologies] == [("app-s-changelog",), ("app-r-changelog",)]


def test_two_stores_of_tasks_that_run_stay_open() -> None:
    running = {(s, p): LATEST_OFFSET for s in (0, 1) for p in (0, 1)}
    topology = of_two(Thread("a", 1, sums=running))
    assert topology.open == ("app-r-changelog", "app-s-changelog")
    assert topology.topology.source == GUESSED
    assert [len(s.changelogs) for s in topology.topology.subtopologies] == [1, 1], "both keep state, whichever it is"


def test_offsets_that_fit_both_ways_stay_open() -> None:
    same = {t: np.array([100, 100]) for t in ENDS}
    topology = of_two(Thread("a", 1, sums={(s, p): 100 for s in (0, 1) for p in (0, 1)}), ends=same)
    assert topology.open
    assert changelogs_of(topology) == BOTH_WAYS


def test_what_a_member_has_read_beyond_the_end_of_is_none_of_the_ways() -> None:
    """Nobody is near any end, so it stays open; but only one of the two logs is as long as what was read of 0_0."""
    topology = of_two(Thread("a", 1, sums={(0, 0): 100, (0, 1): 50, (1, 0): 50, (1, 1): 50}))
    assert topology.open
    assert changelogs_of(topology) == {(("app-s-changelog",), ("app-r-changelog",))}


def test_a_changelog_may_be_left_over_from_an_older_version() -> None:
    """Three logs and two stores: which one nobody writes any more is open too."""
    three = tuple(f"app-{name}-changelog" for name in "qrs")
    topology = replace(TWO, undecided=three)
    running = Thread("a", 1, (T, U), sums={(s, p): LATEST_OFFSET for s in (0, 1) for p in (0, 1)})
    counts = dict.fromkeys((T, U, *three), 2)
    changelogs = changelogs_of(settle(topology, group(running), StreamsMemory.empty(), cluster_of(counts), NOTHING))
    assert changelogs >= BOTH_WAYS
    assert (("app-q-changelog", "app-s-changelog"), ("app-r-changelog",)) in changelogs
    assert len(changelogs) == 12
    assert all(all(way) for way in changelogs), "all state has a changelog"


def test_a_source_topic_may_serve_as_a_changelog() -> None:
    counts = {"t": 2, "u": 2, "app-s-changelog": 2, "app-r-changelog": 2}
    topology = replace(TWO, subtopologies=(Subtopology(0, ("t",)), Subtopology(1, ("u",))))
    running = Thread("a", 1, ("t", "u"), sums={(s, p): LATEST_OFFSET for s in (0, 1) for p in (0, 1)})
    changelogs = changelogs_of(settle(topology, group(running), StreamsMemory.empty(), cluster_of(counts), ENDS))
    assert (("app-r-changelog", "app-s-changelog"), ("u",)) in changelogs


def test_a_member_that_cannot_be_read_says_nothing() -> None:
    settled = settle(OPEN, group(A.with_user_data(b"\x00")), StreamsMemory.empty(), cluster_of(SHOP_COUNTS), NOTHING)
    assert settled.open == (CHANGELOG,)


def test_state_that_fits_no_changelog_leaves_it_open() -> None:
    """Both subtopologies keep state and there is one changelog of two sources: nothing is certain."""
    counts = {"t": 2, "x": 2, "u": 2, "app-s-changelog": 2}
    topology = Topology(
        "app", (Subtopology(0, ("t", "x")), Subtopology(1, ("u",))), "learned", undecided=("app-s-changelog",)
    )
    running = Thread("a", 1, ("t", "u", "x"), sums={(s, p): LATEST_OFFSET for s in (0, 1) for p in (0, 1)})
    settled = settle(topology, group(running), StreamsMemory.empty(), cluster_of(counts), NOTHING)
    assert settled.open == ("app-s-changelog",)


def open_app() -> App:
    app = App(topology_source=TopologySource(OPEN))
    app.topology_source.learned_from_members = frozenset({"a", "b"})
    return app


def order(app: App, generation: int, *threads: Thread) -> Decide:
    return app.order(generation, *threads, deadline=time.monotonic() + 5.0)


async def test_one_process_is_led_all_the_same_and_what_it_says_later_is_kept() -> None:
    app = open_app()
    planned = await app.planner.plan(order(app, 1, A))
    decision = planned.decision
    assert not decision.plan.lags_known
    assert (decision.plan.target.active == 0).all()
    app.planner.delivered(1)
    assert app.topology_source.topology is OPEN, "nothing has been said yet"
    planned = await app.planner.plan(order(app, 2, A.after(decision)))
    assert planned.decision.plan.lags_known
    app.planner.delivered(2)
    assert app.topology_source.topology is not None
    assert app.topology_source.topology.digest == SHOP.digest


class Ends(Log):
    """Logs of different lengths, the same for all partitions of each."""

    def __init__(self, lengths: Mapping[str, int]) -> None:
        super().__init__()
        self.lengths = lengths

    async def ends(self, topics: Mapping[str, int], limit_s: float) -> Offsets:
        return {t: np.full(n, self.lengths[t], dtype=np.int64) for t, n in topics.items()}


def app_of_two(ends: Mapping[str, int]) -> App:
    """Two subtopologies, both with state, and two changelogs of equal size; lags and standbys count."""
    app = App(
        topology_source=TopologySource(replace(TWO, application_id="app")),
        log=Ends(ends),
        assignors=STOCK,
        num_standby_replicas=1,
    )
    app.topology_source.learned_from_members = frozenset({"a", "b"})
    app.cluster.counts = dict(EQUAL)
    return app


def pair(read: int) -> tuple[Thread, Thread]:
    """Each runs one task of each subtopology, and has read so many records of the changelogs of the others."""
    running = {(s, p): LATEST_OFFSET for s in (0, 1) for p in (0, 1)}
    behind = dict.fromkeys(running, read)
    first, second = (0, 0), (1, 0)
    return (
        Thread("a", 1, (T, U), sums=behind | {first: LATEST_OFFSET, second: LATEST_OFFSET}),
        Thread("b", 2, (T, U), sums={t: read if t in (first, second) else LATEST_OFFSET for t in running}),
    )


async def test_several_processes_are_led_where_every_way_gives_the_same_plan() -> None:
    """Both logs are so nearly of one length that no report distinguishes them: nor do the plans differ."""
    app = app_of_two({"app-s-changelog": 502, "app-r-changelog": 500})
    planned = await app.planner.plan(order(app, 1, *pair(499)))
    decision = planned.decision
    assert decision.plan.lags_known
    assert decision.plan.target.active.tolist() == [0, 1, 0, 1], "everybody goes on with what runs there"
    app.planner.delivered(1)
    assert app.topology_source.topology is not None
    assert app.topology_source.topology.undecided == TWO.undecided, (
        "it stays open, and is looked at again in each round"
    )


async def test_several_processes_are_left_to_java_where_the_ways_differ() -> None:
    """One log is long and the other short: who has read half of the short one has caught up, or has hardly begun."""
    app = app_of_two({"app-s-changelog": 90_000, "app-r-changelog": 500})
    with pytest.raises(RefusalError, match="which subtopology these belong to: app-r-changelog, app-s-changelog"):
        await app.planner.plan(order(app, 1, *(replace(t, sums={}) for t in pair(0))))
    assert app.topology_source.topology is not None
    assert app.topology_source.topology.undecided


async def test_a_process_that_restarted_is_not_led_by_one_of_several_possibilities() -> None:
    app = app_of_two({"app-s-changelog": 500, "app-r-changelog": 500})
    a, b = pair(499)
    with pytest.raises(RefusalError, match="has restarted and may run another version"):
        await app.planner.plan(order(app, 1, a, replace(b, member_id="c", process=3)))


async def test_a_leader_may_be_removed_to_read_what_it_reports() -> None:
    """Before that nothing is known of a group at rest but what its members said when they joined."""
    app = app_of_two({"app-s-changelog": 90_000, "app-r-changelog": 500})
    assert (await app.planner.compare(order(app, -1, *pair(250)))).decision.plan.view.size == 2


async def test_what_a_person_left_open_in_a_file_is_not_led() -> None:
    app = App(topology_source=TopologySource(replace(OPEN, source="file")))
    with pytest.raises(RefusalError, match="does not say which subtopology"):
        await app.planner.plan(order(app, 1, A))
