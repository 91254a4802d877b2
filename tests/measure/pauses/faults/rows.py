"""One row: what happens to an instance, the fault, and what both cost."""

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from tests.interop.support.members import wait_until
from tests.measure.pauses.faults.scene import LIMIT_S, NAMES, SESSION_MS, TRANSACTION_MS, Scene, now_ms
from tests.measure.pauses.run import BUSY_MS

REBALANCE_S = 4.0  # a heartbeat interval, restoration, a machine that is shared
# Readers wait for what the dead has written until its transaction has timed out, which brokers check once a second.
DEATH_S = max(SESSION_MS, TRANSACTION_MS + 1_000) / 1000
NODE_S = 14.0  # until a broker that died is not a leader any more: broker.session.timeout.ms and an election
REPORTED_S = 1.5  # after which instances have reported what they processed
ENDS_S = 1.0  # of the time that is judged, before the newest report
MESSAGE_LENGTH_MAX = 400

Scenario = Callable[[Scene, str], None]


@dataclass(frozen=True, slots=True)
class Row:
    """`pause_s` is the longest time in which one task processed nothing, `after_s` when it began, from the beginning of
    the row; `all_s` the sum of such times of the task that has most. None where the row did not end. `exact`: None if
    nothing was counted. `message` is what Bellwether and the guard reported."""

    name: str
    fault: str
    pause_s: float | None
    all_s: float | None
    after_s: float | None
    bound_s: float
    exact: bool | None
    led_by: str
    message: str
    broken: str
    load: float

    @property
    def passed(self) -> bool:
        return not self.broken and self.exact is not False and self.pause_s is not None and self.pause_s <= self.bound_s


@dataclass(frozen=True, slots=True)
class Plan:
    """A row as it is to be measured. `hung`: an instance is believed to run what others run already."""

    name: str
    fault: str
    scenario: Scenario
    bound_s: float = DEATH_S + REBALANCE_S
    hung: bool = False


def measure(scene: Scene, plan: Plan, name: str = NAMES[-1]) -> Row:
    """Leaves the scene healed, or raises AssertionError with the row lost."""
    scene.until_rests()
    wait_until(lambda: _busy(scene, now_ms()) == scene.app.application.tasks, LIMIT_S, scene.send)
    began_ms = now_ms()
    heard = len(scene.lead.log()) if scene.lead is not None else 0
    since = {one: _size(scene, one) for one in NAMES}
    plan.scenario(scene, name)
    scene.app.wait_settled(limit_s=LIMIT_S)
    time.sleep(REPORTED_S)
    ended_ms = now_ms() - int(ENDS_S * 1000)
    led_by = scene.led_by()
    line = scene.app.timeline()
    pauses = line.pauses(scene.app.application.tasks, began_ms, ended_ms)
    _explain(pauses, began_ms)
    sums = line.stalled_ms(scene.app.application.tasks, began_ms, ended_ms)
    begin_ms, end_ms = max((one for found in pauses.values() for one in found), key=_length, default=(began_ms,) * 2)
    message = [f"guard: {text}" for one in NAMES for text in scene.guard_log(one, since[one])]
    message += _warnings(scene, heard)
    scene.load.stop()
    scene.app.wait_counted(scene.load.expected, exactly_once=False, limit_s=LIMIT_S)
    totals = scene.app.totals()
    exact = totals is not None and totals.complaint(scene.load.expected, exactly_once=True) is None
    overlaps = [] if plan.hung else [text for text in line.overlaps() if text not in scene.known]
    scene.known.update(line.overlaps())
    scene.load.start(scene.per_second)
    return Row(
        plan.name,
        plan.fault,
        round((end_ms - begin_ms) / 1000, 1),
        round(max(sums.values()) / 1000, 1),
        round((begin_ms - began_ms) / 1000, 1),
        plan.bound_s,
        exact,
        led_by,
        " / ".join(dict.fromkeys(message))[:MESSAGE_LENGTH_MAX],
        "; ".join(overlaps),
        round(os.getloadavg()[0], 1),
    )


def unfinished(plan: Plan, why: str) -> Row:
    load = round(os.getloadavg()[0], 1)
    return Row(plan.name, plan.fault, None, None, None, plan.bound_s, False, "", "", f"did not end: {why[:300]}", load)


def _explain(pauses: Mapping[str, Sequence[tuple[int, int]]], began_ms: int) -> None:
    """Which tasks paused when, in seconds from the beginning of the row."""
    for task, found in sorted(pauses.items()):
        spans = ", ".join(f"{(begin - began_ms) / 1000:.1f}-{(end - began_ms) / 1000:.1f}" for begin, end in found)
        print(f"{task}: {spans or 'never'}", file=sys.stderr, flush=True)


def _length(pause: tuple[int, int]) -> int:
    return pause[1] - pause[0]


def _busy(scene: Scene, at_ms: int) -> frozenset[str]:
    """The tasks that processed something lately: what stops is noticed."""
    found: set[str] = set()
    for instance in scene.app.live:
        for report in takewhile(lambda h: h.t_ms >= at_ms - BUSY_MS, reversed(list(instance.happenings))):
            found.update(report.message["tasks"] if report.event == "processed" else ())
    return frozenset(found)


def _size(scene: Scene, name: str) -> int:
    log = scene.instance(name).home / "stderr.log"
    return log.stat().st_size if log.exists() else 0


def _warnings(scene: Scene, since: int) -> list[str]:
    if scene.lead is None:
        return []
    found = [entry for entry in scene.lead.log()[since:] if entry.get("level") in ("warning", "error")]
    return [f"Bellwether: {entry['event']} {_detail(entry)}".strip() for entry in found]


def _detail(entry: dict[str, object]) -> str:
    return next((str(entry[key]) for key in ("reason", "why", "text", "what", "cause") if entry.get(key)), "")[:120]
