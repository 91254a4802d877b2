"""A topology that is learned from a live group."""

from dataclasses import replace

import numpy as np
import pytest

from bellwether_kafka.assignors.streams.application import Subtopology, Topology, TopologyError
from bellwether_kafka.coordinator.topology import Learned
from bellwether_kafka.protocol.messages import SubscriptionInfo
from bellwether_kafka.protocol.primitives import TaskId
from tests.kit.streams import CHANGELOG, REPARTITION, SHOP, SHOP_COUNTS, Thread, group, led
from tests.unit.coordinator.topology.live_groups import live


def test_a_live_group_gives_its_topology() -> None:
    learned = Learned.of("shop", live(), {**SHOP_COUNTS, "other": 9})
    assert learned.topology.digest == SHOP.digest
    assert learned.topology.source == "learned"
    assert learned.topology.repartition_topics == (REPARTITION,)


def test_members_that_have_not_joined_again_since_their_start_cannot_say_which_of_two_has_state() -> None:
    learned = Learned.of("shop", live(joined=False), SHOP_COUNTS)
    assert learned.topology.undecided == (CHANGELOG,)
    assert f"{CHANGELOG} may belong to subtopology 0 or 1" in learned.notes
    assert any("has reported yet whether subtopology 0, 1 keeps state" in note for note in learned.notes)


def test_what_is_learned_leads_the_same_group() -> None:
    learned = Learned.of("shop", live(), SHOP_COUNTS).topology
    threads = (Thread("a", 1), Thread("b", 2))
    assert led(group(*threads), topology=learned).assignments == led(group(*threads)).assignments


TWO_STORES = Topology(
    "app",
    (Subtopology(0, ("t",), changelogs=("app-s-changelog",)), Subtopology(1, ("u",), changelogs=("app-r-changelog",))),
    "file",
)


def test_changelogs_are_distinguished_by_size() -> None:
    counts = {"t": 2, "u": 3, "app-s-changelog": 2, "app-r-changelog": 3}
    learned = Learned.of("app", live(TWO_STORES, counts, stateful=(0, 1)), counts)
    assert learned.topology.digest == TWO_STORES.digest


EQUAL = {"t": 2, "u": 2, "app-s-changelog": 2, "app-r-changelog": 2}


def test_changelogs_are_distinguished_by_offsets_or_not_at_all() -> None:
    members = live(TWO_STORES, EQUAL, standbys=1, stateful=(0, 1))
    open_one = Learned.of("app", members, EQUAL)
    assert open_one.topology.undecided == ("app-r-changelog", "app-s-changelog")
    assert "move each changelog" in open_one.notes[-1]
    # The standbys of these tests report 1,000 records of each task; here only one store has so many.
    reported = {"app-s-changelog": np.array([1000, 1000]), "app-r-changelog": np.array([1000, 1000])}
    assert Learned.of("app", members, EQUAL, reported).topology.undecided == ("app-r-changelog", "app-s-changelog")


def test_offsets_that_fit_only_one_way_decide() -> None:
    members = live(TWO_STORES, EQUAL, standbys=1, stateful=(0, 1))
    a = Thread("a", 1, ("t", "u"), {(0, 0): 5000, (1, 0): 90, (0, 1): -2, (1, 1): -2})
    given = a.raw
    members[0] = replace(members[0], metadata=given.metadata)
    b = Thread("b", 2, ("t", "u"), {(0, 0): -2, (1, 0): -2, (0, 1): 4900, (1, 1): 100})
    members[1] = replace(members[1], metadata=b.raw.metadata)
    ends = {"app-s-changelog": np.array([5001, 4900]), "app-r-changelog": np.array([92, 100])}
    learned = Learned.of("app", members, EQUAL, ends)
    assert learned.topology.digest == TWO_STORES.digest
    assert "distinguished by their offsets" in learned.notes[0]


def test_changelogs_are_distinguished_by_the_name_of_their_repartition_topic() -> None:
    store = "KSTREAM-AGGREGATE-STATE-STORE-0000000003"
    topology = Topology(
        "app",
        (
            Subtopology(0, ("t",), changelogs=("app-x-changelog",)),
            Subtopology(
                1,
                (f"app-{store}-repartition",),
                repartition_sources=(f"app-{store}-repartition",),
                changelogs=(f"app-{store}-changelog",),
            ),
        ),
        "file",
    )
    counts = {"t": 2, f"app-{store}-repartition": 2, f"app-{store}-changelog": 2, "app-x-changelog": 2}
    learned = Learned.of("app", live(topology, counts, stateful=(0, 1)), counts).topology
    assert learned.find(1) is not None
    assert f"app-{store}-changelog" not in learned.undecided


def test_a_source_topic_that_serves_as_changelog_is_found() -> None:
    topology = Topology("app", (Subtopology(0, ("t",), changelogs=("t",)),), "file")
    learned = Learned.of("app", live(topology, {"t": 2}, stateful=(0,)), {"t": 2})
    assert learned.topology.digest == topology.digest
    assert "source topic t serves as changelog" in learned.notes[-1]


def test_a_leftover_changelog_is_left_out() -> None:
    learned = Learned.of("shop", live(), {**SHOP_COUNTS, "shop-old-changelog": 9})
    assert learned.topology.digest == SHOP.digest
    assert "shop-old-changelog fits no subtopology" in learned.notes[0]


def test_an_incomplete_assignment_proves_nothing() -> None:
    with pytest.raises(TopologyError, match=r"orders-4 is with no member now"):
        Learned.of("shop", live(), {**SHOP_COUNTS, "orders": 5})


def test_members_of_two_versions_are_not_learned_from() -> None:
    members = live()
    members[1] = replace(members[1], metadata=Thread("b", 2, ("orders",)).raw.metadata)
    with pytest.raises(TopologyError, match="do not subscribe to the same topics"):
        Learned.of("shop", members, SHOP_COUNTS)


@pytest.mark.parametrize("part", ["metadata", "assignment"])
def test_members_that_cannot_be_read_are_not_learned_from(part: str) -> None:
    members = live()
    members[0] = replace(members[0], **{part: b"\x00"})
    with pytest.raises(TopologyError, match="member a"):
        Learned.of("shop", members, SHOP_COUNTS)


def test_named_topologies_are_not_learned() -> None:
    members = live()
    info = SubscriptionInfo(task_offset_sums=((TaskId(0, 0, "top"), 1),))
    members[0] = replace(members[0], metadata=Thread("a").with_user_data(info.encode()).metadata)
    with pytest.raises(TopologyError, match="named topologies"):
        Learned.of("shop", members, SHOP_COUNTS)


def test_an_empty_group_teaches_nothing() -> None:
    with pytest.raises(TopologyError, match="no members"):
        Learned.of("shop", [], SHOP_COUNTS)


def test_old_directories_do_not_make_a_subtopology_stateful() -> None:
    members = live()
    a = Thread("a", 1, sums={(0, 3): 77, (1, 0): -2, (9, 0): 5})
    members[0] = replace(members[0], metadata=a.raw.metadata)
    assert Learned.of("shop", members, SHOP_COUNTS).topology.digest == SHOP.digest
