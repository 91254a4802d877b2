"""A new topology file is read without a restart."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from bellwether_kafka.assignors.streams.application import Topology
from bellwether_kafka.coordinator.topology import (
    Learned,
    TopologyKeeper,
    WatchedFile,
    topology_of_application,
    write_topology,
)
from tests.kit.streams import MORE_STORES, RENAMED, SHOP, SHOP_COUNTS, SWAPPED
from tests.unit.coordinator.topology.live_groups import shown

UNCONFIRMED = "no group of a member that leads has shown yet that the application has this topology"


def written(path: Path, topology: Topology) -> Path:
    """Another file in its place, as a deployment does it."""
    beside = path.with_suffix(".new")
    beside.write_text(write_topology(topology))
    return beside.replace(path)


def keeper(path: Path, given: Topology = SHOP) -> TopologyKeeper:
    async def learner(application_id: str, members: Any, *_: object) -> Learned:
        return Learned.of(application_id, members, SHOP_COUNTS)

    file = WatchedFile(path, partial(topology_of_application, path, "shop"))
    return TopologyKeeper("shop", given, None, None, learn=learner, file=file)  # type: ignore[arg-type]  # not asked


def test_a_file_is_read_once_each_time_it_changes(tmp_path: Path) -> None:
    path = written(tmp_path / "shop.yaml", SHOP)
    file = WatchedFile(path, partial(topology_of_application, path, "shop"))
    assert file.newer() is None
    written(tmp_path / "shop.yaml", MORE_STORES)
    newest = file.newer()
    assert newest is not None
    assert newest.digest == MORE_STORES.digest
    assert file.newer() is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Subtopologies: [", "it is no YAML"),
        (write_topology(replace(SHOP, application_id="else")), "is of the application 'else', not of 'shop'"),
        (write_topology(replace(SHOP, undecided=("shop-x-changelog",))), "cannot be led with"),
    ],
    ids=["not readable", "of another", "undecided"],
)
def test_a_file_that_cannot_be_used_is_logged_once_and_changes_nothing(text: str, reason: str, tmp_path: Path) -> None:
    path = written(tmp_path / "shop.yaml", SHOP)
    file = WatchedFile(path, partial(topology_of_application, path, "shop"))
    path.write_text(text)
    with capture_logs() as logs:
        assert file.newer() is None
        assert file.newer() is None
    (line,) = logs
    assert reason in line["reason"]
    assert "stays in force" in line["reason"]


def test_a_file_that_is_written_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    """The part that is there may be a topology too."""
    path = written(tmp_path / "shop.yaml", SHOP)
    writes = iter([write_topology(MORE_STORES)])

    def read() -> Topology:
        topology = topology_of_application(path, "shop")
        for rest in writes:
            path.write_text(rest)
        return topology

    file = WatchedFile(path, read)
    path.write_text(write_topology(SHOP) + "# the rest follows\n")
    assert file.newer() is None
    whole = file.newer()
    assert whole is not None
    assert whole.digest == MORE_STORES.digest
    assert file.newer() is None


def test_a_file_that_is_gone_for_a_moment_changes_nothing(tmp_path: Path) -> None:
    path = written(tmp_path / "shop.yaml", SHOP)
    file = WatchedFile(path, partial(topology_of_application, path, "shop"))
    path.unlink()
    with capture_logs():
        assert file.newer() is None
    assert file.newer() is None
    written(path, MORE_STORES)
    assert file.newer() is not None


async def test_the_next_plan_is_made_by_the_new_file(tmp_path: Path) -> None:
    path = written(tmp_path / "shop.yaml", SHOP)
    topology_keeper = keeper(path)
    written(path, MORE_STORES)
    await topology_keeper.refresh()
    assert topology_keeper.topology is not None
    assert (topology_keeper.topology.digest, topology_keeper.mismatch) == (MORE_STORES.digest, "")


async def test_members_that_contradicted_the_old_file_are_asked_about_the_new_one(tmp_path: Path) -> None:
    path = written(tmp_path / "shop.yaml", RENAMED)
    topology_keeper = keeper(path, RENAMED)
    await topology_keeper.observe(shown())
    assert "has the changelog" in topology_keeper.mismatch
    written(path, SHOP)
    await topology_keeper.refresh()
    assert topology_keeper.mismatch, "nobody has shown yet that it is right"
    await topology_keeper.observe(shown())
    assert topology_keeper.mismatch == ""


async def test_a_file_whose_tasks_have_other_numbers_waits_for_a_group_that_agrees(tmp_path: Path) -> None:
    """Members of the old version would fail of its tasks, and nothing that they send shows their version."""
    path = written(tmp_path / "shop.yaml", SHOP)
    topology_keeper = keeper(path)
    written(path, SWAPPED)
    await topology_keeper.refresh()
    assert topology_keeper.mismatch == UNCONFIRMED
