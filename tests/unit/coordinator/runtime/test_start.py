"""A start is like running: while brokers, their names or a login are missing, the process tries again until it is
stopped."""

import asyncio
import os
import signal
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from bellwether_kafka.coordinator.kafka.wire import UnreachableError
from bellwether_kafka.coordinator.membership import Failure, MembershipConfig
from bellwether_kafka.coordinator.runtime import GroupsConfig, Outside, Service, ServiceOutcome, until_answered
from bellwether_kafka.coordinator.runtime.groups_now import not_ready

WHY = {
    Failure.DISCONNECTED: "No broker can be reached at bootstrap.servers (kafka:9092).",
    Failure.TIMED_OUT: "No broker can be reached at bootstrap.servers (kafka:9092): no answer in time.",
    Failure.AUTHENTICATION: "The brokers refused the login.",
    Failure.MALFORMED: "What answers does not speak Kafka's protocol.",
}


class Missing:
    """A transport whose first attempts fail; with `hangs` they take for ever."""

    def __init__(self, failure: Failure, attempts: int, *, hangs: bool = False) -> None:
        self.failure, self.attempts, self.hangs = failure, attempts, hangs
        self.tried = 0
        self.closed = False
        self.has_failed = asyncio.Event()

    async def start(self, _timeout_ms: int) -> None:
        self.tried += 1
        if self.hangs or self.tried > 1:
            self.has_failed.set()
        if self.hangs:
            await asyncio.Event().wait()
        if self.tried <= self.attempts:
            raise UnreachableError(self.failure, WHY[self.failure])

    async def close(self) -> None:
        self.closed = True


class Connecting(Service):
    """Ends as soon as it is connected."""

    async def _run(self, *_: Any) -> ServiceOutcome:
        self.connected = True
        return ServiceOutcome(0, ("connected",))


def service_on(missing: Missing, monkeypatch: pytest.MonkeyPatch) -> Service:
    monkeypatch.setattr(until_answered, "CONNECT_AGAIN_S", 0.001)
    monkeypatch.setattr(until_answered, "CONNECT_AGAIN_S_MAX", 0.01)

    def new_transport(_: Mapping[str, str]) -> Any:
        return missing

    config = GroupsConfig(properties={}, groups=(MembershipConfig("orders"),))
    return Connecting(config, Outside(transport=new_transport))


@pytest.mark.parametrize("failure", list(WHY))
async def test_a_start_tries_until_brokers_answer(failure: Failure, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = Missing(failure, attempts=12)
    service = service_on(missing, monkeypatch)
    outcome = await service.run(handle_signals=False)
    assert outcome.messages == ("connected",)
    assert missing.tried > 12
    assert missing.closed


@pytest.mark.parametrize("hangs", [False, True])
async def test_a_start_that_reaches_no_broker_is_stopped_in_order(hangs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = Missing(Failure.TIMED_OUT, attempts=1_000_000, hangs=hangs)
    service = service_on(missing, monkeypatch)

    async def scenario() -> ServiceOutcome:
        running = asyncio.create_task(service.run(handle_signals=False))
        await missing.has_failed.wait()
        await asyncio.sleep(0)
        ready = not_ready(service)
        assert ready is not None
        assert hangs or WHY[Failure.TIMED_OUT] in ready
        service.stop()
        return await running

    assert await scenario() == ServiceOutcome(0)
    assert missing.closed


@pytest.mark.parametrize("connected", [False, True])
async def test_the_signal_to_leave_is_heard_from_the_start_and_does_not_end_the_process(
    connected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Process 1 of a container ignores every signal that it has not asked for."""
    missing = Missing(Failure.TIMED_OUT, attempts=1_000_000)
    service = service_on(missing, monkeypatch)
    left: list[str] = []
    if connected:
        service._controller = cast("Any", SimpleNamespace(leave_all=lambda: left.append("all")))
    running = asyncio.create_task(service.run())
    await missing.has_failed.wait()
    with capture_logs() as logs:
        os.kill(os.getpid(), signal.SIGUSR1)
        while not logs:  # noqa: ASYNC110 - the loop hears of a signal later
            await asyncio.sleep(0)
    assert [entry["event"] for entry in logs] == ["leaving_all_groups"]
    assert left == (["all"] if connected else [])
    service._controller = None
    service.stop()
    assert await running == ServiceOutcome(0)


async def test_a_stop_before_the_start_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    service = service_on(Missing(Failure.DISCONNECTED, attempts=1_000_000), monkeypatch)

    async def scenario() -> ServiceOutcome:
        service.stop()
        return await service.run(handle_signals=False)

    assert await scenario() == ServiceOutcome(0)
