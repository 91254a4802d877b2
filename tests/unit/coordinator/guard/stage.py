"""An attendance beside a script of what happens, and the words of such scripts."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from bellwether_kafka.coordinator import control
from bellwether_kafka.coordinator.guard.arguments import GuardOptions
from bellwether_kafka.coordinator.guard.attend import Attendance
from bellwether_kafka.coordinator.kafka.wire import BrokerGroup, BrokerMember
from bellwether_kafka.coordinator.membership import DescribedMember
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.membership import GROUP
from tests.unit.coordinator.guard.world import Brokers, Process

NAMED = GuardOptions(GROUP, {}, "bellwether-control", client_ids=("app-1",), grace_s=5.0)
WORK = ConsumerProtocolAssignment(0, (TopicPartition("in", 0),)).encode()
HOLDER = 4_000_000
Holding = dict[str, int | None]  # holder and file of the lock, and whether its threads send heartbeats
GuardedDirectory = tuple[GuardOptions, Holding]


class Stage:
    """An attendance that runs beside a script of what happens."""

    def __init__(self, options: GuardOptions, brokers: Brokers, process: Process) -> None:
        self.brokers, self.process = brokers, process
        self.message: list[str] = []
        self._attendance = Attendance(process, options, brokers, self.message.append)

    def play(self, script: Callable[["Stage"], Awaitable[None]]) -> list[str]:
        async def both() -> None:
            running = asyncio.create_task(self._attendance.run())
            await script(self)
            await asyncio.wait_for(running, 20)

        asyncio.run(both())
        return self.message

    async def refreshed(self, refreshes: int = 2) -> None:
        """Until the answers to this many requests have been taken: the guard has sent the next."""
        before = len(self.brokers.asked)
        await self.until(lambda: len(self.brokers.asked) > before + refreshes)

    async def until(self, happened: Callable[[], bool]) -> None:
        while not happened():  # noqa: ASYNC110 - brokers that are asked set no event
            await asyncio.sleep(0.005)


def stage(options: GuardOptions = NAMED, *members: DescribedMember, process: Process | None = None) -> Stage:
    brokers = Brokers()
    brokers.show(*members)
    return Stage(options, brokers, process or Process())


async def killed(on: Stage) -> None:
    await on.refreshed()
    on.process.end()


async def stopped(on: Stage) -> None:
    await on.refreshed()
    on.process.sigterm()


async def ordered(on: Stage) -> None:
    """SIGTERM, and the order to empty it is in the control topic."""
    await stopped(on)
    await on.until(lambda: bool(orders(on.brokers)))


def crash(lock: Holding, refreshes: int = 4) -> Callable[[Stage], Awaitable[None]]:
    """The script in which a Streams process dies, which held its state directory."""

    async def crashed(on: Stage) -> None:
        await on.refreshed(refreshes)
        lock["holder"] = None
        on.process.end()

    return crashed


def heartbeat(**fields: Any) -> control.InstanceHeartbeat:
    now_ms = int(time.time() * 1000)
    return replace(control.InstanceHeartbeat("lead", leads=(GROUP,), orders_for=(GROUP,), at_ms=now_ms), **fields)


def orders(brokers: Brokers) -> list[tuple[str, bool]]:
    """What was written to the control topic beside heartbeats: the key, and whether it is an order or its
    withdrawal."""
    return [(key.decode(), value is not None) for key, value in brokers.log if not key.startswith(b"beat/")]


def of_consumer_protocol(*client_ids: str, state: str = "Stable", host: str = "/10.0.0.1") -> BrokerGroup:
    members = [
        BrokerMember(f"m-{number}", None, None, client_id, host, ("orders",), (("orders", (number,)),))
        for number, client_id in enumerate(client_ids)
    ]
    return BrokerGroup(GROUP, "consumer", 0, state=state, epoch=3, assignor="uniform", members=tuple(members))
