"""The whole process, as its settings have it: five groups led by two instances that stand by for each other, with
metrics and a page that somebody reads all the time."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from typing import Any

import pytest

from bellwether_kafka.coordinator.observation import Group
from bellwether_kafka.coordinator.runtime import Observers, Service, ServiceOutcome, process, serve
from bellwether_kafka.coordinator.settings import load
from bellwether_kafka.coordinator.web import Web
from tests.kit.virtual_time import RUNNING
from tests.paths import ROOT
from tests.simulation.checks import ViolationError
from tests.simulation.faults import Faults
from tests.simulation.instance import PROPERTIES, Server
from tests.simulation.run import REPEAT_AFTER_S, STANDBY_S, must_lead, must_settle
from tests.simulation.world import INSTANCE, World

GROUPS = 5
SEED = 3  # consumers
READ_S = 2.0
CHAOS_S = 240.0
SERVICE_UNAVAILABLE = 503


class Page:
    """In place of the HTTP server. A process that lives answers every request, and says of its roles what is so."""

    def __init__(self, web: Web, server: Server, worlds: list[World]) -> None:
        self._web, self._server, self._worlds = web, server, worlds
        self.answers = Counter[str]()

    async def start(self, address: str) -> str:
        self._read()
        return address

    async def stop(self) -> None:
        """It ends with the process."""

    def _read(self) -> None:
        self._worlds[0].loop.call_later(READ_S, self._read)
        for path in ("/livez", "/readyz", "/metrics", "/decisions", "/api/groups", "/api/overview"):
            self._answered(path)
        for world in self._worlds:
            self._answered(f"/api/groups/{world.group}")
        shown = {group["group"]: group["leading"] for group in self._answered("/api/groups")}
        for instance in self._server.of.values():
            if instance.runner is not None and shown[instance.world.group] != instance.role.leading:
                instance.world.violate(f"the page of {self._server.name} says that it leads: {shown}")

    def _answered(self, path: str) -> Any:
        answer = self._web.answer("GET", path)
        self.answers[path] += 1
        instance = self._server.of[self._worlds[0].group]
        slept = self._worlds[0].clock.now - instance.paused_until < 2 * READ_S
        if answer.status >= SERVICE_UNAVAILABLE and path == "/livez" and not slept:
            self._worlds[0].violate(f"{self._server.name} says that it does not live: {answer.body!r}")
        return json.loads(answer.body) if path == "/api/groups" else None


@contextmanager
def whole(monkeypatch: pytest.MonkeyPatch, seed: int) -> Iterator[list[World]]:
    """Worlds that share two processes, of which everything runs but the sockets of the page."""
    first = World(seed)
    worlds = [first, *(World(seed + n, beside=first) for n in range(1, GROUPS))]

    class Seen(Service):
        """The service that `serve` makes, as the checks see it."""

        def __init__(self, *given: Any, **named: Any) -> None:
            self._server = next(server for server in first.servers if server.running is RUNNING.get())
            super().__init__(*given, **named)
            self._server.service = self

        @property
        def observers(self) -> Observers:
            return self._observers

        @observers.setter
        def observers(self, observers: Observers) -> None:
            self._observers = Observers.of(observers, self._server.observers)

    async def run(server: Server) -> ServiceOutcome:
        return await serve(settings_of(server), "0", outside=server.outside(page=page_of))

    def settings_of(server: Server) -> Any:
        groups = [{"name": world.group, "mode": "lead", "adopt": "take-over", "subscribes": True} for world in worlds]
        return load(
            overrides={
                "kafka": PROPERTIES,
                "groups": groups,
                "instance_id": INSTANCE,
                "instance_name": server.name,
                "control_topic": "control",
                "standby": True,
            },
            environ={},
        )

    def page_of(web: Web) -> Any:
        server = next(server for server in first.servers if server.running is RUNNING.get())
        return Page(web, server, worlds)

    monkeypatch.setattr(process, "Service", Seen)
    configs = {config.group_id: config for config in settings_of(first.servers[0]).memberships}
    for world in worlds:
        world.hostile = []
        world.config = configs[world.group]
        for instance in world.instances:
            instance.config = world.config
    for server in first.servers:
        server.run = run
    with first:
        yield worlds


def at_rest(worlds: list[World]) -> None:
    """Each has come to rest, and one instance leads it, or says why it waits with the next attempt."""
    for world in worlds:
        must_settle(world)
        if not any(instance.obstacle for instance in world.instances):
            must_lead(world)


def come(worlds: list[World]) -> None:
    for server in worlds[0].servers:
        server.start()
    worlds[0].run_until(15.0)
    for world in worlds:
        for member in world.members:
            member.start()
    at_rest(worlds)


def test_five_groups_pass_to_the_standby_without_a_rebalance(monkeypatch: pytest.MonkeyPatch) -> None:
    with whole(monkeypatch, SEED) as worlds:
        come(worlds)
        first = worlds[0]
        first.run_until(first.clock.now + REPEAT_AFTER_S)
        generations = [world.broker.group.generation for world in worlds]
        leader = next(instance.server for instance in first.instances if instance.leads)
        assert all(instance.leads for instance in leader.of.values())
        leader.crash()
        began = first.clock.now
        other = next(server for server in first.servers if server is not leader)
        first.run_until(began + STANDBY_S, lambda: all(instance.leads for instance in other.of.values()))
        assert all(instance.leads for instance in other.of.values())
        assert [world.broker.group.generation for world in worlds] == generations


def chaotic(monkeypatch: pytest.MonkeyPatch) -> list[World]:
    with whole(monkeypatch, SEED) as worlds:
        come(worlds)
        first = worlds[0]
        faults = [Faults(world, 20.0) for world in worlds]
        first.run_until(first.clock.now + CHAOS_S)
        for each in faults:
            each.heal()
        asleep = [member.paused_until for world in worlds for member in world.members]
        asleep += [instance.paused_until for instance in first.instances]
        first.run_until(max(first.clock.now, *asleep))
        at_rest(worlds)
    return worlds


def test_five_groups_keep_every_promise_while_the_page_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    worlds = chaotic(monkeypatch)
    assert all(world.checks.plans["own"] for world in worlds)
    assert all(world.injected for world in worlds)


REPORTED_S = 165.0  # long enough for a process to come back to several groups at once


def reported(monkeypatch: pytest.MonkeyPatch) -> str:
    """What happens in the first minutes."""
    with whole(monkeypatch, SEED) as worlds:
        come(worlds)
        for world in worlds:
            Faults(world, 20.0)
        worlds[0].run_until(REPORTED_S)
        return "\n".join(line for world in worlds for line in world.reported)


@pytest.mark.slow
def test_how_strings_are_hashed_decides_nothing() -> None:
    ran = [
        subprocess.run(
            [sys.executable, "-m", __name__],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=ROOT,
            text=True,
            capture_output=True,
            check=True,
        ).stdout.splitlines()
        for seed in ("1", "2")
    ]
    assert float(ran[0][-1].split()[0]) > REPORTED_S - 60
    assert ran[0] == ran[1]


def test_a_page_that_says_what_was_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    statuses, led = process.statuses, set[str]()

    def for_ever(*given: Any) -> list[Group]:
        made = statuses(*given)
        led.update(status.group for status in made if status.leading)
        return [replace(status, leading=status.group in led) for status in made]

    monkeypatch.setattr(process, "statuses", for_ever)
    with pytest.raises(ViolationError, match="says that it leads"):
        chaotic(monkeypatch)


if __name__ == "__main__":
    with redirect_stdout(sys.stderr):  # what the service logs has the time of this machine
        story = reported(pytest.MonkeyPatch())
    print(story)
