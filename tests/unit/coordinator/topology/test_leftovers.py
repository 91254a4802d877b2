"""Changelogs with the application's prefix that are not its own: those of another application, and leftovers."""

from bellwether_kafka.assignors.streams.application.model import Subtopology
from bellwether_kafka.assignors.streams.application.topology import Topology
from bellwether_kafka.coordinator.topology.learn import Ends, Learned, learn
from tests.unit.coordinator.topology.test_file import live

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
    true: Topology, counts: dict[str, int], *more: str, applications: tuple[str, ...] = (), ends: Ends | None = None
) -> Learned:
    """From a group at rest, where these changelogs are there, too."""
    members = live(true, counts, stateful=tuple(true.stateful))
    return learn(true.application_id, members, counts | dict.fromkeys(more, 4), ends, applications)


def test_a_changelog_of_a_running_application_with_a_longer_id_is_not_taken() -> None:
    for true, counts, foreign in (
        (COUNTED, COUNTS, OTHER),
        (SEEN, SEEN_COUNTS, "my-app-v2-seen-changelog"),
        (SEEN, SEEN_COUNTS, "my-app-v2-else-changelog"),
    ):
        found = learned(true, counts, foreign, applications=("my-app-v2", "my-app-v"))
        assert found.topology.digest == true.digest
        assert f"{foreign} is a changelog of the application my-app-v2" in found.notes


def test_without_its_group_it_stays_undecided_and_is_named() -> None:
    found = learned(COUNTED, COUNTS, OTHER)
    assert found.topology.changelogs == (OWN,)
    assert found.topology.undecided == (OTHER,)
    assert f"{OTHER} may be a changelog of another application, my-app-v2, which has a store counts too" in found.notes
    assert any("or remove it if the application has no such store" in note for note in found.notes)


def test_a_store_named_like_its_own_repartition_topic_is_its_own() -> None:
    """Whatever other ids begin alike."""
    found = learned(COUNTED, COUNTS, applications=("my-app-counts", "my-app-coun"))
    assert found.topology.digest == COUNTED.digest


def test_a_table_of_a_topic_that_nobody_reads_is_not_of_the_application() -> None:
    true = Topology("my-app", (Subtopology(0, ("users",), changelogs=("users",)),), "file")
    for foreign in (
        "my-app-v2-users-STATE-STORE-0000000000-changelog",
        "my-app-accounts-STATE-STORE-0000000000-changelog",
        "my-app-v2-KSTREAM-AGGREGATE-STATE-STORE-0000000003-changelog",
    ):
        found = learned(true, {"users": 4}, foreign)
        assert found.topology.digest == true.digest
        assert any(note.startswith(foreign) for note in found.notes)
