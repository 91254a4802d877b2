from dataclasses import replace

import numpy as np
import pytest

from bellwether_kafka.assignors.streams.application import (
    PINNED,
    UNKNOWN_OFFSET_SUM,
    EndOffsets,
    InternalTopic,
    Subtopology,
    Topology,
    TopologyError,
    build_tasks,
    end_sums,
    lags,
    parse_description,
    required_counts,
    resized,
    wanted_offsets,
)
from tests.kit.consumers import cluster_of
from tests.kit.streams import SHOP, SHOP_COUNTS, SHOP_TEXT, ends_of

REPARTITION, CHANGELOG = "shop-by-user-repartition", "shop-totals-changelog"


@pytest.mark.parametrize(
    ("subtopologies", "message"),
    [
        ((Subtopology(0, ("t",)), Subtopology(0, ("u",))), "there twice"),
        ((Subtopology(-1, ("t",)),), "negative"),
        ((Subtopology(0, ("t",)), Subtopology(1, ("t",))), "topic t is a source of subtopologies 0 and 1"),
        ((Subtopology(0, ()),), "subtopology 0 has no source topic"),
        ((Subtopology(0, ("t",), repartition_sources=("u",)),), "not among its sources"),
        ((Subtopology(0, ("bad name",)),), "no legal topic name"),
        ((Subtopology(0, ("..",)),), "no legal topic name"),
        ((Subtopology(0, ("t",), copartition_groups=(("t", "u"),)),), "copartition group with u"),
        (
            (Subtopology(0, ("t",), changelogs=("c",)), Subtopology(1, ("u",), changelogs=("c",))),
            "changelog c belongs to subtopologies 0 and 1",
        ),
    ],
)
def test_contradictions_are_refused(subtopologies: tuple[Subtopology, ...], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        Topology("app", subtopologies, "file")


@pytest.mark.parametrize("patterns", [((0, "("),), ((5, "a"),)])
def test_patterns_are_checked(patterns: tuple[tuple[int, str], ...]) -> None:
    with pytest.raises(TopologyError, match="pattern"):
        Topology("app", (Subtopology(0, ("t",)),), "file", patterns=patterns)


def test_the_digest_is_of_what_decides_placement() -> None:
    assert replace(SHOP, source="learned").digest == SHOP.digest
    assert replace(SHOP, subtopologies=SHOP.subtopologies[::-1]).digest == SHOP.digest
    without_sinks = tuple(replace(s, repartition_sinks=()) for s in SHOP.subtopologies)
    assert replace(SHOP, subtopologies=without_sinks).digest == SHOP.digest
    stateless = tuple(replace(s, changelogs=()) for s in SHOP.subtopologies)
    assert replace(SHOP, subtopologies=stateless).digest != SHOP.digest
    swapped = tuple(replace(s, id=1 - s.id) for s in SHOP.subtopologies)
    assert replace(SHOP, subtopologies=swapped).digest != SHOP.digest


def test_topics_that_a_pattern_finds_are_joined_as_the_pattern_is() -> None:
    part = Subtopology(0, ("t",), copartition_groups=(("in-.*", "t"),))
    topology = Topology("app", (part,), "file", patterns=((0, "in-.*"),)).resolved(["in-a", "in-b"])
    assert topology.subtopologies[0].copartition_groups == (("in-a", "in-b", "t"),)


def test_a_copartition_group_may_have_topics_of_several_subtopologies() -> None:
    """As Kafka Streams has them for cogroup; a topic that nobody reads is a mistake."""
    parts = (Subtopology(0, ("t",), copartition_groups=(("t", "u"),)), Subtopology(1, ("u",)))
    assert Topology("app", parts, "file").subtopologies[0].copartition_groups == (("t", "u"),)
    with pytest.raises(TopologyError, match="a copartition group with u, which no subtopology reads"):
        Topology("app", parts[:1], "file")


def test_the_digest_does_not_change_with_what_a_pattern_finds() -> None:
    topology = Topology("app", (Subtopology(0, ()),), "file", patterns=((0, "in-.*"),))
    assert topology.resolved(["in-a", "in-b"]).digest == topology.digest
    assert topology.resolved(["in-a"]).subtopologies[0].sources == ("in-a",)


def test_repartition_topics_are_sized_along_the_chain() -> None:
    """The most partitions of any source of any writer; a repartition source counts once it is known
    (docs/internals/streams.md#repartition-topics)."""
    topology = Topology(
        "a",
        (
            Subtopology(0, ("t", "u"), repartition_sinks=("a-x-repartition",)),
            Subtopology(
                1,
                ("a-x-repartition",),
                repartition_sources=("a-x-repartition",),
                repartition_sinks=("a-y-repartition",),
            ),
            Subtopology(
                2, ("a-y-repartition",), repartition_sources=("a-y-repartition",), changelogs=("a-s-changelog",)
            ),
        ),
        "file",
    )
    counts = required_counts(topology, {"t": 3, "u": 5})
    assert not counts.missing
    assert counts.partitions == {"t": 3, "u": 5, "a-x-repartition": 5, "a-y-repartition": 5, "a-s-changelog": 5}
    assert required_counts(topology, {"t": 3}).missing == ("u",)
    assert resized(counts, {"a-s-changelog": 4}, ["a-s-changelog"]) == (
        "internal topic a-s-changelog has 4 partitions and needs 5",
    )


def test_a_circle_of_repartition_topics_takes_what_is_known() -> None:
    loop = Subtopology(
        0, ("t", "a-x-repartition"), repartition_sources=("a-x-repartition",), repartition_sinks=("a-x-repartition",)
    )
    assert required_counts(Topology("a", (loop,), "file"), {"t": 3}).partitions["a-x-repartition"] == 3


def test_without_a_writer_the_existing_topic_decides_or_nothing_does() -> None:
    learned = Topology(
        "a", (Subtopology(0, ("a-x-repartition",), repartition_sources=("a-x-repartition",)),), "learned"
    )
    assert required_counts(learned, {"a-x-repartition": 7}).partitions == {"a-x-repartition": 7}
    assert required_counts(learned, {}).unsized == ("a-x-repartition",)


def joined(*groups: tuple[str, ...], fixed: int | None = None) -> Topology:
    inner = Subtopology(0, ("t",), repartition_sinks=("a-x-repartition",))
    outer = Subtopology(
        1,
        ("u", "a-x-repartition"),
        repartition_sources=("a-x-repartition",),
        copartition_groups=groups,
    )
    internal = (InternalTopic("a-x-repartition", fixed),) if fixed else ()
    return Topology("a", (inner, outer), "file", internal_topics=internal)


def test_copartitioning_imposes_the_size_of_the_external_topic() -> None:
    counts = required_counts(joined(("u", "a-x-repartition")), {"t": 3, "u": 8})
    assert counts.partitions["a-x-repartition"] == 8
    fixed = required_counts(joined(("u", "a-x-repartition"), fixed=4), {"t": 3, "u": 8})
    assert fixed.conflicts == ("topic a-x-repartition of subtopology 1 is fixed at 4, needs 8",)
    assert required_counts(joined(fixed=4), {"t": 3, "u": 8}).partitions["a-x-repartition"] == 4


def test_ordinary_topics_that_are_joined_must_be_equally_large() -> None:
    """Kafka Streams fails the application for it, but only where there is a repartition topic somewhere."""
    pair = Subtopology(0, ("orders", "users"), copartition_groups=(("orders", "users"),))
    sizes = {"orders": 6, "users": 3}
    sentence = "topics of subtopology 0 must be copartitioned: orders has 6, users has 3 partitions"
    alone = required_counts(Topology("a", (pair,), "file"), sizes)
    assert (alone.conflicts, alone.unchecked) == ((), (sentence,))
    writes = replace(pair, repartition_sinks=("a-x-repartition",))
    behind = Subtopology(1, ("a-x-repartition",), repartition_sources=("a-x-repartition",))
    checked = required_counts(Topology("a", (writes, behind), "file"), sizes)
    assert (checked.conflicts, checked.unchecked) == ((sentence,), ())
    assert required_counts(Topology("a", (writes, behind), "file"), {"orders": 6, "users": 6}).conflicts == ()


def test_a_repartition_topic_may_have_one_partition() -> None:
    counts = required_counts(joined(), {"t": 1, "u": 8})
    assert counts.partitions["a-x-repartition"] == 1


def test_among_repartition_topics_copartitioning_imposes_the_size_that_is_fixed() -> None:
    first, second = "a-x-repartition", "a-y-repartition"
    both = Topology(
        "a",
        (
            Subtopology(0, ("t",), repartition_sinks=(first, second)),
            Subtopology(1, (first, second), repartition_sources=(first, second), copartition_groups=((first, second),)),
        ),
        "file",
        internal_topics=(InternalTopic(first, 4),),
    )
    assert required_counts(both, {"t": 6}).partitions == {"t": 6, first: 4, second: 4}


def test_copartitioning_makes_up_no_size_for_an_external_topic_that_is_missing() -> None:
    counts = required_counts(joined(("u", "a-x-repartition")), {"t": 3})
    assert counts.missing == ("u",)
    assert counts.partitions == {"t": 3, "a-x-repartition": 3}


def test_end_sums_and_lags() -> None:
    subtopology = Subtopology(0, ("t", "w"), changelogs=("c", "t"))
    ends = EndOffsets({"c": np.array([5, PINNED, 7]), "t": np.array([1, 2])})
    sums = end_sums(subtopology, 3, ends)
    assert not isinstance(sums, str)
    assert sums.tolist() == [6, PINNED, 7]
    assert end_sums(subtopology, 4, ends) == "no end offset of c-3"
    assert end_sums(subtopology, 3, EndOffsets({"c": np.array([1, 2, -1])})) == "no end offset of c-2"
    own = np.array([-2, -3, 0, 5, 10, 11, -1, -(2**63)])
    end = np.full(8, 10)
    assert lags(own, end, ends_known=True).tolist() == [-2, -3, 10, 5, 0, 10, 10, 10]
    assert lags(own, end, ends_known=False).tolist() == [-2] + [UNKNOWN_OFFSET_SUM] * 7


def test_what_to_ask_for() -> None:
    reused = Topology("a", (Subtopology(0, ("t",), changelogs=("t", "a-c-changelog")),), "file")
    assert wanted_offsets(reused, {"t": 2, "a-c-changelog": 2}) == ({"a-c-changelog": 2}, {"t": 2})
    assert wanted_offsets(reused, {}) == ({}, {})


def test_task_tables() -> None:
    topology = Topology(
        "a", (Subtopology(4, ("t", "u"), changelogs=("a-c-changelog",)), Subtopology(7, ("v",))), "file"
    )
    counts = {"t": 2, "u": 3, "v": 1, "a-c-changelog": 3}
    cluster = cluster_of(counts, 1, ("r1", "r2"))
    tasks, trouble = build_tasks(topology, cluster, ends_of(topology, counts, 9))
    assert trouble is None
    table = tasks.table
    assert [str(table.task_id(t)) for t in range(table.size)] == ["4_0", "4_1", "4_2", "7_0"]
    assert table.stateful.tolist() == [True, True, True, False]
    assert table.end_sum.tolist() == [9, 9, 9, 0]
    assert tasks.index(np.array([4, 7, 7, 5, -1]), np.array([2, 0, 1, 0, 0])).tolist() == [2, 3, -1, -1, -1]
    names = [str(cluster.name(f)) for f in np.flatnonzero(np.isin(tasks.task_of, [2, 3]))]
    assert names == [str(cluster.name(f)) for f in (6, 8)] or len(names) == 2
    # Every task's partitions counted one by one.
    for t in range(table.size):
        flats = [f for f in range(cluster.partition_total) if tasks.task_of[f] == t]
        for r in range(2):
            expected = sum(not cluster.signature_racks[cluster.signature[f], r] for f in flats)
            assert table.source_remote[table.source_signature[t], r] == expected
    assert table.racks_known
    assert table.changelog_racks_known


def test_racks_of_a_topic_without_racks_are_not_known() -> None:
    cluster = cluster_of(SHOP_COUNTS)
    tasks, _ = build_tasks(SHOP, cluster, ends_of(SHOP, SHOP_COUNTS))
    assert not tasks.table.racks_known


def test_a_description_gives_the_topology() -> None:
    described = parse_description(SHOP_TEXT, "shop", {"orders", REPARTITION, CHANGELOG, "results"})
    assert described.topology.digest == SHOP.digest
    assert described.topology.subtopologies[0].repartition_sinks == (REPARTITION,)
    assert described.topology.subtopologies[1].repartition_sources == (REPARTITION,)
    assert described.notes == ()


def test_without_the_cluster_stores_are_taken_to_be_logged() -> None:
    described = parse_description(SHOP_TEXT, "shop")
    assert described.topology.changelogs == (CHANGELOG,)
    assert any("all stores are taken to be logged" in note for note in described.notes)


def test_a_store_without_changelog_topic_is_noted() -> None:
    described = parse_description(SHOP_TEXT, "shop", {"orders", REPARTITION})
    assert described.topology.changelogs == ()
    assert "totals" in described.notes[0]


def test_global_stores_consume_a_number_and_patterns_stay() -> None:
    text = """Topologies:
   Sub-topology: 0 for global store (will not generate tasks)
    Source: g (topics: [global])
      --> p
    Processor: p (stores: [g-store])
      --> none
      <-- g
  Sub-topology: 1
    Source: s (topics: in-[a-z]+)
      --> out
    Sink: out (extractor class: org.example.Extractor@1)
      <-- s
"""
    described = parse_description(text, "app")
    assert [s.id for s in described.topology.subtopologies] == [1]
    assert described.topology.patterns == ((1, "in-[a-z]+"),)
    assert any("at run time" in note for note in described.notes)


def test_a_users_topic_with_the_suffix_is_left_alone() -> None:
    text = "Topologies:\n   Sub-topology: 0\n    Source: s (topics: [my-repartition])\n      --> none\n"
    assert parse_description(text, "app").topology.source_topics == ("my-repartition",)
    assert parse_description(text, "app", {"app-my-repartition"}).topology.source_topics == ("app-my-repartition",)


def named_before_25(store: str) -> str:
    """As Kafka Streams before 2.5 wrote a repartition topic that the application names (KAFKA-9098)."""
    return f"""Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000000 (topics: [lines])
      --> KSTREAM-FILTER-0000000005
    Processor: KSTREAM-FILTER-0000000005 (stores: [])
      --> KSTREAM-SINK-0000000004
      <-- KSTREAM-SOURCE-0000000000
    Sink: KSTREAM-SINK-0000000004 (topic: counts-repartition)
      <-- KSTREAM-FILTER-0000000005

  Sub-topology: 1
    Source: KSTREAM-SOURCE-0000000006 (topics: [counts-repartition])
      --> KSTREAM-AGGREGATE-0000000003
    Processor: KSTREAM-AGGREGATE-0000000003 (stores: [{store}])
      --> none
      <-- KSTREAM-SOURCE-0000000006
"""


def test_a_repartition_topic_named_before_25_is_known_by_its_store() -> None:
    described = parse_description(named_before_25("counts"), "app")
    assert described.topology.repartition_topics == ("app-counts-repartition",)
    assert any("counts-repartition is taken for the internal topic" in note for note in described.notes)


def test_where_no_store_shows_it_a_comment_says_what_to_write() -> None:
    described = parse_description(named_before_25("KSTREAM-AGGREGATE-STATE-STORE-0000000002"), "app")
    assert described.topology.repartition_topics == ()
    (note,) = [
        note for note in described.notes if note.startswith("counts-repartition is taken for a topic of your own")
    ]
    assert "versions before 2.5" in note
    assert "write `- app-counts-repartition` under RepartitionSourceTopics" in note


@pytest.mark.parametrize(
    "text", ["", "Topologies:\n", "nonsense", "Topologies:\n   Sub-topology: 0\n    Surprise: x\n"]
)
def test_what_is_no_description_is_refused(text: str) -> None:
    with pytest.raises(TopologyError):
        parse_description(text, "app")
