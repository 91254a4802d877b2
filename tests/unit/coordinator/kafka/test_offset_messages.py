"""Offsets of many partitions in bytes of its own making, next to kafka-python's."""

import struct
from typing import Any

import pytest
from kafka.errors import IncompatibleBrokerVersion
from kafka.protocol.broker_version_data import BrokerVersionData
from kafka.protocol.consumer.group import OffsetFetchRequest, OffsetFetchResponse
from kafka.protocol.consumer.offsets import ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.frame import KafkaBytes

from bellwether_kafka.coordinator.kafka.wire import FetchedOffsets, FetchOffsetsOfMany, LatestOffsets, LogPlace
from bellwether_kafka.coordinator.kafka.wire.group_messages import failure_of
from bellwether_kafka.coordinator.kafka.wire.offset_messages import CommittedOffsets, LogEnds
from bellwether_kafka.coordinator.membership import Failure, Node

NODE = Node(1, "b", 9092)
LONG = "ü" * 200  # its length takes two bytes
LONG_NAME = "t" * 249  # as long as a topic may be called
TOPICS = {"t": range(3), LONG_NAME: [0, 70_000], "none": []}
CORRELATION, CLIENT = 7, "bellwether"


def framed(message: Any, version: int) -> bytes:
    """As the library's connection sends it."""
    message.API_VERSION = version
    message.with_header(correlation_id=CORRELATION, client_id=CLIENT)
    return bytes(message.encode(framed=True, header=True))


def received(message: Any, version: int, answer: bytes, *, flexible: bool = True) -> Any:
    """What the library's connection makes of an answer to the message."""
    framed(message, version)
    header = struct.pack(">i", CORRELATION) + b"\0" * flexible
    buffer = KafkaBytes(len(header) + len(answer))
    buffer.write(header + answer)
    buffer.seek(0)
    kind = message.header.get_response_class()
    assert kind.parse_header(buffer).correlation_id == CORRELATION
    return kind.decode(buffer)


def ends(version: int, rows: list[tuple[int, int, int]]) -> bytes:
    topic = ListOffsetsResponse.ListOffsetsTopicResponse
    entry = topic.ListOffsetsPartitionResponse
    made = [entry(partition_index=p, error_code=e, timestamp=-1, offset=o, leader_epoch=3) for p, e, o in rows]
    topics = [topic(name=name, partitions=made) for name in ("t", LONG)]
    return bytes(ListOffsetsResponse(throttle_time_ms=12, topics=topics).encode(version=version))


def committed(version: int, metadata: list[str | None], errors: dict[int, int] | None = None) -> bytes:
    group = OffsetFetchResponse.OffsetFetchResponseGroup
    topic = group.OffsetFetchResponseTopics
    entry = topic.OffsetFetchResponsePartitions
    made = [
        entry(
            partition_index=p,
            committed_offset=2**40 + p,
            committed_leader_epoch=-1,
            metadata=text,
            error_code=(errors or {}).get(p, 0),
        )
        for p, text in enumerate(metadata)
    ]
    groups = [group(group_id=g, topics=[topic(name="t", partitions=made)], error_code=0) for g in ("a", "b")]
    return bytes(OffsetFetchResponse(throttle_time_ms=12, groups=groups).encode(version=version))


@pytest.mark.parametrize("place", LogPlace)
@pytest.mark.parametrize("version", range(1, 11))
def test_places_in_logs_are_asked_for_in_the_bytes_of_the_library(version: int, place: LogPlace) -> None:
    timestamp, level = {LogPlace.END: (-1, 0), LogPlace.START: (-2, 0), LogPlace.STABLE_END: (-1, 1)}[place]
    topic = ListOffsetsRequest.ListOffsetsTopic
    entry = topic.ListOffsetsPartition
    theirs = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=level,
        topics=[
            topic(
                name=name,
                partitions=[entry(partition_index=p, current_leader_epoch=-1, timestamp=timestamp) for p in partitions],
            )
            for name, partitions in TOPICS.items()
        ],
        timeout_ms=1_000,
    )
    assert framed(LatestOffsets(NODE, TOPICS, 1_000, place).message(), version) == framed(theirs, version)


@pytest.mark.parametrize("version", [8, 9])
def test_committed_offsets_are_asked_for_in_the_bytes_of_the_library(version: int) -> None:
    groups = {"a": {"t": 3, LONG_NAME: 200}, "b": {}, LONG: {"none": 0}}
    group = OffsetFetchRequest.OffsetFetchRequestGroup
    topic = group.OffsetFetchRequestTopics
    wanted = [
        group(
            group_id=name,
            member_id=None,
            member_epoch=-1,
            topics=[topic(name=t, partition_indexes=list(range(count))) for t, count in counts.items()],
        )
        for name, counts in groups.items()
    ]
    theirs = OffsetFetchRequest(groups=wanted, require_stable=False)
    assert framed(FetchOffsetsOfMany(NODE, groups, 1_000).message(), version) == framed(theirs, version)


@pytest.mark.parametrize("version", range(1, 11))
def test_log_ends_are_read_in_every_version(version: int) -> None:
    request, flexible = LatestOffsets(NODE, TOPICS, 1_000), version >= 6
    answer = ends(version, [(0, 0, 2**40), (70_000, 6, -1)])
    response = received(request.message(), version, answer, flexible=flexible)
    assert isinstance(response, LogEnds) == flexible
    assert response.throttle_time_ms == (12 if version >= 2 else 0)
    rows = {0: (0, 2**40), 70_000: (6, -1)}
    assert request.answer(response) == {"t": rows, LONG: rows}


def test_log_ends_of_no_partition_are_read() -> None:
    request = LatestOffsets(NODE, {}, 1_000)
    assert request.answer(received(request.message(), 7, ends(7, []))) == {"t": {}, LONG: {}}


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize(
    "metadata",
    [
        ["", "", ""],
        [None, None, None],
        ["AgAAAY", "AgAAAZ", "AgAAAa"],
        ["", "x", None],
        ["x", "longer", "y"],
        [LONG, "", LONG],
        [],
    ],
)
def test_committed_offsets_are_read_whatever_metadata_was_committed(version: int, metadata: list[str | None]) -> None:
    request = FetchOffsetsOfMany(NODE, {"a": {"t": 3}, "b": {"t": 1}}, 1_000)
    response = received(request.message(), version, committed(version, metadata))
    assert isinstance(response, CommittedOffsets)
    assert response.throttle_time_ms == 12
    offsets = [2**40 + p if p < len(metadata) else -1 for p in range(3)]
    assert request.answer(response) == {"a": FetchedOffsets({"t": offsets}), "b": FetchedOffsets({"t": offsets[:1]})}


def test_the_error_of_a_partition_is_named() -> None:
    request = FetchOffsetsOfMany(NODE, {"a": {"t": 3}}, 1_000)
    answers = request.answer(received(request.message(), 8, committed(8, ["", "", ""], {1: 29})))
    assert answers == {"a": FetchedOffsets({"t": [2**40, -1, -1]}, 29, "t-1")}


def test_a_broker_that_takes_one_group_only_does_not_support_the_request() -> None:
    """As Redpanda, whose OffsetFetch ends at version 7."""
    with pytest.raises(IncompatibleBrokerVersion) as raised:
        BrokerVersionData(api_versions={9: (1, 7)}).api_version(FetchOffsetsOfMany(NODE, {}, 1_000).message())
    assert failure_of(raised.value) is Failure.UNSUPPORTED


def with_tag(answer: bytes) -> bytes:
    """At the end of the whole answer: tag 5 with one byte."""
    assert answer.endswith(b"\0")
    return answer[:-1] + b"\1\5\1\x2a"


def test_the_library_reads_what_has_tags() -> None:
    of_ends, of_groups = LatestOffsets(NODE, TOPICS, 1_000), FetchOffsetsOfMany(NODE, {"a": {"t": 1}}, 1_000)
    response = received(of_ends.message(), 7, with_tag(ends(7, [(0, 0, 5)])))
    assert isinstance(response, ListOffsetsResponse)
    assert of_ends.answer(response)["t"] == {0: (0, 5)}
    response = received(of_groups.message(), 8, with_tag(committed(8, [""])))
    assert isinstance(response, OffsetFetchResponse)
    assert of_groups.answer(response) == {"a": FetchedOffsets({"t": [2**40]})}


@pytest.mark.parametrize("missing", [1, 10, 40])
def test_an_answer_that_ends_too_early_is_no_answer(missing: int) -> None:
    for request, version, answer in (
        (LatestOffsets(NODE, TOPICS, 1_000), 7, ends(7, [(0, 0, 5)])),
        (FetchOffsetsOfMany(NODE, {"a": {"t": 1}}, 1_000), 8, committed(8, ["", "x"])),
    ):
        with pytest.raises((ValueError, IndexError, struct.error)):
            received(request.message(), version, answer[:-missing])
