"""What is asked of one node has the bytes of every version that it may speak."""

import uuid

import pytest
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from bellwether_kafka.coordinator.kafka.wire import TopicIds
from bellwether_kafka.coordinator.membership import Node

FIRST, SECOND = uuid.UUID(int=1), uuid.UUID(int=2)
ASKED = TopicIds(Node(1, "127.0.0.1", 9092), (FIRST.bytes,), ("orders", "not a topic"), 1_000)


@pytest.mark.parametrize("version", [12, 13])
def test_topics_are_asked_for_by_id_and_by_name(version: int) -> None:
    read = MetadataRequest.decode(ASKED.message().encode(version=version), version=version)
    assert [(topic.topic_id, topic.name) for topic in read.topics] == [(FIRST, None), (None, "orders")]
    assert not read.allow_auto_topic_creation


def test_topics_that_are_not_there_have_no_name() -> None:
    topic = MetadataResponse.MetadataResponseTopic
    topics = [
        topic(error_code=0, name="clicks", topic_id=FIRST, partitions=[]),
        topic(error_code=100, name=None, topic_id=SECOND, partitions=[]),
    ]
    sent = MetadataResponse(throttle_time_ms=0, brokers=[], cluster_id="c", controller_id=1, topics=topics)
    assert ASKED.answer(MetadataResponse.decode(sent.encode(version=12), version=12)) == {FIRST.bytes: "clicks"}
