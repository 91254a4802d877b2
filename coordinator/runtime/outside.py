"""What a process reaches beyond itself: brokers, the control topic, the files and signals of its machine. An argument,
so that the simulation runs the same process over brokers of its own. Time and threads come from the event loop."""

from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bellwether_kafka.coordinator.control import ControlTopic, NoTopic, OrderSource, state_file
from bellwether_kafka.coordinator.groups import Describer
from bellwether_kafka.coordinator.kafka import client, wire
from bellwether_kafka.coordinator.runtime.loop_watch import spare_collections
from bellwether_kafka.coordinator.runtime.membership_driver import Loop, membership_loop
from bellwether_kafka.coordinator.web import HttpServer, Web

Properties = Mapping[str, str]


def orders(properties: Properties, topic: str) -> OrderSource:
    """Returns the control topic, or what takes its place without one."""
    return ControlTopic(properties, topic) if topic else NoTopic()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """`properties` of `cluster` and `shared_cluster` are librdkafka's, the others those of the settings."""

    transport: Callable[[Properties], wire.Transport] = wire.Transport
    cluster: Callable[[Properties], client.ClusterReader] = client.ClusterReader
    shared_cluster: Callable[[Properties], client.SharedReader] = client.SharedReader
    offsets: Callable[[client.ClusterReader, wire.Transport, Describer], client.OffsetReader] = client.OffsetReader
    orders: Callable[[Properties, str], OrderSource] = orders
    memberships: Callable[[Coroutine[Any, Any, None]], AbstractAsyncContextManager[Loop]] = membership_loop
    page: Callable[[Web], HttpServer] = HttpServer
    state_file: Callable[[str, str], Path | None] = state_file
    started: Callable[[], None] = spare_collections
    signals: bool = True
