"""Sidecars that stand by for each other: the product's own controller over a model of the control topic.

The topic is one log that everybody reads in the same order, each at its own pace; what is written while it is silent is
lost, as heartbeats that cannot be delivered at once are. The loop around the controller is `Controller.run`'s.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from bellwether_kafka.coordinator.control import Controller, ControlSettings, Record
from bellwether_kafka.coordinator.control.controller import HEARTBEAT_S, STOP_POLL_S
from bellwether_kafka.coordinator.control.topic import OnRecord

if TYPE_CHECKING:
    from tests.simulation.instance import Instance
    from tests.simulation.world import World

Entry = tuple[str, Record | None]


class ControlLog:
    """The compacted topic. `silent`: nobody reaches it."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.silent = False
        self.kept: dict[str, Record] = {}
        self.readers: list[Reader] = []

    def append(self, key: str, record: Record | None) -> None:
        if self.silent:
            return
        if record is None:
            self.kept.pop(key, None)
        else:
            self.kept[key] = record
        for reader in self.readers:
            reader.receive((key, record))


class Reader:
    """One process' end of the topic: what `control.topic.ControlTopic` is to the controller."""

    topic = "control"

    def __init__(self, instance: "Instance", log: ControlLog) -> None:
        self._instance, self._log = instance, log
        self._inbox: deque[Entry] = deque()
        self._free_at = 0.0
        self._on_record: OnRecord = lambda key, record: None
        self._all_read: Callable[[], None] = lambda: None

    def start(self, received: OnRecord, all_read: Callable[[], None]) -> None:
        self._on_record, self._all_read = received, all_read
        for entry in self._log.kept.items():
            self.receive(entry)
        self._log.readers.append(self)
        self._instance.later(0.05, self._all_read)

    def stop(self) -> None:
        if self in self._log.readers:
            self._log.readers.remove(self)

    def receive(self, entry: Entry) -> None:
        self._inbox.append(entry)
        self._instance.later(self._log.world.rng.uniform(0.002, 0.02), self._deliver)

    def _deliver(self) -> None:
        if self._inbox:
            self._on_record(*self._inbox.popleft())

    def write(self, record: Record) -> None:
        self._log.append(record.key, record)

    def withdraw(self, key: str) -> None:
        self._log.append(key, None)


class Channel:
    """The controller of one process, from its start to its end."""

    def __init__(self, instance: "Instance", log: ControlLog) -> None:
        self._instance = instance
        self._reader = Reader(instance, log)
        settings = ControlSettings("control", instance.name, standby=True)
        wall = log.world.own_wall_ms
        self.real = Controller(
            self._reader,  # type: ignore[arg-type]  # it does what the controller asks of a topic, without Kafka
            settings,
            {"g": instance},
            clock=instance.now,
            wall_clock=lambda: wall() / 1000,
        )
        self._reader.start(self.real._on_record, self._caught_up)

    def _caught_up(self) -> None:
        self.real._all_read()
        self._turn()

    def _turn(self) -> None:
        self.real._housekeeping()
        self.real.review()
        self.real._heartbeat(between=False)
        self._instance.later(HEARTBEAT_S, self._turn)

    def hand_over(self, then: Callable[[], None]) -> None:
        """Before an orderly end: `then`, once a standby has the group or none has taken it in time."""
        self.real._roles.stopping = True
        if not self.real._caught_up.is_set():
            then()
            return
        self.real._roles.hand_over(["g"], "this sidecar stops")
        self._wait(then)

    def _wait(self, then: Callable[[], None]) -> None:
        if not any(post.hands_over_until for post in self.real._groups.values()):
            then()
            return
        self.real.review()
        self._instance.later(STOP_POLL_S, lambda: self._wait(then))

    def close(self, *, in_order: bool) -> None:
        self._reader.stop()
        if in_order:
            self._reader.withdraw(f"beat/{self._instance.name}")
