"""Memberships run on a thread that the rest of the process cannot hold up, and hand over what they ask for in order."""

import asyncio
import threading
import time
from collections.abc import Callable

import pytest

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.membership import Code, State
from bellwether_kafka.coordinator.runtime.loop_watch import LoopWatch
from bellwether_kafka.coordinator.runtime.membership_driver import DriverStep, MembershipDriver, membership_loop
from tests.unit.coordinator.runtime.alone import BrokersOfOne, remembering

THREAD = "bellwether-membership"

CONFIG = membership.MembershipConfig("orders", heartbeat_interval_ms=10, subscribes=True)
BLOCKED_S = 1.0
LIMIT_S = 60.0


class Brokers(BrokersOfOne):
    """`left` are the reasons of Bellwether's LeaveGroups."""

    def __init__(self) -> None:
        self.heartbeats: list[float] = []
        self.threads: set[str] = set()
        self.left: list[str] = []
        self.abandoned = 0

    def _answer(self, command: membership.Request) -> membership.Answer:
        self.threads.add(threading.current_thread().name)
        match command:
            case membership.Heartbeat():
                self.heartbeats.append(time.monotonic())
                return membership.HeartbeatAnswer(0, Code.NONE)
            case membership.Leave():
                self.left.append(command.reason)
        return super()._answer(command)

    def abandon(self, _: str) -> None:
        self.abandoned += 1


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not condition():  # noqa: ASYNC110 - it comes true on another thread
            await asyncio.sleep(0.01)


@pytest.mark.slow
async def test_heartbeats_go_on_while_the_rest_of_the_process_is_blocked() -> None:
    async def scenario() -> tuple[Brokers, list[DriverStep], float]:
        brokers, steps = Brokers(), list[DriverStep]()
        async with membership_loop(LoopWatch().run()) as loop:
            driver = remembering(MembershipDriver(CONFIG, brokers, loop))
            driver.start(steps.append)
            await until(lambda: len(brokers.heartbeats) > 3)
            blocked_at = time.monotonic()
            time.sleep(BLOCKED_S)  # noqa: ASYNC251 - that is what it is about
            driver.post(membership.StopRequested())
            await until(lambda: steps[-1].view.state is State.STOPPED)
        return brokers, steps, blocked_at

    brokers, steps, blocked_at = await scenario()
    meanwhile = [at for at in brokers.heartbeats if blocked_at < at < blocked_at + BLOCKED_S]
    assert len(meanwhile) > 5, "of about a hundred on an idle machine"
    assert brokers.threads == {THREAD}
    assert len(brokers.left) == 1
    states = [step.view.state for step in steps]
    assert [state for state, before in zip(states, [None, *states], strict=False) if state is not before] == [
        State.WATCHING,
        State.JOINING,
        State.SYNCING,
        State.STABLE,
        State.LEAVING,
        State.STOPPED,
    ]


@pytest.mark.slow
async def test_heartbeats_that_change_nothing_do_not_wake_the_process() -> None:
    """A thousand groups at rest had two thousand such steps a second."""

    async def scenario() -> tuple[Brokers, list[DriverStep]]:
        brokers, steps = Brokers(), list[DriverStep]()
        async with membership_loop(LoopWatch().run()) as loop:
            driver = remembering(MembershipDriver(CONFIG, brokers, loop))
            driver.start(steps.append)
            await until(lambda: steps and steps[-1].view.state is State.STABLE and len(brokers.heartbeats) > 3)
            before, sent = steps.copy(), len(brokers.heartbeats)
            await until(lambda: len(brokers.heartbeats) > sent + 20)
            at_rest = steps[len(before) :]
            driver.post(membership.StopRequested())
            await until(lambda: steps[-1].view.state is State.STOPPED)
        return brokers, at_rest

    brokers, at_rest = await scenario()
    assert at_rest == []
    assert len(brokers.heartbeats) > 20


async def test_a_defect_is_handed_over_and_the_group_can_still_be_left() -> None:
    def broken(*_: object) -> tuple[membership.Command, ...]:
        raise RuntimeError("a bug")

    async def scenario() -> tuple[Brokers, list[DriverStep]]:
        brokers, steps = Brokers(), list[DriverStep]()
        driver = remembering(MembershipDriver(CONFIG, brokers, asyncio.get_running_loop()))
        driver.start(steps.append)
        await until(lambda: len(brokers.heartbeats) > 3)
        driver.machine.handle = broken  # type: ignore[method-assign]
        await until(lambda: steps[-1].error)
        await driver.leave("an internal error")
        driver.close()
        await asyncio.sleep(0)
        return brokers, steps

    brokers, steps = await scenario()
    assert str(steps[-1].error) == "a bug"
    assert steps[-1].view == steps[-2].view
    assert (brokers.left, brokers.abandoned) == (["an internal error"], 1)


@pytest.mark.slow
async def test_a_membership_that_goes_on_ends_before_the_group_is_left_for_it() -> None:
    """The rest of the process has met a defect."""

    async def scenario() -> Brokers:
        brokers = Brokers()
        async with membership_loop(LoopWatch().run()) as loop:
            driver = remembering(MembershipDriver(CONFIG, brokers, loop))
            driver.start(lambda _: None)
            await until(lambda: len(brokers.heartbeats) > 3)
            await driver.leave("an internal error")
            left_at = time.monotonic()
            await asyncio.sleep(20 * CONFIG.heartbeat_interval_ms / 1000)
            assert max(brokers.heartbeats) < left_at
        return brokers

    assert (await scenario()).left == ["an internal error"]


async def test_what_is_left_on_the_loop_ends_with_it_and_later_calls_are_nothing() -> None:
    async def scenario() -> tuple[MembershipDriver, Brokers]:
        brokers = Brokers()
        async with membership_loop(LoopWatch().run()) as loop:
            driver = remembering(MembershipDriver(CONFIG, brokers, loop))
            driver.start(lambda _: None)
            await until(lambda: brokers.heartbeats)
        return driver, brokers

    driver, brokers = await scenario()
    assert THREAD not in {thread.name for thread in threading.enumerate()}
    driver.post(membership.StopRequested())
    driver.close()
    assert (brokers.left, brokers.abandoned) == ([], 0)
