"""Offsets of many partitions, in every version that brokers have."""

from typing import Any

import pytest
from kafka.protocol.consumer.group import OffsetFetchRequest, OffsetFetchResponse
from kafka.protocol.consumer.offsets import ListOffsetsRequest, ListOffsetsResponse

from bellwether_kafka.coordinator.kafka.wire import FetchedOffsets, FetchOffsetsOfMany, LatestOffsets, LogPlace
from bellwether_kafka.coordinator.membership import Node

NODE = Node(1, "b", 9092)
TOPICS = {"t": range(3), "t" * 249: [0, 70_000], "none": []}


@pytest.mark.parametrize("version", range(1, 11))
@pytest.mark.parametrize("place", LogPlace)
def test_places_in_logs_are_asked_for_and_understood_in_every_version(version: int, place: LogPlace) -> None:
    command = LatestOffsets(NODE, TOPICS, 5_000, place)
    sent: Any = ListOffsetsRequest.decode(command.message().encode(version=version), version=version)
    timestamp, isolation_level = place.value
    assert {topic.name: [p.partition_index for p in topic.partitions] for topic in sent.topics} == {
        name: list(partitions) for name, partitions in TOPICS.items()
    }
    assert {p.timestamp for topic in sent.topics for p in topic.partitions} == {timestamp}
    assert version < 2 or sent.isolation_level == isolation_level
    assert version < 10 or sent.timeout_ms == 5_000
    topic = ListOffsetsResponse.ListOffsetsTopicResponse
    rows = [(0, 0, 2**40), (70_000, 6, -1)]
    partitions = [
        topic.ListOffsetsPartitionResponse(partition_index=p, error_code=error, timestamp=-1, offset=offset)
        for p, error, offset in rows
    ]
    answer = ListOffsetsResponse(topics=[topic(name="t", partitions=partitions)]).encode(version=version)
    read = command.answer(ListOffsetsResponse.decode(answer, version=version))
    assert read == {"t": {p: (error, offset) for p, error, offset in rows}}


@pytest.mark.parametrize("version", [8, 9])
def test_committed_offsets_of_several_groups_are_one_request(version: int) -> None:
    command = FetchOffsetsOfMany(NODE, {"a": {"t": 2}, "b": {"t": 1, "u": 3}}, 5_000)
    sent: Any = OffsetFetchRequest.decode(command.message().encode(version=version), version=version)
    asked = {g.group_id: {t.name: list(t.partition_indexes) for t in g.topics} for g in sent.groups}
    assert asked == {"a": {"t": [0, 1]}, "b": {"t": [0], "u": [0, 1, 2]}}
    group = OffsetFetchResponse.OffsetFetchResponseGroup
    entry = group.OffsetFetchResponseTopics.OffsetFetchResponsePartitions

    def answered(group_id: str, offset: int, error: int = 0, of_group: int = 0) -> Any:
        partition = entry(partition_index=1, committed_offset=offset, metadata="x" * 300, error_code=error)
        topic = group.OffsetFetchResponseTopics(name="t", partitions=[partition])
        return group(group_id=group_id, error_code=of_group, topics=[topic])

    def read(*groups: Any) -> Any:
        answer = OffsetFetchResponse(groups=list(groups)).encode(version=version)
        return command.answer(OffsetFetchResponse.decode(answer, version=version))

    assert read(answered("a", 2**40), answered("nobody asked", 1)) == {"a": FetchedOffsets({"t": [-1, 2**40]})}
    assert read(answered("a", -1, error=3))["a"] == FetchedOffsets({"t": [-1, -1]}, 3, "t-1")
    assert read(answered("b", 1, of_group=16))["b"].error == 16
