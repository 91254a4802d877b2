"""A control topic on embedded brokers, and a process of this machine without one."""

import asyncio
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bellwether_kafka.coordinator.cli import Exit
from bellwether_kafka.coordinator.control import (
    Controller,
    ControlSettings,
    InstanceHeartbeat,
    LocalOrders,
    PlacementKind,
    PlacementOrder,
    Record,
    encode,
    local_processes,
)
from bellwether_kafka.coordinator.control.topic import read_all, write_now
from tests.kit.brokers import API_VERSION, EmbeddedCluster
from tests.kit.commands import bellwether
from tests.kit.runtime import Group

LIMIT_S = 30.0


class Channel:
    """A control topic and the commands that use it."""

    def __init__(self, brokers: EmbeddedCluster, topic: str) -> None:
        self.kafka = {"bootstrap.servers": brokers.bootstrap, **API_VERSION}
        self.topic = topic

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return bellwether(*arguments, "--bootstrap", self.kafka["bootstrap.servers"], "--topic", self.topic)

    def configured(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command that takes its brokers and the topic from a file."""
        return bellwether(*arguments)

    def refused(self, *arguments: str) -> str:
        """The sentence of a command that is refused, and writes nothing."""
        before = self.read()
        ended = self.run(*arguments)
        assert ended.returncode == Exit.INPUT, ended.stdout + ended.stderr
        assert self.read() == before
        return ended.stderr

    def ordered(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        ended = self.run(*arguments)
        assert ended.returncode == Exit.DONE, ended.stderr
        return ended

    def read(self) -> dict[str, Record]:
        return read_all(self.kafka, self.topic, LIMIT_S)

    def write(self, record: Record) -> None:
        write_now(self.kafka, self.topic, encode(record))

    def heartbeat(self, **fields: object) -> None:
        self.write(
            InstanceHeartbeat(**{"instance": "pod-1", "leads": ("orders",), "at_ms": int(time.time() * 1000), **fields})
        )  # type: ignore[arg-type]  # by name


@contextmanager
def process_without_a_topic(bootstrap: str) -> Iterator[Group]:
    """A process of this machine that leads `orders`, in a thread of its own."""
    group, ended = Group(standby=False), threading.Event()
    group.lead()

    async def run() -> None:
        control = ControlSettings("", "pod-1")
        controller = Controller(LocalOrders(bootstrap), control, {"orders": group}, heartbeat_s=0.05)
        task = asyncio.create_task(controller.run())
        await asyncio.to_thread(ended.wait)
        task.cancel()
        await controller.close()

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    limit = time.monotonic() + LIMIT_S
    try:
        while not any(process.serves("orders") for process in local_processes(bootstrap)):
            assert time.monotonic() < limit
        yield group
    finally:
        ended.set()
        thread.join()


def placed(kind: PlacementKind, item: str, where: str = "rack:az1", group: str = "orders") -> PlacementOrder:
    now_ms = int(time.time() * 1000)
    return PlacementOrder(kind, group, item, where, "eve", now_ms, now_ms + 600_000)
