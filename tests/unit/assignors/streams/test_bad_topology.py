"""Topologies and topics that do not fit what members run: the group is refused, or led with a warning."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from bellwether_kafka.assignors.shared import ClusterView, RefusalCause
from bellwether_kafka.assignors.streams.application import Subtopology, Topology
from bellwether_kafka.assignors.streams.members import fatal_to_java
from bellwether_kafka.protocol.messages import SubscriptionInfo
from bellwether_kafka.protocol.primitives import ProcessId, TaskId, TopicPartition
from tests.kit.consumers import cluster_of
from tests.kit.streams import CHANGELOG, REPARTITION, SHOP, SHOP_COUNTS, A, B, Thread, group, led, refused


def test_named_topologies_are_refused() -> None:
    info = SubscriptionInfo(process_id=ProcessId(0, 1), task_offset_sums=((TaskId(0, 0, "top"), 5),))
    step = refused(group(A, B.with_user_data(info.encode())))
    assert (step.cause, "named topologies" in step.reason) == (RefusalCause.MEMBERS, True)


@pytest.mark.parametrize(
    ("topics", "text"),
    [
        ((*SHOP.source_topics, "extra"), "topic extra belongs to no subtopology"),
        (("orders",), f"topic {REPARTITION} of subtopology 1 is not subscribed"),
    ],
)
def test_a_topology_that_members_do_not_have_is_refused(topics: tuple[str, ...], text: str) -> None:
    step = refused(group(A, replace(B, topics=topics)), counts={**SHOP_COUNTS, "extra": 1})
    assert step.cause is RefusalCause.TOPOLOGY
    assert "member b" in step.reason
    assert text in step.reason


def test_an_undecided_changelog_is_refused() -> None:
    step = refused(group(A), topology=replace(SHOP, undecided=("shop-x-changelog",)))
    assert (step.cause, "shop-x-changelog" in step.reason) == (RefusalCause.TOPOLOGY, True)


@pytest.mark.parametrize(
    ("task", "text"),
    [
        ((7, 0), "runs task 7_0 with state, which is not in the topology"),
        ((1, 4), "runs task 1_4 with state, which is not in the topology"),
        ((0, 0), "runs task 0_0 with state, which has no changelog in the topology"),
        ((1, 1), "runs task 1_1 with state, but owns none of the partitions"),
    ],
)
def test_a_running_task_that_the_topology_cannot_explain_is_refused(task: tuple[int, int], text: str) -> None:
    running = replace(A, sums={task: -2}, owned=(TopicPartition(REPARTITION, 0),), generation=1)
    step = refused(group(running, B, generation=2))
    assert (step.cause, text in step.reason) == (RefusalCause.TOPOLOGY, True)


def test_swapped_subtopologies_are_noticed() -> None:
    """Two equal subtopologies change numbers in an upgrade: the running tasks own the partitions of the other one."""
    kept = Subtopology(0, ("t",), changelogs=("app-s-changelog",))
    two = Subtopology(1, ("u",), changelogs=("app-r-changelog",))
    counts = {"t": 1, "u": 1, "app-s-changelog": 1, "app-r-changelog": 1}
    topology = Topology("app", (kept, two), "file")
    member = Thread("a", 1, ("t", "u"), {(1, 0): -2}, (TopicPartition("t", 0),), 1)
    assert refused(group(member, generation=2), topology=topology, counts=counts).cause is RefusalCause.TOPOLOGY
    swapped = Topology("app", (replace(kept, id=1), replace(two, id=0)), "file")
    led(group(member, generation=2), topology=swapped, counts=counts)


def test_a_missing_source_topic_is_refused() -> None:
    step = refused(group(A), counts={REPARTITION: 4, CHANGELOG: 4})
    assert (step.cause, "source topic orders of subtopology 0 does not exist") == (RefusalCause.TOPICS, step.reason)


@pytest.mark.parametrize("topic", [REPARTITION, CHANGELOG])
def test_a_missing_internal_topic_is_refused(topic: str) -> None:
    counts = {t: n for t, n in SHOP_COUNTS.items() if t != topic}
    step = refused(group(A), counts=counts)
    assert (step.cause, topic in step.reason) == (RefusalCause.INTERNAL_TOPICS, True)


@pytest.mark.parametrize(("topic", "size"), [(REPARTITION, 3), (CHANGELOG, 3), (CHANGELOG, 5)])
def test_a_resized_internal_topic_is_refused(topic: str, size: int) -> None:
    step = refused(group(A), counts={**SHOP_COUNTS, topic: size})
    assert step.cause is RefusalCause.INTERNAL_TOPICS
    assert f"{topic} has {size} partitions and needs 4" in step.reason


def test_what_a_java_leader_would_fail_the_application_for_is_known_beforehand() -> None:
    def message(counts: Mapping[str, int], topology: Topology = SHOP) -> str:
        return fatal_to_java(topology, cluster_of(counts))

    assert message(SHOP_COUNTS) == ""
    assert message({**SHOP_COUNTS, "orders": 6}) == "; ".join(
        f"internal topic {topic} has 4 partitions and needs 6" for topic in (REPARTITION, CHANGELOG)
    )
    assert message({t: n for t, n in SHOP_COUNTS.items() if t != "orders"}).startswith(
        "source topic orders does not exist"
    )
    assert message({t: n for t, n in SHOP_COUNTS.items() if t != CHANGELOG}) == "", "it makes what is missing"
    stateless = Topology("app", (Subtopology(0, ("t",)),), "file")
    assert message({"t": 9}, stateless) == ""
    other_topology = Topology("app", (Subtopology(0, ("in-a", "in-b")),), "file", patterns=((0, "in-.*"),))
    assert message({"in-a": 2}, other_topology) == "", "a pattern may find less than before"
    assert fatal_to_java(SHOP, ClusterView.of({}, unreadable=frozenset(SHOP_COUNTS))) == "", "nothing is known"


def test_a_join_of_topics_of_different_size_is_led_with_a_warning_only_where_java_is_silent() -> None:
    """A task beyond the smaller topic reads one side. Kafka Streams checks only where something is repartitioned."""
    pair = Subtopology(0, ("orders", "users"), copartition_groups=(("orders", "users"),))
    sentence = "topics of subtopology 0 must be copartitioned: orders has 6, users has 3 partitions"
    sizes = {"orders": 6, "users": 3}
    silent = Topology("app", (pair,), "file")
    decision = led(group(Thread("a", 1, silent.source_topics)), topology=silent, counts=sizes)
    assert any(warning.startswith(sentence) for warning in decision.warnings)
    assert fatal_to_java(silent, cluster_of(sizes)) == ""

    internal = "app-x-repartition"
    parts = (replace(pair, repartition_sinks=(internal,)), Subtopology(1, (internal,), repartition_sources=(internal,)))
    checked = Topology("app", parts, "file")
    refusal = refused(group(Thread("a", 1, checked.source_topics)), topology=checked, counts=sizes | {internal: 6})
    assert (refusal.cause, refusal.reason) == (RefusalCause.TOPICS, sentence)
    assert sentence in fatal_to_java(checked, cluster_of(sizes | {internal: 6}))


def test_a_pattern_source_takes_the_topics_that_members_see() -> None:
    topology = Topology("app", (Subtopology(0, ()), Subtopology(1, ("t",))), "file", patterns=((0, "in-.*"),))
    counts = {"t": 1, "in-a": 2, "in-b": 3}
    old, new = Thread("a", 1, ("in-a", "t")), Thread("b", 2, ("in-a", "in-b", "t"))
    decision = led(group(old, new), topology=topology, counts=counts)
    assert decision.plan.view.tasks.size == 4
    gone = led(group(old, new), topology=topology, counts={"t": 1, "in-a": 2})
    assert gone.plan.view.tasks.size == 3


def test_a_topic_of_two_patterns_is_refused() -> None:
    topology = Topology("app", (Subtopology(0, ()), Subtopology(1, ())), "file", patterns=((0, "in-.*"), (1, ".*-a")))
    step = refused(group(Thread("a", 1, ("in-a",))), topology=topology, counts={"in-a": 1})
    assert (step.cause, "topic in-a matches the patterns of subtopologies 0 and 1") == (
        RefusalCause.TOPOLOGY,
        step.reason,
    )
