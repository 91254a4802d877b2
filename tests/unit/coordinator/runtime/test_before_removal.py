"""A runner comes into a rebalance before dead members are removed from it, and holds their removal up no longer."""

import asyncio
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.kafka.wire import TransportError
from bellwether_kafka.coordinator.membership import DescribeAnswer, Failure, NotLeading, Obstacle
from bellwether_kafka.coordinator.runtime.group_runner import GroupRunner
from bellwether_kafka.coordinator.runtime.membership_driver import MembershipDriver
from tests.patience import PATIENCE
from tests.unit.coordinator.membership.takeover.takeover_scenes import BAD, GOOD, GROUP, LEADER, client
from tests.unit.coordinator.runtime.alone import BrokersOfOne

BEFORE_REMOVAL_S = 1.0

GUARD = Obstacle(NotLeading.MEMBER_LEADS, "it is exactly once")
CONFIG = membership.MembershipConfig("orders", takeover_obstacle=GUARD, roll_ms_max=300)
WAITED_S = CONFIG.roll_ms_max / 1000 + BEFORE_REMOVAL_S
BUSY_S = 0.5 * PATIENCE
OPEN = DescribeAnswer(0, 0, "PreparingRebalance", "consumer", "", GROUP)


class Brokers(BrokersOfOne):
    """A group that a member leads. They give these ids, the last one again and again, and park JoinGroups with an id.
    That member is listed from the `listed_at`th description on."""

    def __init__(self, *ids: str, listed_at: int = 3) -> None:
        self.ids = list(ids)
        self.listed_at = listed_at
        self.parked = ""
        self.refreshes = 0

    async def request(self, command: membership.Request) -> membership.Answer:
        if isinstance(command, membership.Join) and command.member_id:
            self.parked = command.member_id
            await asyncio.sleep(60)
        return await super().request(command)

    def _answer(self, command: membership.Request) -> membership.Answer:
        match command:
            case membership.Describe():
                return DescribeAnswer(0, 0, "Stable", "consumer", "range", GROUP)
            case membership.Join():
                given = self.ids.pop(0) if len(self.ids) > 1 else self.ids[0]
                return membership.JoinAnswer(0, 79, member_id=given)
            case _:
                return super()._answer(command)

    async def describe_group(self, group_id: str) -> DescribeAnswer:
        self.refreshes += 1
        if self.refreshes == 1:
            raise TransportError(Failure.DISCONNECTED, "a broker restarts")
        listed = self.parked and self.refreshes >= self.listed_at
        return replace(OPEN, members=(*GROUP, client(self.parked, "bw")) if listed else GROUP)

    def abandon(self, group_id: str) -> None:
        """Nothing is kept here."""


async def waited(brokers: Brokers, config: membership.MembershipConfig = CONFIG) -> tuple[float, str]:
    """Seconds until the dead may be removed, and Bellwether's id if it is in front then."""

    async def relieved(group_id: str, reason: str) -> bool:
        return False

    watching = asyncio.Event()

    def receive(_: str, role: membership.Role) -> None:
        if role.reason in (NotLeading.MEMBER_LEADS, NotLeading.BLOCKED):
            watching.set()

    nothing = SimpleNamespace(forget=lambda *_: None, delivered=lambda _: None, observed=_nothing)
    driver = MembershipDriver(config, brokers, asyncio.get_running_loop())
    runner: GroupRunner[Any] = GroupRunner(
        driver, cast("Any", brokers), cast("Any", nothing), cast("Any", nothing), (), (), (receive,), relieved
    )
    running = asyncio.create_task(runner.run())
    async with asyncio.timeout(10):
        await watching.wait()
    began = time.monotonic()
    await runner.before_removal(OPEN, (LEADER,))
    took_s, in_front = time.monotonic() - began, runner.membership.in_front
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return took_s, in_front


async def _nothing(*_: object) -> None:
    """Learns nothing from a description."""


async def test_the_dead_are_removed_when_the_broker_lists_bellwether_in_front() -> None:
    brokers = Brokers(BAD, GOOD)
    took_s, in_front = await waited(brokers)
    assert in_front == GOOD
    assert brokers.refreshes == brokers.listed_at
    assert took_s < WAITED_S + BUSY_S


@pytest.mark.slow
async def test_where_no_id_is_found_in_time_the_removal_goes_on() -> None:
    took_s, in_front = await waited(Brokers(BAD))
    assert in_front == ""
    assert took_s < WAITED_S + BUSY_S


@pytest.mark.slow
async def test_a_broker_that_never_lists_it_holds_nobody_up() -> None:
    took_s, _ = await waited(Brokers(GOOD, listed_at=10_000))
    assert WAITED_S - 0.5 < took_s < WAITED_S + BUSY_S


async def test_who_does_not_try_holds_nobody_up() -> None:
    took_s, in_front = await waited(Brokers(GOOD), replace(CONFIG, adopt="when-empty"))
    assert (in_front, took_s < WAITED_S) == ("", True)
