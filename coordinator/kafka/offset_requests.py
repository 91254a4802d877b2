"""Committed offsets of a group over kafka-python: request, and response as plain values. Belongs to `transport`.

librdkafka's admin client has the same request, but a connection that drops while it waits for a coordinator node ends
the whole process with an assertion (confluentinc/librdkafka issue 4605, open as of 2.16).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka.protocol.consumer.group import OffsetFetchRequest

from bellwether_kafka.coordinator.membership import Node

NAMES_UP_TO = 9  # later versions name topics by id
NO_OFFSET = -1


@dataclass(frozen=True, slots=True)
class FetchedOffsets:
    """`offsets` has an entry per partition asked for, NO_OFFSET where nothing is committed. `error` is Kafka's code;
    `at` the partition that it belongs to, "" for the group."""

    offsets: Mapping[str, list[int]]
    error: int = 0
    at: str = ""


@dataclass(frozen=True, slots=True)
class FetchOffsets:
    """OffsetFetch for partitions 0..n-1 of each topic. Transactions under way are not waited for."""

    node: Node
    group_id: str
    topics: Mapping[str, int]
    timeout_ms: int

    def message(self) -> Any:
        plain, group = OffsetFetchRequest.OffsetFetchRequestTopic, OffsetFetchRequest.OffsetFetchRequestGroup
        wanted = [(topic, list(range(count))) for topic, count in self.topics.items()]
        return OffsetFetchRequest(
            group_id=self.group_id,
            topics=[plain(name=topic, partition_indexes=partitions) for topic, partitions in wanted],
            groups=[
                group(
                    group_id=self.group_id,
                    topics=[
                        group.OffsetFetchRequestTopics(name=topic, partition_indexes=partitions)
                        for topic, partitions in wanted
                    ],
                )
            ],
            require_stable=False,
            max_version=NAMES_UP_TO,
        )

    def answer(self, response: Any) -> FetchedOffsets:
        found = {topic: [NO_OFFSET] * count for topic, count in self.topics.items()}
        group = response.groups[0] if response.API_VERSION >= 8 else response
        error = getattr(group, "error_code", 0) or 0
        if error:
            return FetchedOffsets(found, error)
        for topic in group.topics:
            offsets = found.get(topic.name, [])
            for partition in topic.partitions:
                if partition.error_code:
                    return FetchedOffsets(found, partition.error_code, f"{topic.name}-{partition.partition_index}")
                if 0 <= partition.partition_index < len(offsets):
                    offsets[partition.partition_index] = max(NO_OFFSET, partition.committed_offset)
        return FetchedOffsets(found)
