"""Changelogs with the application's prefix that are not its own: those of another application, and leftovers."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from bellwether_kafka.assignors.shared import AssignedMember, LongArray
from bellwether_kafka.assignors.streams.application import AssignmentConfigs, Subtopology, Topology
from bellwether_kafka.coordinator.topology import Learned
from bellwether_kafka.coordinator.topology.given_topology import contradiction
from tests.kit.streams import Thread
from tests.unit.assignors.streams.restoring import RestoringApplication
from tests.unit.coordinator.topology.live_groups import live

Lengths = dict[str, LongArray]

REP = "my-app-counts-repartition"
OWN, OTHER = "my-app-counts-changelog", "my-app-v2-counts-changelog"
COUNTED = Topology(
    "my-app",
    (Subtopology(0, ("orders",)), Subtopology(1, (REP,), repartition_sources=(REP,), changelogs=(OWN,))),
    "file",
)
COUNTS = {"orders": 4, REP: 4, OWN: 4}
SEEN = Topology("my-app", (Subtopology(0, ("orders",), changelogs=("my-app-seen-changelog",)),), "file")
SEEN_COUNTS = {"orders": 4, "my-app-seen-changelog": 4}


def learned(
    true: Topology,
    counts: dict[str, int],
    *more: str,
    applications: tuple[str, ...] = (),
    ends: Lengths | None = None,
) -> Learned:
    """From a group at rest, where these changelogs are there, too."""
    members = live(true, counts, stateful=tuple(true.stateful))
    return Learned.of(true.application_id, members, counts | dict.fromkeys(more, 4), ends, applications)


def test_a_changelog_of_a_running_application_with_a_longer_id_is_not_taken() -> None:
    for true, counts, foreign in (
        (COUNTED, COUNTS, OTHER),
        (SEEN, SEEN_COUNTS, "my-app-v2-seen-changelog"),
        (SEEN, SEEN_COUNTS, "my-app-v2-else-changelog"),
    ):
        topology = learned(true, counts, foreign, applications=("my-app-v2", "my-app-v"))
        assert topology.topology.digest == true.digest
        assert f"{foreign} is a changelog of the application my-app-v2" in topology.notes


def test_without_its_group_it_stays_undecided_and_is_named() -> None:
    topology = learned(COUNTED, COUNTS, OTHER)
    assert topology.topology.changelogs == (OWN,)
    assert topology.topology.undecided == (OTHER,)
    assert (
        f"{OTHER} may be a changelog of another application, my-app-v2, which has a store counts too" in topology.notes
    )
    assert any("or remove it if the application has no such store" in note for note in topology.notes)


def test_a_store_named_like_its_own_repartition_topic_is_its_own() -> None:
    """Whatever other ids begin alike."""
    topology = learned(COUNTED, COUNTS, applications=("my-app-counts", "my-app-coun"))
    assert topology.topology.digest == COUNTED.digest


def test_a_table_of_a_topic_that_nobody_reads_is_not_of_the_application() -> None:
    true = Topology("my-app", (Subtopology(0, ("users",), changelogs=("users",)),), "file")
    for foreign in (
        "my-app-v2-users-STATE-STORE-0000000000-changelog",
        "my-app-accounts-STATE-STORE-0000000000-changelog",
        "my-app-v2-KSTREAM-AGGREGATE-STATE-STORE-0000000003-changelog",
    ):
        topology = learned(true, {"users": 4}, foreign)
        assert topology.topology.digest == true.digest
        assert any(note.startswith(foreign) for note in topology.notes)


# ---- stores of an earlier version ------------------------------------------------------------------------------------

STORE = "app-KSTREAM-AGGREGATE-STATE-STORE-{:010}-changelog"
NEW, OLD = STORE.format(7), STORE.format(3)
ONE_STORE = Topology("app", (Subtopology(0, ("orders",), changelogs=(NEW,)),), "file")
ONE_COUNTS = {"orders": 4, NEW: 4}


def ends(**lengths: int) -> Lengths:
    return {{"new": NEW, "old": OLD}[name]: np.full(4, n, dtype=np.int64) for name, n in lengths.items()}


def copies(read: int, standbys: int = 1) -> Sequence[AssignedMember]:
    """Two instances with two tasks each. Each reports so many records of the tasks of the other one."""
    members = live(ONE_STORE, ONE_COUNTS, standbys, stateful=(0,))
    sums = [{(0, p): -2 if p % 2 == n else read for p in range(4)} for n in range(2)]
    threads = [Thread(m.member_id, n + 1, ONE_STORE.source_topics, sums[n]) for n, m in enumerate(members)]
    return [replace(m, metadata=t.raw.metadata) for m, t in zip(members, threads, strict=True)]


def found_with_both(
    members: Sequence[AssignedMember],
    now: Lengths | None = None,
    earlier: Lengths | None = None,
) -> Learned:
    return Learned.of("app", members, ONE_COUNTS | {OLD: 4}, now or ends(new=50_000, old=900_000), (), earlier)


def test_of_two_changelogs_of_one_subtopology_nothing_is_taken_that_nothing_proves() -> None:
    """An operator was added, and an unnamed store got another number: its old changelog is there for ever."""
    topology = found_with_both(live(ONE_STORE, ONE_COUNTS, stateful=(0,)))
    assert topology.topology.changelogs == ()
    assert topology.topology.undecided == (OLD, NEW)
    for topic in (OLD, NEW):
        assert any(note.startswith(f"{topic} may belong to subtopology 0, or be left over") for note in topology.notes)


def test_a_changelog_that_grows_is_in_use_and_the_other_one_stays_open() -> None:
    topology = found_with_both(live(ONE_STORE, ONE_COUNTS, stateful=(0,)), earlier=ends(new=49_999, old=900_000))
    assert (topology.topology.changelogs, topology.topology.undecided) == ((NEW,), (OLD,))


def test_changelogs_that_all_grow_are_all_in_use() -> None:
    topology = found_with_both(live(ONE_STORE, ONE_COUNTS, stateful=(0,)), earlier=ends(new=49_999, old=899_000))
    assert topology.topology.changelogs == (OLD, NEW)
    assert topology.topology.undecided == ()


def test_copies_that_have_caught_up_without_a_changelog_show_that_it_is_left_over() -> None:
    topology = found_with_both(copies(49_900))
    assert topology.topology.digest == ONE_STORE.digest
    assert f"{OLD} counts as a leftover, because copies have caught up without it" in topology.notes


def test_copies_that_have_read_more_than_either_has_show_that_both_are_in_use() -> None:
    assert found_with_both(copies(940_000)).topology.changelogs == (OLD, NEW)


@pytest.mark.parametrize("read", [1, 25_000, 48_000, 400_000])
def test_copies_on_their_way_show_nothing(read: int) -> None:
    """A copy that is being restored passes every sum."""
    topology = found_with_both(copies(read))
    assert OLD in {*topology.topology.undecided, *topology.topology.changelogs}


def test_directories_that_a_process_has_no_task_of_show_nothing() -> None:
    """Its earlier version may have written them, with the store that it had then."""
    assert found_with_both(copies(900_000, standbys=0)).topology.undecided == (OLD, NEW)


def test_the_stores_of_one_join_are_no_leftovers_of_each_other() -> None:
    pair = [f"app-KSTREAM-JOIN{side}-000000000{n}-store-changelog" for side, n in (("THIS", 4), ("OTHER", 5))]
    true = Topology("app", (Subtopology(0, ("t", "u"), changelogs=tuple(sorted(pair))),), "file")
    counts = {"t": 4, "u": 4} | dict.fromkeys(pair, 4)
    assert learned(true, counts).topology.digest == true.digest
    older = pair[0].replace("4-store", "2-store")
    assert {*learned(true, counts, older).topology.undecided} == {*pair, older}


def test_two_tables_of_one_topic_are_one_and_a_leftover() -> None:
    first, second = (f"app-users-STATE-STORE-000000000{n}-changelog" for n in (2, 5))
    true = Topology("app", (Subtopology(0, ("users",), changelogs=(second,)),), "file")
    counts = {"users": 4, second: 4}
    assert learned(true, counts).topology.digest == true.digest, "alone it is proven by its name"
    assert learned(true, counts, first).topology.undecided == (first, second)


SERVED = Topology("app", (Subtopology(0, ("orders",), changelogs=("orders",)),), "file")
STATELESS = Topology("app", (Subtopology(0, ("orders",)),), "file")


@pytest.mark.parametrize(
    ("true", "stateful"),
    [(ONE_STORE, (0,)), (SERVED, (0,)), (STATELESS, ())],
    ids=["renamed", "optimised", "stateless"],
)
def test_a_right_file_is_not_contradicted_by_a_leftover(true: Topology, stateful: tuple[int, ...]) -> None:
    counts = dict.fromkeys(true.topics, 4)
    members = live(true, counts, stateful=stateful)
    topology = Learned.of("app", members, counts | {OLD: 4}, {t: np.full(4, 9) for t in (OLD, *true.changelogs)})
    assert contradiction(true, topology.topology, by_size=topology.by_size, stateful=topology.stateful) == ""


def test_a_file_without_a_store_that_the_application_writes_to_is_contradicted() -> None:
    lacking = Topology("app", (Subtopology(0, ("orders",), changelogs=(OLD,)),), "file")
    topology = found_with_both(live(ONE_STORE, ONE_COUNTS, stateful=(0,)), earlier=ends(new=49_000, old=900_000))
    message = contradiction(lacking, topology.topology, by_size=topology.by_size, stateful=topology.stateful)
    assert f"has the changelog {NEW}" in message


def test_a_file_without_any_store_of_what_keeps_state_is_contradicted() -> None:
    topology = Learned.of("app", live(ONE_STORE, ONE_COUNTS, stateful=(0,)), ONE_COUNTS, ends(new=50_000))
    message = contradiction(STATELESS, topology.topology, by_size=topology.by_size, stateful=topology.stateful)
    assert f"has the changelog {NEW}" in message


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["kafka", "streams-ha"])
def test_an_application_with_a_leftover_grows_under_what_was_learned(policy: str) -> None:
    """With the leftover in its topology no copy ever caught up: a third instance never got a task, and probing never
    ended."""
    application = RestoringApplication(
        policy, AssignmentConfigs(num_standby_replicas=1), stores={"new": 50_000}, partitions=4
    )
    left = "shop-old-changelog"
    application.start(1)
    application.start(2)
    application.rest()
    application.idle(60_000)
    application.rebalance()
    decision = application.decision
    assert decision is not None
    given = dict(decision.assignments)
    members = [AssignedMember(n, None, t.raw.metadata, given[n]) for n, t in application.threads.items()]
    lengths = {"shop-new-changelog": np.full(4, 50_000), left: np.full(4, 900_000)}
    topology = Learned.of("shop", members, application.counts | {left: 4}, lengths)
    assert topology.topology.digest == application.topology.digest
    application.topology = topology.topology
    application.start(3)
    application.rest()
    assert 3 in application.rebalances[-1].owner.values()
    assert not application.rebalances[-1].probing
