"""Topics that could not be read: how large they are known to be, and who keeps their partitions."""

import numpy as np
import pytest

from bellwether_kafka.assignors.shared import (
    NO_RACK,
    ClusterView,
    Memory,
    claimed_sizes,
    extended,
    freeze,
    known_cluster,
)
from bellwether_kafka.protocol.bulk import ClaimColumns

MAX_CLAIMED_PARTITIONS = 100_000

CLUSTER = ClusterView.of({"a": [["r1"], ["r2", "r1"]], "c": [["r2"], [None]]}, read_at=7.5, unreadable=frozenset("bc"))


def claims(*pairs: tuple[str, int]) -> ClaimColumns:
    names = tuple(sorted({name for name, _ in pairs}))
    topic = np.array([names.index(name) for name, _ in pairs], dtype=np.int32)
    partition = np.array([number for _, number in pairs], dtype=np.int32)
    return ClaimColumns(names, np.zeros(len(pairs), dtype=np.int32), topic, partition, np.zeros(1, dtype=np.int32))


def memory_of(cluster: ClusterView) -> Memory:
    return Memory.of(3, cluster, np.zeros(cluster.partition_total, dtype=np.int32), ())


@pytest.mark.parametrize(
    ("partitions", "size"),
    [
        ([], 0),
        ([0], 1),
        ([4, 2], 5),
        ([-1], 0),
        ([-1, 0], 1),
        ([MAX_CLAIMED_PARTITIONS - 1], MAX_CLAIMED_PARTITIONS),
        ([MAX_CLAIMED_PARTITIONS], 0),
        ([MAX_CLAIMED_PARTITIONS, 2], 3),
    ],
)
def test_a_topic_is_as_large_as_its_highest_plausible_partition_says(partitions: list[int], size: int) -> None:
    sizes = claimed_sizes(claims(("other", 9), *(("t", p) for p in partitions)))
    assert sizes.get("t", 0) == size
    assert sizes["other"] == 10


def test_an_unreadable_topic_is_as_large_as_anybody_knows_it() -> None:
    remembered = memory_of(ClusterView.of({"b": [["r1"]] * 3, "c": [["r1"]] * 1}))
    view = known_cluster(CLUSTER, remembered, claims(("b", 1), ("c", 4), ("a", 8), ("d", 8)))
    assert dict(zip(view.topics, view.counts.tolist(), strict=True)) == {"a": 2, "b": 3, "c": 5}
    view = known_cluster(CLUSTER, remembered, claims(("b", 6)))
    assert dict(zip(view.topics, view.counts.tolist(), strict=True)) == {"a": 2, "b": 7, "c": 2}


def test_what_is_readable_is_as_large_as_it_was_read() -> None:
    readable = ClusterView.of({"a": [["r1"]]})
    assert known_cluster(readable, memory_of(ClusterView.of({"a": [["r1"]] * 4})), claims(("a", 9))) is readable
    assert extended(CLUSTER, {"a": 2, "c": 1}) is CLUSTER


def test_what_is_added_has_no_rack_and_everything_else_keeps_its_own() -> None:
    view = extended(CLUSTER, {"b": 2, "c": 3})
    assert view.topics == ("a", "b", "c")
    assert view.first.tolist() == [0, 2, 4, 7]
    racks = [{view.racks[r] for r in np.flatnonzero(view.signature_racks[s]).tolist()} for s in view.signature.tolist()]
    assert racks == [{"r1"}, {"r1", "r2"}, set(), set(), {"r2"}, set(), set()]
    assert view.leader_rack.tolist() == [0, 1, NO_RACK, NO_RACK, 1, NO_RACK, NO_RACK]
    assert (view.read_at, view.unreadable, view.index) == (7.5, frozenset("bc"), {"a": 0, "b": 1, "c": 2})


def test_an_unreadable_topic_keeps_its_owners_and_gets_some_where_it_had_none() -> None:
    view = extended(CLUSTER, {"b": 1})
    before = np.array([5, 5, 5, 5, -1], dtype=np.int32)
    owner = np.array([1, 2, 3, 4, 0], dtype=np.int32)
    assert freeze(view, before, owner).tolist() == [1, 2, 5, 5, 0]
    readable = ClusterView.of({"a": [["r1"]]})
    assert freeze(readable, before[:1], owner[:1]).tolist() == [1]
