"""Requests about one group: which call ends a membership."""

import asyncio
from dataclasses import replace
from typing import Any

from bellwether_kafka.coordinator.guard.group_link import GroupLink
from bellwether_kafka.coordinator.kafka.wire import DescribeManyByBroker, RemoveMembers, RemoveStreamsMember
from tests.kit.membership import GROUP
from tests.unit.coordinator.guard.stage import of_consumer_protocol
from tests.unit.coordinator.guard.world import Brokers


async def test_a_removal_that_begins_while_the_group_is_described_again_knows_its_protocol() -> None:
    """The broker would refuse LeaveGroup for a member of Streams."""
    brokers = Brokers()
    brokers.by_broker = replace(of_consumer_protocol("app-1"), protocol="streams")
    link = GroupLink(brokers, GROUP)
    await link.describe()
    removals: list[asyncio.Task[Any]] = []

    def begin_removal(request: Any) -> None:
        if isinstance(request, DescribeManyByBroker) and not removals:
            removals.append(asyncio.create_task(link.remove(["m-0"], "its process has ended")))

    brokers.before = begin_removal
    await link.describe()
    await asyncio.gather(*removals)
    assert [type(request) for request in brokers.asked if isinstance(request, RemoveMembers | RemoveStreamsMember)] == [
        RemoveStreamsMember
    ]
