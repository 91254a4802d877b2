"""Asks the broker of a group by which assignor it assigns, so that an order that this assignor would not follow is
refused with the remedy."""

import asyncio
from contextlib import suppress

from bellwether_kafka.coordinator import control, kafka
from bellwether_kafka.coordinator.cli.read_groups import CONNECT_TIMEOUT_MS
from bellwether_kafka.coordinator.kafka import BROKER_PROTOCOLS, BrokerGroup
from bellwether_kafka.coordinator.settings import Settings


def unfollowed_by_broker(settings: Settings, group: str, *, served: bool) -> str:
    """Returns why the broker of this group would not follow an order, as sentences with the remedy; "" if a member
    assigns, or if that cannot be read. `served`: a Bellwether reports that it has served the group a plan."""
    described = asyncio.run(_described(settings, group))
    return "" if described is None else control.unfollowed(group, described.protocol, described.assignor, served=served)


async def _described(settings: Settings, group: str) -> BrokerGroup | None:
    transport = kafka.Transport(settings.properties)
    try:
        await transport.start(CONNECT_TIMEOUT_MS)
        for protocol in BROKER_PROTOCOLS:
            with suppress(kafka.TransportError):  # 4.0 has no call for streams groups
                answer = await transport.describe_by_broker(group, protocol)
                if not answer.error:
                    return answer
    except kafka.TransportError:
        return None  # no broker answers
    finally:
        await transport.close()
    return None  # an older broker, which has no such groups, or a group whose members assign
