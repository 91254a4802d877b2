"""Hosts kafka-python consumers."""

import logging
from collections.abc import Iterable

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from tests.interop.support.clients.host import HostedMember, emit, serve
from tests.interop.support.clients.lag_based import assignor

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


class KafkaPythonMember(HostedMember):
    """Commits inside poll what earlier polls returned, as Java does: reporting before the next poll is enough."""

    def consume(self) -> None:
        fields = self.fields
        consumer = KafkaConsumer(
            bootstrap_servers=fields["bootstrap"].split(","),
            group_id=fields["group"],
            client_id=self.name,
            group_instance_id=fields.get("instance"),
            partition_assignment_strategy=[self._assignor(name) for name in fields["assignors"].split(",")],
            session_timeout_ms=int(fields["session_ms"]),
            heartbeat_interval_ms=int(fields.get("heartbeat_ms", "500")),
            max_poll_interval_ms=30_000,
            max_poll_records=200,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=500,
        )
        consumer.subscribe(fields["topics"].split(","), listener=_Listener(self))
        emit("joined", self.name)
        try:
            while not self.stopping.is_set():
                batches = consumer.poll(timeout_ms=100)
                self.consumed([(r.topic, r.partition, r.offset) for records in batches.values() for r in records])
        finally:
            consumer.close()

    def _assignor(self, name: str) -> type[AbstractPartitionAssignor]:
        if name == "lag":
            return assignor(self.fields["bootstrap"], self.fields["group"])
        return ASSIGNORS[name]


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # the library is not typed
    def __init__(self, member: KafkaPythonMember) -> None:
        self._member = member

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._member.moved("assigned", [(p.topic, p.partition) for p in assigned])

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self._member.moved("revoked", [(p.topic, p.partition) for p in revoked])

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        self._member.moved("lost", [(p.topic, p.partition) for p in lost])


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    serve(KafkaPythonMember)
