"""The published algorithm of kafka-lag-based-assignor (2017, Apache-2.0), as an assignor of kafka-python consumers.

For each topic the partitions, in descending order of lag, go to the consumer with the fewest partitions, of these to
the one with the least lag. It has no memory, so any rebalance may move everything.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

ANSWER_TIMEOUT_S = 10.0


def lag_based(lags: Mapping[int, int], consumers: Sequence[str]) -> dict[str, list[int]]:
    """Returns the partitions of each consumer of one topic. `lags` are by partition."""
    partitions: dict[str, list[int]] = {consumer: [] for consumer in consumers}
    total = dict.fromkeys(consumers, 0)
    for partition in sorted(lags, key=lambda partition: (-lags[partition], partition)):
        consumer = min(consumers, key=lambda c: (len(partitions[c]), total[c], c))
        partitions[consumer].append(partition)
        total[consumer] += lags[partition]
    return partitions


def assignor(bootstrap: str, group: str) -> type[AbstractPartitionAssignor]:
    """Returns the assignor of a group whose members all subscribe to the same topics and begin at the earliest
    records."""

    class LagBased(AbstractPartitionAssignor):  # type: ignore[misc]  # the library is not typed
        name = "lag"

        @classmethod
        def assign(cls, cluster: Any, members: Sequence[Any]) -> dict[str, ConsumerProtocolAssignment]:
            consumers = [member.member_id for member in members]
            given: dict[str, list[tuple[str, list[int]]]] = {consumer: [] for consumer in consumers}
            for topic in sorted({topic for member in members for topic in member.metadata.topics}):
                lags = _lags(bootstrap, group, topic, sorted(cluster.partitions_for_topic(topic) or ()))
                for consumer, partitions in lag_based(lags, consumers).items():
                    given[consumer].append((topic, sorted(partitions)))
            return {consumer: ConsumerProtocolAssignment(0, given[consumer], b"") for consumer in consumers}

        @classmethod
        def metadata(cls, topics: Sequence[str]) -> ConsumerProtocolSubscription:
            return ConsumerProtocolSubscription(0, list(topics), b"")

        @classmethod
        def on_assignment(cls, assignment: object, generation: int) -> None:
            """Keeps nothing."""

    return LagBased


def _lags(bootstrap: str, group: str, topic: str, partitions: Sequence[int]) -> dict[int, int]:
    client = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    try:
        committed = client.committed([TopicPartition(topic, p) for p in partitions], timeout=ANSWER_TIMEOUT_S)
        lags = {}
        for row in committed:
            start, end = client.get_watermark_offsets(row, timeout=ANSWER_TIMEOUT_S, cached=False)
            lags[row.partition] = end - (row.offset if row.offset >= 0 else start)
        return lags
    finally:
        client.close()
