"""From one topology to another: which tasks are new, gone or lose state, and what a rolling upgrade does."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bellwether_kafka.assignors.streams.application import Subtopology, Topology
from bellwether_kafka.coordinator.cli import Exit
from bellwether_kafka.coordinator.topology import Mixture, sentences, upgrade, write_topology
from bellwether_kafka.coordinator.topology.upgrade import TopologyChange
from tests.kit.commands import bellwether
from tests.kit.streams import (
    ANOTHER_TOPIC,
    FIRST,
    MORE_STORES,
    RENAMED,
    SECOND,
    SHOP,
    SUMS,
    SWAPPED,
    TOTALS,
    with_parts,
)

REPARTITION = SHOP.repartition_topics[0]


A_PART_MORE = with_parts(FIRST, SECOND, Subtopology(2, ("users",), changelogs=("users",)))
BY_PATTERN = with_parts(FIRST, SECOND, patterns=((0, "orders-.*"),))
IN_FRONT = with_parts(Subtopology(0, ("users",)), replace(FIRST, id=1), replace(SECOND, id=2))


@pytest.mark.parametrize(
    ("new", "mixture"),
    [
        (replace(SHOP, source="learned"), Mixture.NOTHING_DIFFERS),
        (MORE_STORES, Mixture.STORES),
        (RENAMED, Mixture.STORES),
        (ANOTHER_TOPIC, Mixture.SUBSCRIPTIONS),
        (A_PART_MORE, Mixture.SUBSCRIPTIONS),
        (BY_PATTERN, Mixture.SUBSCRIPTIONS),
        (SWAPPED, Mixture.NUMBERS),
    ],
    ids=["alike", "a store more", "a store renamed", "a topic more", "a part more", "a pattern", "other numbers"],
)
def test_what_distinguishes_members_of_two_versions(new: Topology, mixture: Mixture) -> None:
    assert upgrade(SHOP, new).mixture == upgrade(new, SHOP).mixture == mixture


def test_a_store_more_begins_empty_and_nothing_is_lost() -> None:
    (change,) = upgrade(SHOP, MORE_STORES).subtopologies
    assert (change.id, change.change, change.begins_empty, change.loses) == (1, TopologyChange.CHANGED, (SUMS,), ())


def test_a_renamed_store_loses_its_state() -> None:
    (change,) = upgrade(SHOP, RENAMED).subtopologies
    assert (change.begins_empty, change.loses) == ((SUMS,), (TOTALS,))
    assert f"subtopology 1 loses the state of {TOTALS}" in sentences(upgrade(SHOP, RENAMED))


def test_tasks_that_change_their_number_are_restored() -> None:
    effects = upgrade(SHOP, IN_FRONT)
    assert [(c.id, c.was, c.change) for c in effects.subtopologies] == [
        (0, None, TopologyChange.CHANGED),
        (1, 0, TopologyChange.CHANGED),
        (2, 1, TopologyChange.NEW),
    ]
    assert effects.subtopologies[2].restored == (TOTALS,)
    assert not any(c.begins_empty or (c.loses and c.id == 2) for c in effects.subtopologies)
    assert "subtopology 2 was subtopology 1: its tasks are not those that had the number before" in sentences(effects)


def test_what_is_gone_is_named_with_its_repartition_topic() -> None:
    effects = upgrade(SHOP, with_parts(FIRST))
    (change,) = effects.subtopologies
    assert (change.change, change.loses, effects.repartition_gone) == (TopologyChange.GONE, (TOTALS,), (REPARTITION,))
    assert "subtopology 1 is gone, and so are its tasks 1_*" in sentences(effects)


def test_nothing_differs() -> None:
    assert upgrade(SHOP, SHOP).subtopologies == ()
    assert sentences(upgrade(SHOP, SHOP)) == ["nothing that decides where tasks run or what they keep"]


def files(folder: Path, *topologies: Topology) -> list[str]:
    paths = [folder / f"{n}.yaml" for n in range(len(topologies))]
    for path, topology in zip(paths, topologies, strict=True):
        path.write_text(write_topology(topology))
    return [str(path) for path in paths]


def test_the_command_prints_the_differences_and_what_a_rolling_upgrade_does(tmp_path: Path) -> None:
    done = bellwether("topology", "diff", *files(tmp_path, SHOP, SWAPPED))
    assert done.returncode == Exit.DONE
    assert "subtopology 0 was subtopology 1" in done.stdout
    assert "A rolling upgrade: Do not roll" in done.stdout


def test_the_command_prints_json(tmp_path: Path) -> None:
    done = bellwether("topology", "diff", *files(tmp_path, SHOP, MORE_STORES), "-o", "json")
    document = json.loads(done.stdout)
    assert (document["mixture"], document["subtopologies"][0]["begins_empty"]) == ("stores", [SUMS])


def test_files_of_two_applications_are_not_compared(tmp_path: Path) -> None:
    done = bellwether("topology", "diff", *files(tmp_path, SHOP, replace(SHOP, application_id="shop-2")))
    assert done.returncode == Exit.INPUT
    assert "The files are of two applications, shop and shop-2" in done.stderr
