"""The transport to embedded brokers: it makes up for what librdkafka's mock does otherwise (see `embedded_brokers`)."""

import asyncio
from collections.abc import Mapping
from typing import TypeVar, cast

from bellwether_kafka.coordinator.kafka import DescribeMany, NodeRequest, Transport
from bellwether_kafka.coordinator.membership import (
    Answer,
    Code,
    Describe,
    DescribeAnswer,
    Request,
    RequestFailed,
    Sync,
)

T = TypeVar("T")

API_VERSION = {"bellwether.api.version": "2.3"}  # kafka-python cannot read the mock's answer to ApiVersions
SYNC_GRACE_S = 0.2  # a rebalance ends with the leader's request, even before followers have sent theirs


class EmbeddedTransport(Transport):
    """A `Transport` for brokers without DescribeGroups, whose rebalances end too soon."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        super().__init__({**API_VERSION, **properties})

    async def request(self, command: Request) -> Answer | RequestFailed:
        if isinstance(command, Describe):
            return DescribeAnswer(command.request_id, Code.GROUP_ID_NOT_FOUND)
        if isinstance(command, Sync):
            await asyncio.sleep(SYNC_GRACE_S)
        return await super().request(command)

    async def ask(self, request: NodeRequest[T]) -> T:
        asked: object = request
        if isinstance(asked, DescribeMany):
            missing = {group: DescribeAnswer(0, Code.GROUP_ID_NOT_FOUND) for group in asked.group_ids}
            return cast("T", missing)
        return await super().ask(request)
