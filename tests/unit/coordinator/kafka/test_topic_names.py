"""Names that cannot be topics: no request has one, wherever they come from, and they count as absent."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bellwether_kafka.coordinator.kafka.client import ClusterReader, SharedReader, metadata
from bellwether_kafka.coordinator.kafka.wire import FetchOffsetsOfMany, LatestOffsets
from bellwether_kafka.coordinator.kafka.wire.node_requests import FetchOffsets
from bellwether_kafka.coordinator.membership import Node
from bellwether_kafka.coordinator.topology import TopicCreationError
from bellwether_kafka.coordinator.topology.internal_topics import TopicPlan, create_topics
from bellwether_kafka.protocol.primitives import is_topic_name
from tests.paths import ROOT

NODE = Node(1, "localhost", 9092)
NONSENSE = ("", ".", "..", "a\0b", "a b", "a,b", "a\n", "\u00e9", "a" * 250, "../a", "a/b", "topic\u2028", "\ud800")
NAMES = st.one_of(
    st.sampled_from(["orders", "a" * 249, "...", "_x-1.Y"]), st.sampled_from(NONSENSE), st.text(max_size=5)
)
# Modules that put topic names of others into requests, and those whose names are settings of Bellwether's own.
DOORS = ("kafka/client/metadata.py", "kafka/client/cluster.py", "topology/live.py")
DOORS += ("kafka/wire/node_requests.py", "topology/internal_topics.py")
OWN = ("control/topic.py", "control/topic_creation.py", "telemetry/publish.py", "telemetry/weight_reader.py")
OWN += ("telemetry/history_reader.py",)
READ_BEFORE = ("telemetry/samples.py",)  # topics of a plan, which exist
ASKS = re.compile(r"list_topics\((?!timeout)|ConfigResource\(ConfigResource\.Type\.TOPIC|NewTopic\(|describe_topics\(")


@pytest.mark.parametrize("name", NONSENSE)
def test_what_kafka_refuses_is_no_name(name: str) -> None:
    assert not is_topic_name(name)


@pytest.mark.parametrize("name", ["a", "a" * 249, "...", ".a", "_", "-", "A.b_c-9"])
def test_what_kafka_takes_is_a_name(name: str) -> None:
    assert is_topic_name(name)


@pytest.mark.slow
@given(st.lists(NAMES, max_size=6))
def test_metadata_are_asked_for_names_only_and_the_others_are_absent(names: list[str]) -> None:
    cache = metadata.MetadataCache()
    wrong = frozenset(name for name in names if not is_topic_name(name))
    assert not wrong & set(cache.stale(names, 0.0))
    read = cache.read(names, 0.0)
    assert (read.absent, read.unreadable) == (wrong, frozenset(names) - wrong)


@pytest.mark.slow
@given(st.dictionaries(NAMES, st.integers(1, 2), max_size=6))
def test_offsets_are_asked_for_names_only(counts: dict[str, int]) -> None:
    right = {name for name in counts if is_topic_name(name)}
    message = FetchOffsets(NODE, "g", counts, 100).message()
    assert {topic.name for topic in message.topics} == right
    assert {topic.name for topic in message.groups[0].topics} == right
    assert {topic.name for topic in FetchOffsetsOfMany(NODE, {"g": counts}, 100).message().groups[0].topics} == right
    assert {topic.name for topic in LatestOffsets(NODE, {name: [0] for name in counts}, 100).message().topics} == right


def test_a_topic_of_an_impossible_name_is_refused_before_it_is_asked_for() -> None:
    with pytest.raises(TopicCreationError, match="correct the topology file"):
        create_topics(None, [TopicPlan("a b", 1, 1, {})], 1.0)  # type: ignore[arg-type]  # nobody is asked


@pytest.mark.parametrize("kind", [ClusterReader, SharedReader])
async def test_one_impossible_name_spoils_no_other_topic(kind: type[ClusterReader]) -> None:
    class Recorded(kind):  # type: ignore[valid-type,misc]  # one of two classes
        def _brokers(self) -> list[Any]:
            return []

        def _one_topic(self, topic: str) -> Any:
            assert is_topic_name(topic)
            return (topic, None, *metadata.distinct_placements([(1, (1,))]))

    reader = Recorded({"bootstrap.servers": "127.0.0.1:1"})
    view = await reader.snapshot([*NONSENSE[:-1], "orders"], 0)
    assert (view.topics, view.unreadable) == (("orders",), frozenset())
    await reader.read(["store"])
    assert reader.last_read is not None
    assert reader.last_read.topics == ("orders",), "what a plan was made with is not lost by reading offsets"
    reader.close()


def test_only_modules_that_check_names_put_topics_into_requests() -> None:
    folder = ROOT / "coordinator"
    asking = {str(p.relative_to(folder)) for p in folder.rglob("*.py") if ASKS.search(p.read_text())}
    assert asking <= {*DOORS, *OWN, *READ_BEFORE}
    for door in DOORS:
        assert re.search("is_topic_name|possible_topics", (folder / door).read_text()), door
