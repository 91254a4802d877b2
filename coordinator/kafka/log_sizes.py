"""Sizes of partitions on disk over kafka-python (confluent-kafka has no such request): request and response as plain
values. Belongs to `transport`. Needs the ACL DESCRIBE on the cluster; without it there are no sizes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import DescribeLogDirsRequest

from bellwether_kafka.coordinator.membership import Node


@dataclass(frozen=True, slots=True)
class LogSizes:
    """DescribeLogDirs for partitions 0..n-1 of each topic, on one broker."""

    node: Node
    topics: Mapping[str, int]
    timeout_ms: int

    def message(self) -> Any:
        topic = DescribeLogDirsRequest.DescribableLogDirTopic
        return DescribeLogDirsRequest(
            topics=[topic(topic=name, partitions=list(range(count))) for name, count in self.topics.items()]
        )

    def answer(self, response: Any) -> dict[tuple[str, int], int]:
        """Bytes of the replicas that this broker has; directories with an error are left out."""
        found: dict[tuple[str, int], int] = {}
        for directory in response.results:
            if directory.error_code:
                continue
            for topic in directory.topics:
                for partition in topic.partitions:
                    if not partition.is_future_key:
                        found[topic.name, partition.partition_index] = int(partition.partition_size)
        return found
