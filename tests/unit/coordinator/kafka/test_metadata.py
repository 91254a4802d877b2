"""Metadata reads: composing topics, remembering racks, building the assignors' view."""

import time

import numpy as np
import pytest

from bellwether_kafka.assignors.shared import NO_RACK, ClusterView
from bellwether_kafka.coordinator.kafka.client.metadata import (
    MetadataCache,
    ReplicaSet,
    cluster_view,
    distinct_placements,
)

ABSENT = "absent"

RACKS = {1: "az1", 2: "az2", 3: "az3"}


def cache_of(topics: dict[str, list[ReplicaSet]], racks: dict[int, str | None] | None = None) -> MetadataCache:
    cache = MetadataCache()
    cache.see_brokers(RACKS if racks is None else racks)
    for topic, placements in topics.items():
        cache.see_topic(topic, 1.0, *distinct_placements(placements))
    return cache


def test_the_view_equals_the_one_built_from_plain_values() -> None:
    cache = cache_of({"b": [(1, (1, 2)), (2, (2, 3)), (1, (1, 2))], "a": [(3, (3, 1))]})
    view = cluster_view(cache.read(["a", "b"], now=1.0))
    plain = ClusterView.of({"b": [["az1", "az2"], ["az2", "az3"], ["az1", "az2"]], "a": [["az3", "az1"]]})
    assert (view.topics, view.racks, dict(view.index)) == (plain.topics, plain.racks, dict(plain.index))
    assert view.counts.tolist() == plain.counts.tolist()
    assert view.first.tolist() == plain.first.tolist()
    assert view.leader_rack.tolist() == plain.leader_rack.tolist()
    racks, expected = view.signature_racks[view.signature], plain.signature_racks[plain.signature]
    assert racks.tolist() == expected.tolist()


def test_a_read_holds_only_the_topics_that_were_asked_for() -> None:
    cache = cache_of({"a": [(1, (1,))], "b": [(2, (2,)), (2, (2,))]})
    read = cache.read(["b"], now=1.0)
    assert read.topics == ("b",)
    assert cluster_view(read).partition_total == 2


def test_racks_of_a_broker_that_is_down_are_remembered() -> None:
    cache = cache_of({"a": [(1, (1, 2))]})
    before = cluster_view(cache.read(["a"], now=1.0))
    cache.see_brokers({1: "az1", 3: "az3"})
    after = cluster_view(cache.read(["a"], now=2.0))
    assert after.signature_racks[after.signature].tolist() == before.signature_racks[before.signature].tolist()
    assert cache.read(["a"], now=2.0).online == {1, 3}


def test_a_broker_that_returns_without_a_rack_has_none() -> None:
    cache = cache_of({"a": [(2, (2,))]})
    cache.see_brokers({1: "az1", 2: None, 3: "az3"})
    view = cluster_view(cache.read(["a"], now=1.0))
    assert not view.signature_racks[view.signature].any()
    assert view.leader_rack.tolist() == [NO_RACK]


def test_a_partition_without_a_leader_has_no_leader_rack() -> None:
    assert cluster_view(cache_of({"a": [(-1, (1, 2))]}).read(["a"], now=1.0)).leader_rack.tolist() == [NO_RACK]


def test_absent_and_unreadable_topics_are_distinguished() -> None:
    cache = cache_of({"a": [(1, (1,))]})
    cache.see_trouble("gone", 1.0, ABSENT)
    cache.see_trouble("secret", 1.0, "Topic authorization failed")
    read = cache.read(["a", "gone", "secret", "never-asked"], now=1.0)
    assert (read.absent, read.unreadable) == ({"gone"}, {"secret", "never-asked"})
    assert cluster_view(read).unreadable == {"secret", "never-asked"}


def test_a_read_is_as_old_as_its_oldest_topic() -> None:
    cache = cache_of({"a": [(1, (1,))]})
    cache.see_topic("b", 7.0, *distinct_placements([(1, (1,))]))
    assert cache.read(["a", "b"], now=9.0).read_at == 1.0
    assert cache.stale(["a", "b", "c"], oldest=5.0) == ["a", "c"]


def test_no_topics_make_an_empty_view() -> None:
    view = cluster_view(cache_of({}).read([], now=1.0))
    assert (view.topics, view.partition_total, view.racks) == ((), 0, ("az1", "az2", "az3"))


def test_a_topic_without_partitions_is_a_topic() -> None:
    view = cluster_view(cache_of({"a": [], "b": [(1, (1,))]}).read(["a", "b"], now=1.0))
    assert view.counts.tolist() == [0, 1]


@pytest.mark.slow
def test_a_million_partitions_become_a_view_in_a_moment() -> None:
    cache = MetadataCache()
    cache.see_brokers({b: f"az{b % 3}" for b in range(60)})
    placements = [(p % 60, (p % 60, (p + 1) % 60, (p + 2) % 60)) for p in range(2_000)]
    for t in range(500):
        cache.see_topic(f"t{t:03}", 1.0, *distinct_placements(placements))
    began = time.process_time()
    view = cluster_view(cache.read([f"t{t:03}" for t in range(500)], now=1.0))
    assert time.process_time() - began < 5
    assert view.partition_total == 1_000_000
    assert np.unique(view.signature).tolist() == [0]  # three consecutive brokers always stand in all three racks
