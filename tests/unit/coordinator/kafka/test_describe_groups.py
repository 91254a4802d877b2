"""Describe calls that the client library does not know: layouts of Bellwether, through the library's own codec."""

import uuid
from typing import Any

import pytest
from kafka.protocol.admin.groups import DescribeGroupsResponse

from bellwether_kafka.coordinator.kafka.wire import (
    DescribeMany,
    DescribeManyByBroker,
    RemoveStreamsMember,
    asks_bellwether,
)
from bellwether_kafka.coordinator.kafka.wire.describe_groups import (
    ConsumerGroupDescribeResponse,
    StreamsGroupDescribeResponse,
)
from bellwether_kafka.coordinator.membership import DescribeAnswer, DescribedMember, Node

NODE = Node(1, "b", 9092)


def asked(protocol: Any) -> DescribeManyByBroker:
    return DescribeManyByBroker(NODE, ["g"], protocol, 1_000)


def test_requests_are_as_on_the_wire() -> None:
    # COMPACT_ARRAY of one COMPACT_STRING "g", false, no tagged fields.
    for protocol, key in (("consumer", 69), ("streams", 89)):
        message = asked(protocol).message()
        assert key == message.API_KEY
        assert bytes(message.encode(version=0)) == bytes.fromhex("02" + "0267" + "00" + "00")


def test_a_streams_member_leaves_by_a_heartbeat_without_anything_else() -> None:
    message = RemoveStreamsMember(NODE, "g", "m", 1_000).message()
    assert message.API_KEY == 88
    strings, epoch, information, no_rack = "0267" + "026d", "ffffffff", "00000000", "00" + "00"
    timeout, no_topology, no_tasks, no_process, no_endpoint = "ffffffff", "ff", "00" * 3, "00", "ff"
    no_tags_and_offsets, no_shutdown, no_tagged_fields = "00" * 3, "00", "00"
    expected = strings + epoch + information + no_rack + timeout + no_topology + no_tasks + no_process + no_endpoint
    assert bytes(message.encode(version=0)).hex() == expected + no_tags_and_offsets + no_shutdown + no_tagged_fields


def test_a_consumer_group_is_read() -> None:
    group = ConsumerGroupDescribeResponse.DescribedGroup
    member = group.Member
    assignment_type = member.Assignment
    partitions = assignment_type.TopicPartitions(topic_id=uuid.UUID(int=5), topic_name="t", partitions=[0, 2])
    sent = ConsumerGroupDescribeResponse(
        throttle_time_ms=0,
        groups=[
            group(
                error_code=0,
                error_message=None,
                group_id="g",
                group_state="Stable",
                group_epoch=3,
                assignment_epoch=2,
                assignor_name="uniform",
                members=[
                    member(
                        member_id="m",
                        instance_id=None,
                        rack_id="az1",
                        member_epoch=2,
                        client_id="c",
                        client_host="/h",
                        subscribed_topic_names=["t"],
                        subscribed_topic_regex="t.*",
                        assignment=assignment_type(topic_partitions=[partitions]),
                        target_assignment=assignment_type(topic_partitions=[]),
                        member_type=0,
                    )
                ],
                authorized_operations=0,
            )
        ],
    )
    for version in (0, 1):
        data = bytes(sent.encode(version=version))
        answers = asked("consumer").answer(ConsumerGroupDescribeResponse.decode(data, version=version))["g"]
        (read,) = answers.members
        assert (answers.state, answers.epoch, answers.assignor) == ("Stable", 2, "uniform")
        assert (read.rack, read.topics, read.pattern, read.assigned) == ("az1", ("t",), "t.*", (("t", (0, 2)),))
        assert read.classic == (version == 1), "version 0 does not show it"


def test_a_streams_group_without_topology_is_read() -> None:
    group = StreamsGroupDescribeResponse.DescribedGroup
    sent = StreamsGroupDescribeResponse(
        throttle_time_ms=0,
        groups=[
            group(
                error_code=0,
                error_message=None,
                group_id="g",
                group_state="NotReady",
                group_epoch=1,
                assignment_epoch=0,
                topology=None,
                members=[],
                authorized_operations=0,
            )
        ],
    )
    answers = asked("streams").answer(StreamsGroupDescribeResponse.decode(bytes(sent.encode(version=0)), version=0))[
        "g"
    ]
    assert (answers.state, answers.subtopologies, answers.members) == ("NotReady", (), ())


def test_many_classic_groups_are_one_request() -> None:
    request = DescribeMany(NODE, ["a", "b"], 1_000)
    assert request.message().groups == ["a", "b"]
    group = DescribeGroupsResponse.DescribedGroup
    member = group.DescribedGroupMember
    m1 = member(
        member_id="m1",
        group_instance_id=None,
        client_id="app",
        client_host="/h",
        member_metadata=b"\1",
        member_assignment=b"",
    )
    shown = {"error_message": None, "authorized_operations": -1, "protocol_type": "consumer"}
    answers = request.answer(
        DescribeGroupsResponse(
            throttle_time_ms=0,
            groups=[
                group(error_code=0, group_id="a", group_state="Stable", protocol_data="range", members=[m1], **shown),
                group(error_code=16, group_id="b", group_state="", protocol_data="", members=[], **shown),
            ],
        )
    )
    assert answers == {
        "a": DescribeAnswer(
            0, 0, "Stable", "consumer", "range", (DescribedMember("m1", None, b"\1", b"", "app", "/h"),)
        ),
        "b": DescribeAnswer(0, 16, "", "consumer"),
    }


@pytest.mark.parametrize(
    ("assignor", "asks"),
    [
        ("bellwether", True),
        ("bellwether-load-aware", True),
        ("bellwethers", False),
        ("bellwether_v2", False),
        ("", False),
    ],
)
def test_only_the_assignors_of_the_jar_ask_bellwether(assignor: str, *, asks: bool) -> None:
    assert asks_bellwether(assignor) is asks
