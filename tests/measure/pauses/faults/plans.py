"""All rows: every fault at every step of every scenario, and what happens only once."""

import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from tests.interop.support.members import wait_until
from tests.measure.pauses.faults.rows import NODE_S, Plan
from tests.measure.pauses.faults.scene import LIMIT_S, NAMES, SESSION_MS, Scene, Setting
from tests.measure.pauses.faults.strikes import SCENARIOS, STRIKES, nothing

# At the other steps of a scenario there is no guard, or it has done its work.
STEPS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "crash": {
        "guard": ("before",),
        "bellwether": ("before", "at once", "rebalancing"),
        "node": ("before", "at once", "rebalancing"),
        "network": ("before", "at once", "rebalancing"),
    },
    "failure": {
        "guard": ("before",),
        "bellwether": ("at once",),
        "node": ("at once",),
        "network": ("at once",),
    },
    "restart": {
        "guard": ("before", "emptying", "closing"),
        "bellwether": ("before", "emptying", "closing", "away", "returning"),
        "node": ("before", "emptying", "closing", "away", "returning"),
        "network": ("before", "emptying", "closing", "away", "returning"),
    },
    "scale-in": {  # as a restart until the process has ended
        "guard": ("emptying",),
        "bellwether": ("emptying", "away"),
        "node": ("emptying", "away"),
        "network": ("emptying", "away"),
    },
}
FAULTS = {
    "guard": "the guard is killed",
    "bellwether": "Bellwether is killed",
    "node": "the coordinator node is killed",
    "network": "Bellwether and the guards lose the network",
}
IDLE_S = 15.0
HANGS_S = SESSION_MS / 1000 + 4.0


def struck(scenario: str, fault: str | None, at: str, scene: Scene, name: str) -> None:
    reached, began = False, time.monotonic()
    for step in SCENARIOS[scenario](scene, name):
        print(f"{step} after {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)
        if step == at:
            reached = True
            (STRIKES[fault] if fault is not None else nothing)(scene, name)
    assert reached or fault is None, f"the step {at} never came"


def without() -> Iterator[Plan]:
    """The application alone: Java leads, nothing guards."""
    for scenario in SCENARIOS:
        yield Plan(f"alone/{scenario}", f"{scenario}, without Bellwether", partial(struck, scenario, None, ""))
    for scenario, at in (("crash", "before"), ("crash", "at once"), ("restart", "before")):
        name, reported = f"alone/{scenario}/node/{at}", f"{scenario}, without Bellwether, {at}: {FAULTS['node']}"
        yield _later(Plan(name, reported, partial(struck, scenario, "node", at)), "node")


def steps() -> Iterator[Plan]:
    yield Plan("idle", f"nothing happens for {IDLE_S:.0f} s", lambda *_: time.sleep(IDLE_S))
    for scenario in SCENARIOS:
        yield Plan(f"{scenario}/nothing", f"{scenario}: no fault", partial(struck, scenario, None, ""))
    for scenario, faults in STEPS.items():
        for fault, each in faults.items():
            for at in each:
                name, reported = f"{scenario}/{fault}/{at}", f"{scenario}, {at}: {FAULTS[fault]}"
                yield _later(Plan(name, reported, partial(struck, scenario, fault, at)), fault)


def once() -> Iterator[Plan]:
    yield Plan("hang/on", f"an instance hangs for {HANGS_S:.0f} s, then goes on", _hangs, hung=True)
    yield Plan("hang/killed", "an instance hangs, and is killed after its session", _hangs_and_dies, hung=True)
    yield Plan(
        "hang/emptying", "an instance hangs while it is being emptied, and is killed", _hangs_while_evacuated, hung=True
    )
    yield Plan("returns", "an instance dies and returns while it is being emptied", _returns_while_evacuated)
    yield Plan("two", "two instances are restarted at once", _two_at_once)


def jumps(clock: Path) -> Iterator[Plan]:
    """Bellwether's clock is what the file says."""
    for by in ("+6h", "-6h"):
        reported = f"restart, emptying: Bellwether's clock jumps by {by}"
        yield Plan(f"clock/{by}", reported, partial(_jumps, by, clock))


def without_standby() -> Iterator[Plan]:
    for scenario in ("restart", "crash"):
        reported = f"{scenario}: no task has a standby"
        yield Plan(f"no-standby/{scenario}", reported, partial(struck, scenario, None, ""))


def _later(plan: Plan, fault: str) -> Plan:
    """The end of the coordinator node stops a group for itself, whoever leads."""
    return Plan(plan.name, plan.fault, plan.scenario, plan.bound_s + NODE_S) if fault == "node" else plan


def _hangs(scene: Scene, name: str) -> None:
    pid, began = scene.jvm[name], time.monotonic()
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(lambda: scene.others_run(name), LIMIT_S, scene.send)
        time.sleep(max(0.0, HANGS_S - (time.monotonic() - began)))
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: not scene.instance(name).running or scene.app.complete(), LIMIT_S, scene.send)


def _hangs_and_dies(scene: Scene, name: str) -> None:
    pid = scene.jvm[name]
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(lambda: scene.others_run(name), LIMIT_S, scene.send)
    finally:
        os.kill(pid, signal.SIGKILL)
    scene.until_ended(name)


def _hangs_while_evacuated(scene: Scene, name: str) -> None:
    """As a service manager does it: SIGKILL after the time that a stop may take."""
    os.kill(scene.jvm[name], signal.SIGSTOP)
    scene.terminate(name)
    try:
        wait_until(lambda: scene.others_run(name), LIMIT_S, scene.send)
    finally:
        os.kill(scene.jvm[name], signal.SIGKILL)
    scene.until_ended(name)


def _returns_while_evacuated(scene: Scene, name: str) -> None:
    rules = scene.rules()
    scene.terminate(name)
    scene.until_emptying(name, rules)
    os.kill(scene.jvm[name], signal.SIGKILL)
    scene.until_ended(name)
    scene.start(name)
    scene.until_joining(name)


def _two_at_once(scene: Scene, name: str) -> None:
    both = (NAMES[0], name)
    for one in both:
        scene.terminate(one)
    for one in both:
        scene.until_ended(one)
    for one in both:
        scene.start(one)
    for one in both:
        scene.until_joining(one)


def _jumps(by: str, clock: Path, scene: Scene, name: str) -> None:
    for step in SCENARIOS["restart"](scene, name):
        if step == "emptying":
            clock.write_text(by)


ALONE, WITHOUT_STANDBY = Setting(led=False, guarded=False), Setting(standbys=0, lag=100)
