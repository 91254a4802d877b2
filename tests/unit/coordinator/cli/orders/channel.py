"""A control topic on embedded brokers."""

import subprocess
import time

from bellwether_kafka.coordinator.cli import Exit
from bellwether_kafka.coordinator.control import (
    InstanceHeartbeat,
    OrderKind,
    PlacementOrder,
    Record,
    encode,
    read_all,
    write_now,
)
from tests.kit.brokers import API_VERSION, EmbeddedCluster
from tests.kit.commands import bellwether

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


def placed(kind: OrderKind, item: str, where: str = "rack:az1", group: str = "orders") -> PlacementOrder:
    now_ms = int(time.time() * 1000)
    return PlacementOrder(kind, group, item, where, "eve", now_ms, now_ms + 600_000)
