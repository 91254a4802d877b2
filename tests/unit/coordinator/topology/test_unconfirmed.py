"""A learned topology that is unconfirmed: what contradicts it, and when it counts again."""

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from bellwether_kafka.assignors.shared import AssignedMember
from bellwether_kafka.assignors.streams.application import Subtopology, Topology
from bellwether_kafka.coordinator.observation.observer import ReadOnlyTopology
from bellwether_kafka.coordinator.topology.given_topology import contradiction
from tests.kit.streams import CHANGELOG, SHOP, A, B, Thread, group, led
from tests.unit.coordinator.topology.live_groups import keeper, shown

RETRY_S = 30.0
UNCONFIRMED = "no group of a member that leads has shown yet that the application has this topology"

FIRST, SECOND = SHOP.subtopologies


NEW = "shop-sums-changelog"


def parts(*subtopologies: Subtopology, undecided: tuple[str, ...] = (), source: str = "learned") -> Topology:
    return Topology("shop", subtopologies, source, undecided=undecided)


@pytest.mark.parametrize(
    ("given", "learned", "unconfirmed"),
    [
        (SHOP, parts(FIRST, SECOND), ""),
        (SHOP, parts(FIRST, replace(SECOND, changelogs=())), f"1 of the application has no changelog {CHANGELOG}"),
        (SHOP, parts(FIRST, replace(SECOND, changelogs=()), undecided=(CHANGELOG,)), ""),
        (SHOP, parts(FIRST, SECOND, undecided=(NEW,)), f"the application has the changelog {NEW}"),
        (SHOP, parts(FIRST, replace(SECOND, changelogs=(CHANGELOG, NEW))), f"has the changelog {NEW}"),
        (SHOP, parts(replace(FIRST, changelogs=(NEW,)), SECOND), f"0 of the application has the changelog {NEW}"),
    ],
    ids=["alike", "a store fewer", "not known whose", "not known whose, and in no file", "a store more", "elsewhere"],
)
def test_what_contradicts_a_topology_that_is_unconfirmed(given: Topology, learned: Topology, unconfirmed: str) -> None:
    reason = contradiction(given, learned, unconfirmed=True)
    assert bool(reason) == bool(unconfirmed)
    assert unconfirmed in reason


def test_what_only_a_unconfirmed_topology_is_reproached_with() -> None:
    """Before there is a doubt these are the traces of a member that restarts, or of an older version."""
    for learned in (parts(FIRST, replace(SECOND, changelogs=())), parts(FIRST, SECOND, undecided=(NEW,))):
        assert contradiction(SHOP, learned) == ""


@pytest.mark.parametrize("unconfirmed", [False, True])
def test_a_source_topic_is_not_taken_for_a_changelog(unconfirmed: bool) -> None:
    """It is concluded from there being no other one, where the changelog has not been made yet; and an application that
    is optimised does use it."""
    file = parts(replace(FIRST, changelogs=(NEW,)), SECOND, source="file")
    concluded = parts(replace(FIRST, changelogs=("orders",)), SECOND)
    assert "orders" not in contradiction(file, concluded, unconfirmed=unconfirmed)
    optimised = parts(replace(FIRST, changelogs=("orders",)), SECOND, source="file")
    assert contradiction(optimised, parts(FIRST, SECOND), unconfirmed=unconfirmed) == ""
    assert contradiction(optimised, concluded, unconfirmed=unconfirmed) == ""


def test_a_source_topic_of_a_subtopology_without_state_by_the_file_is_a_contradiction() -> None:
    """Only a subtopology that keeps state gets one."""
    assert "has the changelog orders" in contradiction(SHOP, parts(replace(FIRST, changelogs=("orders",)), SECOND))


async def test_a_topology_that_was_unconfirmed_counts_again_when_a_group_agrees_with_it() -> None:
    topology_keeper = keeper(SHOP)
    topology_keeper.distrust()
    assert topology_keeper.mismatch == UNCONFIRMED
    (first, second) = shown()
    await topology_keeper.observe((first, replace(second, assignment=b"")))
    assert topology_keeper.mismatch == UNCONFIRMED, "nothing was learned"
    await topology_keeper.observe(shown())
    assert topology_keeper.mismatch == UNCONFIRMED, "the same members are asked again after a while"


async def test_members_that_were_learned_from_before_are_asked_again_after_a_contradiction() -> None:
    topology_keeper = keeper(SHOP)
    await topology_keeper.observe(shown())
    topology_keeper.distrust()
    await topology_keeper.observe(shown())
    assert topology_keeper.mismatch == ""


async def test_a_group_whose_member_does_not_run_a_task_that_it_has_confirms_no_topology() -> None:
    """A half-upgraded application whose old version leads: its leader makes the same plan, so Bellwether took the lead
    again ten seconds after it had handed it back."""
    first = led(group(A, B))
    a, b = A.after(first), B.after(first)
    waits = replace(a, sums=dict.fromkeys(a.sums, 500))
    topology_keeper, now = keeper(SHOP, clock=lambda: now[0]), [0.0]
    await topology_keeper.observe(assigned(waits, b))
    assert topology_keeper.mismatch == "", "without a doubt it may restore"
    topology_keeper.distrust()
    with capture_logs() as logs:
        await topology_keeper.observe(assigned(waits, b))
    assert topology_keeper.mismatch == f"{UNCONFIRMED}: member a had task 1_0 when it joined, and did not run it"
    assert [entry["event"] for entry in logs] == ["topology_not_confirmed"]
    now[0] += RETRY_S
    await topology_keeper.observe(assigned(a, b))
    assert topology_keeper.mismatch == "", "the same members, which have joined again"


def assigned(*threads: Thread) -> tuple[AssignedMember, ...]:
    """These threads in a Stable group."""
    blobs = dict(led(group(*threads, generation=2)).assignments)
    return tuple(AssignedMember(t.member_id, None, t.raw.metadata, blobs[t.member_id]) for t in threads)


async def test_the_topology_of_an_observed_group_is_compared_in_silence() -> None:
    """Beside the membership, which knows of a hand-back, it said "confirmed" of what that one had contradicted."""
    observer = ReadOnlyTopology("shop", SHOP, None, None, learn=keeper()._learn)  # type: ignore[arg-type]  # nothing else is asked here
    with capture_logs() as logs:
        await observer.observe(shown())
    assert (logs, observer.mismatch) == ([], "")


async def test_a_topology_that_is_unconfirmed_and_wrong_stays_out() -> None:
    topology_keeper = keeper(parts(FIRST, replace(SECOND, changelogs=(CHANGELOG, NEW)), source="file"))
    await topology_keeper.observe(shown())
    assert topology_keeper.mismatch == "", "a changelog that has not been made yet is no contradiction"
    topology_keeper.distrust()
    await topology_keeper.observe(shown())
    assert f"has no changelog {NEW}" in topology_keeper.mismatch


async def test_a_learned_topology_that_is_unconfirmed_is_learned_anew() -> None:
    topology_keeper = keeper()
    await topology_keeper.observe(shown())
    topology_keeper.distrust()
    assert topology_keeper.mismatch == UNCONFIRMED
    await topology_keeper.observe(shown())
    assert (topology_keeper.mismatch, topology_keeper.learned_from_members) == ("", {"a", "b"})
