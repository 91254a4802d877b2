"""Memory in new coordinates: topics come, go and grow; members restart, leave and change places."""

import numpy as np
import pytest

from bellwether_kafka.assignors.shared import ClusterView, MemberView, Memory, digest
from tests.kit.consumers import cluster_of

MEMBERS = (MemberView("a-1", "a"), MemberView("b"), MemberView("c"))
MEMORY = Memory.of(7, cluster_of({"t": 3, "u": 2}), np.array([0, 1, 2, -1, 0], dtype=np.int32), MEMBERS)


@pytest.mark.parametrize(
    ("cluster", "keys", "expected"),
    [
        pytest.param({"t": 3, "u": 2}, ["a", "b", "c"], [0, 1, 2, -1, 0], id="nothing changed"),
        pytest.param({"t": 3, "u": 2}, ["c", "a"], [1, -1, 0, -1, 1], id="a member left, the others changed places"),
        pytest.param({"s": 2, "t": 4, "u": 2}, ["a", "b", "c"], [-1, -1, 0, 1, 2, -1, -1, 0], id="one came, one grew"),
        pytest.param({"t": 1, "u": 2}, ["a", "b", "c"], [0, -1, 0], id="a topic shrank"),
        pytest.param({"u": 2}, ["a", "b", "c"], [-1, 0], id="the first topic is gone"),
        pytest.param({"t": 3}, ["a", "b", "c"], [0, 1, 2], id="the last topic is gone"),
        pytest.param({}, ["a"], [], id="all topics are gone"),
        pytest.param({"x": 2}, ["a"], [-1, -1], id="only other topics"),
        pytest.param({"t": 3, "u": 2}, [], [-1] * 5, id="nobody is left"),
    ],
)
def test_translation(cluster: dict[str, int], keys: list[str], expected: list[int]) -> None:
    assert MEMORY.owner_in(cluster_of(cluster), keys).tolist() == expected


def test_an_empty_memory_knows_nothing() -> None:
    memory = Memory.empty()
    assert memory.owner_in(cluster_of({"t": 2}), ["a"]).tolist() == [-1, -1]
    assert memory.find("a") is None
    assert memory.generation == -1


def test_members_are_found_by_instance_id_else_member_id() -> None:
    assert MEMORY.find("a") == MEMBERS[0]
    assert MEMORY.find("a-1") is None
    assert MEMORY.find("b") == MEMBERS[1]


def test_what_is_remembered_cannot_be_changed_later() -> None:
    owner = np.array([0], dtype=np.int32)
    memory = Memory.of(1, ClusterView.of({"t": [["a"]]}), owner, MEMBERS)
    owner[0] = 2
    assert memory.owner.tolist() == [0]
    with pytest.raises(ValueError, match="read-only"):
        memory.owner[0] = 1


def test_digests_distinguish_bytes() -> None:
    assert digest(b"x") == digest(b"x") != digest(b"y")
