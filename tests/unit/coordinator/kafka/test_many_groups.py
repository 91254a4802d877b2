"""Requests about many groups, as every version of the protocol has them."""

from typing import Any

import pytest
from kafka.protocol.admin.groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kafka.protocol.consumer.group import OffsetFetchRequest, OffsetFetchResponse
from kafka.protocol.consumer.offsets import ListOffsetsRequest, ListOffsetsResponse

from bellwether_kafka.coordinator.kafka.wire import (
    BrokerGroup,
    DescribeMany,
    DescribeManyByBroker,
    FetchedOffsets,
    FetchOffsetsOfMany,
    GroupList,
    LatestOffsets,
    ListAllGroups,
    ListedGroup,
)
from bellwether_kafka.coordinator.kafka.wire.describe_groups import ConsumerGroupDescribeResponse
from bellwether_kafka.coordinator.membership import DescribeAnswer, Node

NODE = Node(1, "b", 9092)


def through(message: Any, request: Any, version: int) -> Any:
    """What a broker reads."""
    return request.decode(message.encode(version=version), version=version)


def back(sent: Any, version: int) -> Any:
    """What Bellwether reads."""
    return type(sent).decode(sent.encode(version=version), version=version)


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed_with_the_error_of_their_node(version: int) -> None:
    request = ListAllGroups(NODE, 1_000)
    through(request.message(), ListGroupsRequest, version)
    entry = ListGroupsResponse.ListedGroup
    groups = [entry(group_id="g", protocol_type="consumer", group_state="Stable", group_type="classic")]
    answers = request.answer(back(ListGroupsResponse(throttle_time_ms=0, error_code=14, groups=groups), version))
    state, kind = "Stable" if version >= 4 else "", "classic" if version >= 5 else ""
    assert answers == GroupList(14, (ListedGroup("g", "consumer", state, kind),))


@pytest.mark.parametrize("version", range(7))
def test_many_groups_are_described(version: int) -> None:
    request = DescribeMany(NODE, ["a", "b"], 1_000)
    assert list(through(request.message(), DescribeGroupsRequest, version).groups) == ["a", "b"]
    entry = DescribeGroupsResponse.DescribedGroup

    def group(name: str, error: int, state: str) -> Any:
        reported = {"group_state": state, "protocol_type": "consumer", "protocol_data": "range", "members": []}
        return entry(group_id=name, error_code=error, error_message=None, authorized_operations=[], **reported)

    sent = DescribeGroupsResponse(throttle_time_ms=0, groups=[group("b", 30, ""), group("a", 0, "Empty")])
    assert request.answer(back(sent, version)) == {
        "a": DescribeAnswer(0, 0, "Empty", "consumer", "range"),
        "b": DescribeAnswer(0, 30, "", "consumer", "range"),
    }


def test_many_groups_of_brokers_are_described() -> None:
    request = DescribeManyByBroker(NODE, ["a"], "consumer", 1_000)
    assert request.message().API_KEY == 69
    assert DescribeManyByBroker(NODE, ["a"], "streams", 1_000).message().API_KEY == 89
    entry = ConsumerGroupDescribeResponse.DescribedGroup
    failed = entry(error_code=69, error_message="no such group", group_id="a", group_state="", members=[])
    answers = request.answer(ConsumerGroupDescribeResponse(throttle_time_ms=0, groups=[failed]))
    assert answers == {"a": BrokerGroup("a", "consumer", 69, "no such group")}


@pytest.mark.parametrize("version", [8, 9])
def test_committed_offsets_of_many_groups(version: int) -> None:
    request = FetchOffsetsOfMany(NODE, {"a": {"t": 2}, "b": {"t": 1}, "c": {"u": 1}}, 1_000)
    asked = through(request.message(), OffsetFetchRequest, version)
    assert [(group.group_id, [topic.name for topic in group.topics]) for group in asked.groups] == [
        ("a", ["t"]),
        ("b", ["t"]),
        ("c", ["u"]),
    ]
    group = OffsetFetchResponse.OffsetFetchResponseGroup
    topic = group.OffsetFetchResponseTopics

    def answer(name: str, topic_name: str, partition: int, offset: int, error: int = 0, of_group: int = 0) -> Any:
        reported = {"partition_index": partition, "committed_offset": offset, "metadata": "", "error_code": error}
        partitions = [topic.OffsetFetchResponsePartitions(**reported)]
        return group(group_id=name, topics=[topic(name=topic_name, partitions=partitions)], error_code=of_group)

    groups = [answer("a", "t", 1, 42), answer("b", "t", 0, -1, error=29), answer("c", "u", 0, 5, of_group=30)]
    assert request.answer(back(OffsetFetchResponse(groups=groups), version)) == {
        "a": FetchedOffsets({"t": [-1, 42]}),
        "b": FetchedOffsets({"t": [-1]}, 29, "t-0"),
        "c": FetchedOffsets({"u": [-1]}, 30),
    }


@pytest.mark.parametrize("version", range(1, 11))
def test_log_ends_of_many_partitions(version: int) -> None:
    request = LatestOffsets(NODE, {"t": [0, 3]}, 1_000)
    (topic,) = through(request.message(), ListOffsetsRequest, version).topics
    assert [(p.partition_index, p.timestamp) for p in topic.partitions] == [(0, -1), (3, -1)]
    entry = ListOffsetsResponse.ListOffsetsTopicResponse
    partitions = [
        entry.ListOffsetsPartitionResponse(partition_index=p, error_code=error, timestamp=-1, offset=offset)
        for p, error, offset in ((0, 0, 7), (3, 6, -1))
    ]
    sent = ListOffsetsResponse(throttle_time_ms=0, topics=[entry(name="t", partitions=partitions)])
    assert request.answer(back(sent, version)) == {"t": {0: (0, 7), 3: (6, -1)}}
