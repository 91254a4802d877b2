"""Hosts aiokafka consumers, each on an event loop of its own."""

import asyncio
import logging
from collections.abc import Iterable

from aiokafka import (  # type: ignore[import-untyped]  # ships no types
    AIOKafkaConsumer,
    ConsumerRebalanceListener,
    TopicPartition,
)
from aiokafka.coordinator.assignors.range import RangePartitionAssignor  # type: ignore[import-untyped]  # no types
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor  # type: ignore[import-untyped]  # same

from tests.interop.support.clients.host import HostedMember, emit, serve

ASSIGNORS = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}


class AioMember(HostedMember):
    """Commits between polls what earlier polls returned; nothing is awaited between a poll and its report."""

    def consume(self) -> None:
        asyncio.run(self._consume())

    async def _consume(self) -> None:
        fields = self.fields
        consumer = AIOKafkaConsumer(
            bootstrap_servers=fields["bootstrap"],
            group_id=fields["group"],
            client_id=f"aiokafka-{self.name}",  # as by default: its bytes are those of kafka-python
            group_instance_id=fields.get("instance"),
            partition_assignment_strategy=[ASSIGNORS[name] for name in fields["assignors"].split(",")],
            session_timeout_ms=int(fields["session_ms"]),
            heartbeat_interval_ms=int(fields.get("heartbeat_ms", "500")),
            max_poll_interval_ms=30_000,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=500,
        )
        consumer.subscribe(topics=fields["topics"].split(","), listener=_Listener(self))
        emit("joined", self.name)
        await consumer.start()  # and that is when it has a plan
        try:
            while not self.stopping.is_set():
                batches = await consumer.getmany(timeout_ms=100)
                self.consumed([(r.topic, r.partition, r.offset) for records in batches.values() for r in records])
        finally:
            await consumer.stop()


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # the library is not typed
    def __init__(self, member: AioMember) -> None:
        self._member = member

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._member.moved("assigned", [(p.topic, p.partition) for p in assigned])

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self._member.moved("revoked", [(p.topic, p.partition) for p in revoked])


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    serve(AioMember)
