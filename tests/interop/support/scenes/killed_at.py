"""`python -m tests.interop.support.scenes.killed_at POINT HOW TRIGGER run ...`: Bellwether that, once the file TRIGGER
exists, kills itself (HOW: kill), gets a SIGTERM (term), waits a moment (hold), blocks its event loop (block) or raises
an error of its own (break) when it reaches POINT, and makes TRIGGER.reached.

The points are the steps of one rebalance. The product knows nothing of this.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NoReturn

from bellwether_kafka.coordinator.cli import app
from bellwether_kafka.coordinator.membership import (
    Command,
    Decide,
    GroupMembership,
    Heartbeat,
    Join,
    Leave,
    Request,
    State,
    Sync,
)
from bellwether_kafka.coordinator.runtime.group_runner import GroupRunner
from bellwether_kafka.coordinator.runtime.membership_driver import MembershipDriver

KILLED_AT = "tests.interop.support.scenes.killed_at"
POINTS = (
    "before-join",
    "join-sent",
    "join-answered",
    "deciding",
    "before-sync",
    "after-sync",
    "stable",
    "leaving",
)
SIGNALS = {"kill": signal.SIGKILL, "term": signal.SIGTERM}
HOLD_S = 1.0
BLOCK_S = 3.0
ON_ITS_WAY_S = 0.005  # a request that was handed over has left by then, and its answer rarely is there

Hook = Callable[[str], Awaitable[None]]


def _hook(point: str, how: str, trigger: Path) -> Hook:
    reached = Path(f"{trigger}.reached")

    def first_time() -> bool:
        if not trigger.exists() or reached.exists():
            return False
        reached.touch()
        return True

    async def at(here: str) -> None:
        if here != point or not first_time():
            return
        if how == "hold":
            await asyncio.sleep(HOLD_S)
        elif how == "block":
            time.sleep(BLOCK_S)  # noqa: ASYNC251 - nothing else may run
        elif how == "break":
            setattr(GroupMembership, "handle", _broken)  # noqa: B010 - mypy would see a method assigned
        else:
            os.kill(os.getpid(), SIGNALS[how])

    return at


def _broken(*_: object) -> NoReturn:
    raise RuntimeError("a bug that a test has made")


def install(at: Hook) -> None:
    """Puts the hook around the requests and the plans of every group."""
    plan = GroupRunner._plan

    async def request(driver: MembershipDriver, command: Request) -> None:
        await at(_before(driver, command))
        asked = asyncio.ensure_future(driver._transport.request(command))
        if isinstance(command, Join):
            await asyncio.sleep(ON_ITS_WAY_S)
            await at("join-sent")
        answer = await asked
        await at(_after(command))
        driver.post(answer)

    async def planned(runner: GroupRunner[Any], command: Decide) -> None:
        await at("deciding")
        await plan(runner, command)

    setattr(MembershipDriver, "_request", request)  # noqa: B010 - mypy would see methods assigned
    setattr(GroupRunner, "_plan", planned)  # noqa: B010 - as above


def _before(driver: MembershipDriver, command: Command) -> str:
    match command:
        case Join():
            return "before-join"
        case Sync():
            return "before-sync"
        case Leave():
            return "leaving"
        case Heartbeat() if driver.machine.view.state is State.STABLE:
            return "stable"
    return ""


def _after(command: Command) -> str:
    match command:
        case Join():
            return "join-answered"
        case Sync():
            return "after-sync"
    return ""


def main() -> None:
    point, how, trigger, *arguments = sys.argv[1:]
    assert point in POINTS, point
    install(_hook(point, how, Path(trigger)))
    app(arguments)


if __name__ == "__main__":
    main()
