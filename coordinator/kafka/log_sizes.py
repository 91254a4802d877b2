"""Sizes of partitions on disk over kafka-python (confluent-kafka has no such request): request and response as plain
values. Belongs to `transport`. Needs the ACL DESCRIBE on the cluster; without it there are no sizes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from kafka.protocol.admin import DescribeLogDirsRequest

from bellwether_kafka.coordinator.membership import Connection, Node

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class LogSizes:
    """DescribeLogDirs for partitions 0..n-1 of each topic, on one broker."""

    connection: ClassVar[Connection] = Connection.CONTROL
    request_id: int
    node: Node
    group_id: str
    topics: Mapping[str, int]
    timeout_ms: int


def sizes_message(command: LogSizes) -> Any:
    topic = DescribeLogDirsRequest.DescribableLogDirTopic
    return DescribeLogDirsRequest(
        topics=[topic(topic=name, partitions=list(range(count))) for name, count in command.topics.items()]
    )


def sizes_answer(response: Any) -> dict[TopicPartition, int]:
    """Bytes of the replicas that this broker has; directories with an error are left out."""
    found: dict[TopicPartition, int] = {}
    for directory in response.results:
        if directory.error_code:
            continue
        for topic in directory.topics:
            for partition in topic.partitions:
                if not partition.is_future_key:
                    found[topic.name, partition.partition_index] = int(partition.partition_size)
    return found
