"""Asks the broker of a group by which assignor it assigns, so that an order that this assignor would not follow is
refused with the remedy."""

import asyncio
from collections.abc import Callable
from functools import partial

from bellwether_kafka.coordinator import control
from bellwether_kafka.coordinator.cli.read_groups import CONNECT_TIMEOUT_MS
from bellwether_kafka.coordinator.kafka import wire
from bellwether_kafka.coordinator.kafka.wire import BrokerGroup
from bellwether_kafka.coordinator.observation import described_by_broker
from bellwether_kafka.coordinator.settings import Settings


def unfollowed_by_broker(settings: Settings, group: str, is_served: Callable[[], bool]) -> str:
    """Returns why the broker of this group would not follow an order, as sentences with the remedy; "" if a member
    assigns, or if that cannot be read. `is_served` returns whether a Bellwether reports that it has served the group a
    plan, and may wait for that report; it is called only if the assignor asks Bellwether."""
    described = asyncio.run(_described(settings, group))
    if not isinstance(described, BrokerGroup):
        return ""
    unfollowed = partial(
        control.unfollowed, group, described.protocol, described.assignor, members=bool(described.members)
    )
    return unfollowed(served=True) or unfollowed(served=is_served())


async def _described(settings: Settings, group: str) -> BrokerGroup | int | None:
    transport = wire.Transport(settings.properties)
    try:
        await transport.start(CONNECT_TIMEOUT_MS)
        return await described_by_broker(transport, group)
    except wire.TransportError:
        return None  # no broker answers
    finally:
        await transport.close()
