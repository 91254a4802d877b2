"""The topology with which a temporary member joins a streams group: a broker shows it but for two things."""

from typing import Any

from bellwether_kafka.coordinator.kafka.wire import BrokerGroup, DescribeManyByBroker, SentTopology, possible_topologies
from bellwether_kafka.coordinator.kafka.wire.describe_groups import (
    SentSubtopology,
    SentTopic,
    StreamsGroupDescribeResponse,
    StreamsGroupHeartbeatRequest,
)
from bellwether_kafka.coordinator.kafka.wire.temporary_members import TemporaryStreamsMember
from bellwether_kafka.coordinator.membership import Node

TOPOLOGIES_MAX = 64

NODE = Node(1, "b", 9092)
DELETED, COMPACTED = (("cleanup.policy", "delete"),), (("cleanup.policy", "compact"), ("retention.ms", "7"))


def topic(name: str, partitions: int = 0, configs: tuple[tuple[str, str], ...] = ()) -> SentTopic:
    return SentTopic(name, partitions, -1, configs)


def part(name: str, *sources: str, repartitions: tuple[SentTopic, ...] = ()) -> SentSubtopology:
    return SentSubtopology(name, sources, (), repartitions, ())


def described(version: int) -> BrokerGroup:
    """What is read from the answer of a broker that sorts neither topics nor their configs."""
    group = StreamsGroupDescribeResponse.DescribedGroup
    shown = group.Topology.Subtopology
    info = shown.TopicInfo

    def internal(name: str, partitions: int, configs: tuple[tuple[str, str], ...]) -> Any:
        pairs = [info.KeyValue(key=key, value=value) for key, value in reversed(configs)]
        return info(name=name, partitions=partitions, replication_factor=-1, topic_configs=pairs)

    subtopology = shown(
        subtopology_id="0",
        source_topics=["views", "clicks"],
        repartition_sink_topics=["app-b-repartition", "app-a-repartition"],
        state_changelog_topics=[internal("app-s-changelog", 6, COMPACTED)],
        repartition_source_topics=[
            internal("app-b-repartition", 6, DELETED),
            internal("app-a-repartition", 6, DELETED),
        ],
    )
    sent = StreamsGroupDescribeResponse(
        throttle_time_ms=0,
        groups=[
            group(
                error_code=0,
                error_message=None,
                group_id="g",
                group_state="Stable",
                group_epoch=3,
                assignment_epoch=3,
                topology=group.Topology(epoch=2, subtopologies=[subtopology]),
                members=[],
                authorized_operations=0,
                assignor_name="bellwether",
            )
        ],
    )
    data = bytes(sent.encode(version=version))
    answer = StreamsGroupDescribeResponse.decode(data, version=version)
    return DescribeManyByBroker(NODE, ["g"], "streams", 1_000).answer(answer)["g"]


def test_a_brokers_answer_is_put_into_the_order_in_which_members_send_it() -> None:
    repartitions = (topic("app-a-repartition", 6, DELETED), topic("app-b-repartition", 6, DELETED))
    changelogs = (topic("app-s-changelog", 0, COMPACTED),)
    sinks = ("app-a-repartition", "app-b-repartition")
    subtopology = SentSubtopology("0", ("clicks", "views"), sinks, repartitions, changelogs)
    assert described(version=1).topology == SentTopology(2, (subtopology,))
    assert described(version=1).assignor == "bellwether"
    assert described(version=0).assignor == "", "brokers before 4.4 do not show it"


def test_the_first_heartbeat_has_the_topology_and_no_tasks() -> None:
    subtopology = SentSubtopology("0", ("a", "b"), (), (topic("r"),), (topic("c", 0, COMPACTED),), joined=True)
    message = TemporaryStreamsMember(NODE, "g", "m", SentTopology(0, (subtopology,)), 1_000).message()
    read = StreamsGroupHeartbeatRequest.decode(bytes(message.encode(version=0)), version=0)
    (sent,) = read.topology.subtopologies
    (joined,) = sent.copartition_groups
    assert (read.member_epoch, read.active_tasks, read.standby_tasks, read.warmup_tasks) == (0, [], [], [])
    assert (sent.source_topics, [t.name for t in sent.repartition_source_topics]) == (["a", "b"], ["r"])
    assert (joined.source_topics, joined.repartition_source_topics) == ([0, 1], [0])
    (changelog,) = sent.state_changelog_topics
    assert [(config.key, config.value) for config in changelog.topic_configs] == list(COMPACTED)


def test_joined_topics_are_in_the_order_of_javas_hash_set() -> None:
    """As `new HashSet<>(Set.of("orders", "payments", "clicks"))` is iterated on a JVM."""
    subtopology = SentSubtopology("0", ("clicks", "orders", "payments"), (), (), (), joined=True)
    message = TemporaryStreamsMember(NODE, "g", "m", SentTopology(0, (subtopology,)), 1_000).message()
    (joined,) = message.topology.subtopologies[0].copartition_groups
    assert joined.source_topics == [2, 0, 1]


def test_the_likely_topology_comes_first_and_then_those_that_differ_least() -> None:
    fixed = topic("r", 6)
    shown = SentTopology(0, (part("0", "a", "b"), part("1", repartitions=(fixed,))))

    def difference(possible: SentTopology) -> tuple[bool, bool, int]:
        first, second = possible.subtopologies
        return first.joined, second.joined, second.repartitions[0].partitions

    assert list(map(difference, possible_topologies(shown))) == [
        (True, False, 0),
        (True, False, 6),
        (False, False, 0),
        (True, True, 0),
        (False, True, 0),
        (False, False, 6),
        (True, True, 6),
        (False, True, 6),
    ]


def test_a_large_topology_is_not_tried_without_end() -> None:
    shown = SentTopology(0, tuple(part(str(n), "a", "b", repartitions=(topic("r", 3),)) for n in range(40)))
    possible = possible_topologies(shown)
    assert len(set(possible)) == len(possible) == TOPOLOGIES_MAX
