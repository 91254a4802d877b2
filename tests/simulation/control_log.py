"""The control topic as a model: one log that everybody reads in the same order, each at its own pace. What is written
while it is silent is lost, as heartbeats that cannot be delivered at once are."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from bellwether_kafka.coordinator.control import OnRecord, Record
from tests.kit.virtual_time import RUNNING, Process

if TYPE_CHECKING:
    from tests.simulation.world import World


class ControlLog:
    """The compacted topic. `silent`: nobody reaches it."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.silent = False
        self.kept: dict[str, Record] = {}
        self.readers: list[ControlTopic] = []

    def append(self, key: str, record: Record | None) -> None:
        if self.silent:
            return
        if record is None:
            self.kept.pop(key, None)
        else:
            self.kept[key] = record
        for reader in list(self.readers):
            reader.receive(key, record)

    def forget(self, process: Process) -> None:
        """It has ended, and reads no more."""
        self.readers = [reader for reader in self.readers if reader.process is not process]


class ControlTopic:
    """One process' end of the topic, for its controller."""

    topic = "control"

    def __init__(self, log: ControlLog) -> None:
        self._log = log
        self._inbox: asyncio.Queue[tuple[str, Record | None]] = asyncio.Queue()
        self._reading: asyncio.Task[None] | None = None
        self.process = RUNNING.get()

    def start(self, on_record: OnRecord, on_caught_up: Callable[[], None], *_: object) -> None:
        for key, record in self._log.kept.items():
            self.receive(key, record)
        self._log.readers.append(self)
        self._reading = asyncio.create_task(self._read(on_record, on_caught_up))

    async def _read(self, on_record: OnRecord, on_caught_up: Callable[[], None]) -> None:
        while self._log.silent:  # noqa: ASYNC110 - a broker that is asked again
            await asyncio.sleep(1.0)
        while not self._inbox.empty():
            on_record(*self._inbox.get_nowait())
        await asyncio.sleep(0.05)
        on_caught_up()
        while True:
            entry = await self._inbox.get()
            await asyncio.sleep(self._log.world.rng.uniform(0.002, 0.02))
            on_record(*entry)

    def receive(self, key: str, record: Record | None) -> None:
        self._inbox.put_nowait((key, record))

    def write(self, record: Record) -> None:
        self._log.append(record.key, record)

    def withdraw(self, key: str) -> None:
        self._log.append(key, None)

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        if self in self._log.readers:
            self._log.readers.remove(self)
