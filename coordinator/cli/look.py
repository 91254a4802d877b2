"""How commands look at groups: connected for a while, as configured, joining nothing."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from confluent_kafka import KafkaException

from bellwether_kafka.assignors.shared import UnknownNameError
from bellwether_kafka.coordinator import kafka
from bellwether_kafka.coordinator.cli.leader import Leader, as_led, configured
from bellwether_kafka.coordinator.cli.options import group_settings
from bellwether_kafka.coordinator.cli.output import fail
from bellwether_kafka.coordinator.observation import GroupObserver, Observation, Shadow, Sources
from bellwether_kafka.coordinator.planning import ApplicationError
from bellwether_kafka.coordinator.settings import Settings

T = TypeVar("T")
CONNECT_TIMEOUT_MS = 10_000


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """The result of the work; what a setting or a broker spoils ends the process with a sentence."""
    try:
        return asyncio.run(work)
    except KafkaException as error:
        fail(f"The brokers did not answer: {error.args[0].str()}; check bootstrap.servers and the ACLs.")
    except (
        ApplicationError,
        UnknownNameError,
        kafka.ClientConfigError,
        kafka.ClusterUnreachableError,
        kafka.TransportError,
    ) as error:
        fail(str(error))


@asynccontextmanager
async def connected(properties: Mapping[str, str]) -> AsyncIterator[Sources]:
    """What a look reads from, open for as long as it takes. Raises TransportError and ClientConfigError."""
    transport = kafka.Transport(properties)
    reader = kafka.ClusterReader(kafka.librdkafka_properties(properties))
    offsets = kafka.OffsetReader(reader.admin, transport)
    try:
        await transport.start(CONNECT_TIMEOUT_MS)
        yield Sources(transport, reader, offsets)
    finally:
        offsets.close()
        reader.close()
        await transport.close()


@asynccontextmanager
async def observer_of(settings: Settings, group: str) -> AsyncIterator[GroupObserver]:
    """An observer whose shadow plan is what the configured leader would decide."""
    async with connected(settings.properties) as sources:
        leader = await asyncio.to_thread(as_led, settings, group)
        yield observer_for(settings, group, sources, leader)


def observer_for(settings: Settings, group: str, sources: Sources, leader: Leader | None = None) -> GroupObserver:
    """By what is configured of the group, else by the defaults; its plans are `leader`'s, if that is given."""
    by = leader or configured(settings, group)
    membership = group_settings(settings, group).membership(settings.instance_id)
    return GroupObserver(membership, sources, by.policy, by.application)


def look(settings: Settings, group: str) -> Observation:
    """One look at a group, or the end with a sentence."""

    async def once() -> Observation:
        async with observer_of(settings, group) as observer:
            return of_a_group(await observer.look())

    return run_to_end(once())


def of_a_group(seen: Observation) -> Observation:
    """The same, or the end with a sentence where no such group is, or none that we may see."""
    if seen.kind == "missing":
        fail(f"The group {seen.group_id} cannot be looked at: {seen.trouble}. See 'bellwether groups'.")
    return seen


def look_with_plan(settings: Settings, group: str) -> tuple[Observation, Shadow]:
    """One look at a group and its shadow plan, or the end with a sentence."""
    seen = look(settings, group)
    if seen.shadow is None:
        fail(f"There is nothing to plan in {group}: {seen.trouble or seen.obstacle or 'it has no members'}.")
    return seen, seen.shadow


async def all_groups(transport: kafka.Transport, reader: kafka.ClusterReader) -> list[kafka.ListedGroup]:
    """The groups of all brokers."""
    found = await asyncio.gather(*(transport.list_groups(node) for node in await reader.nodes()))
    return [group for node in found for group in node]
