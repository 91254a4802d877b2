"""Reading and writing one topic, and fencing a producer, as kafka-python's messages: out, over the wire, and back."""

from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.consumer.fetch import FetchResponse
from kafka.protocol.metadata import FindCoordinatorResponse, MetadataResponse
from kafka.protocol.producer import InitProducerIdResponse, ProduceRequest, ProduceResponse
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder

from bellwether_kafka.coordinator.kafka.wire import FenceProducer, FindLeader, FindTransactionCoordinator, ReadRecords
from bellwether_kafka.coordinator.kafka.wire.topic_log import (
    AppendedRecord,
    AppendRecord,
    FindStart,
    LeaderFound,
    ReadLog,
)
from bellwether_kafka.coordinator.membership import CoordinatorAnswer, Node

NODE = Node(1, "broker", 9092)
GZIP, NO_CODEC = 1, 5


def over_the_wire(request: Any, version: int) -> None:
    """Every version that a broker may choose can be written."""
    request.message().encode(version=version)


@pytest.mark.parametrize("version", range(4, 14))
def test_metadata_is_asked_in_every_version(version: int) -> None:
    over_the_wire(FindLeader(NODE, "t", 100), version)


@pytest.mark.parametrize("version", range(4, 13))
def test_a_log_is_read_in_every_version(version: int) -> None:
    over_the_wire(ReadLog(NODE, "t", 5, 100), version)


@pytest.mark.parametrize("version", range(1, 11))
def test_the_start_of_a_log_is_asked_in_every_version(version: int) -> None:
    over_the_wire(FindStart(NODE, "t", 100), version)


@pytest.mark.parametrize("version", range(3, 13))
def test_a_record_is_written_in_every_version(version: int) -> None:
    over_the_wire(AppendRecord(NODE, "t", b"k", None, 100), version)


@pytest.mark.parametrize("version", range(7))
def test_a_producer_is_fenced_in_every_version(version: int) -> None:
    over_the_wire(FenceProducer(NODE, "id", 10_000, 100), version)
    if version:
        over_the_wire(FindTransactionCoordinator(NODE, "id", 100), version)


def test_the_leader_of_a_topic_is_found() -> None:
    topic = MetadataResponse.MetadataResponseTopic
    partition = topic.MetadataResponsePartition
    broker = MetadataResponse.MetadataResponseBroker(node_id=3, host="three", port=9093, rack=None)
    led = partition(error_code=0, partition_index=0, leader_id=3)
    answer = MetadataResponse(brokers=[broker], topics=[topic(error_code=0, name="t", partitions=[led])])
    assert FindLeader(NODE, "t", 100).answer(answer) == LeaderFound(0, Node(3, "three", 9093))
    missing = MetadataResponse(brokers=[broker], topics=[topic(error_code=3, name="t", partitions=[])])
    assert FindLeader(NODE, "t", 100).answer(missing) == LeaderFound(3)
    away = partition(error_code=0, partition_index=0, leader_id=9)
    leaderless = MetadataResponse(brokers=[broker], topics=[topic(error_code=0, name="t", partitions=[away])])
    assert FindLeader(NODE, "t", 100).answer(leaderless) == LeaderFound(-1)


def batch(offset: int, *records: tuple[bytes, bytes | None], codec: int = 0) -> bytes:
    builder = MemoryRecordsBuilder(2, codec, 10_000)
    for key, value in records:
        builder.append(0, key, value)
    builder.close()
    return offset.to_bytes(8, "big") + bytes(builder.buffer())[8:]


def fetched(data: bytes, error: int = 0, end: int = 10) -> Any:
    topic = FetchResponse.FetchableTopicResponse
    partition = topic.PartitionData(
        partition_index=0, error_code=error, high_watermark=end, log_start_offset=0, records=data
    )
    return FetchResponse(error_code=0, responses=[topic(topic="t", partitions=[partition])])


def test_records_are_read_from_the_offset_on() -> None:
    data = batch(3, (b"a", b"1"), (b"b", None)) + batch(5, (b"c", b"3"), codec=GZIP)
    read = ReadLog(NODE, "t", 4, 100).answer(fetched(data))
    assert read == ReadRecords(0, ((b"b", None), (b"c", b"3")), 6, 10)


def test_a_batch_that_cannot_be_decompressed_is_reported_and_gone_past() -> None:
    compressed = bytearray(batch(0, (b"a", b"1"), codec=GZIP))
    compressed[22] = NO_CODEC  # the attributes' lower byte
    read = ReadLog(NODE, "t", 0, 100).answer(fetched(bytes(compressed) + batch(1, (b"b", b"2"))))
    assert (read.records, read.next_offset) == (((b"b", b"2"),), 2)
    (unread,) = read.unread
    assert (unread.offset, unread.reason) == (0, "is compressed by codec 5, which Kafka does not have")


def test_an_error_of_the_log_is_no_record() -> None:
    assert ReadLog(NODE, "t", 0, 100).answer(fetched(b"", error=1)) == ReadRecords(1)
    assert ReadLog(NODE, "t", 0, 100).answer(SimpleNamespace(error_code=0, responses=[])).error == -1


def test_a_record_is_written_with_its_key() -> None:
    message = AppendRecord(NODE, "t", b"k", b"v", 100).message()
    assert isinstance(message, ProduceRequest)
    (written,) = MemoryRecords(bytes(message.topic_data[0].partition_data[0].records))
    assert [(record.key, record.value) for record in written] == [(b"k", b"v")]
    topic = ProduceResponse.TopicProduceResponse
    done = ProduceResponse(
        responses=[topic(name="t", partition_responses=[topic.PartitionProduceResponse(error_code=29)])]
    )
    assert AppendRecord(NODE, "t", b"k", b"v", 100).answer(done) == AppendedRecord(29)


def test_the_coordinator_node_of_a_producer_is_found() -> None:
    node = FindCoordinatorResponse.Coordinator(key="id", node_id=2, host="two", port=9, error_code=0)
    answer = FindCoordinatorResponse(coordinators=[node], version=4)
    assert FindTransactionCoordinator(NODE, "id", 100).answer(answer) == CoordinatorAnswer(0, 0, Node(2, "two", 9))
    refused = FindCoordinatorResponse(error_code=53, node_id=-1, host="", port=-1, version=1)
    assert FindTransactionCoordinator(NODE, "id", 100).answer(refused) == CoordinatorAnswer(0, 53)


def test_a_fence_answers_with_the_code() -> None:
    assert FenceProducer(NODE, "id", 10_000, 100).answer(InitProducerIdResponse(error_code=51)) == 51
