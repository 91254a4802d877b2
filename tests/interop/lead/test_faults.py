"""What goes wrong around an instance on three real brokers, at each step of a rebalance, and that it costs the group no
more than [the page](docs/internals/reliability.md) promises: `make faults`, or `make faults ONLY=half-open`."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.interop.support.proxy import Delivery
from tests.interop.support.scenes.kill_points import coordinator_killed, killed
from tests.interop.support.scenes.killed_at import BLOCK_S, KILLED_AT, POINTS
from tests.interop.support.scenes.proxied import (
    ProxiedStage,
    RuleMaker,
    always,
    led_through_proxy,
    once,
    proxied_stage,
)

pytestmark = [pytest.mark.broker, pytest.mark.proof, pytest.mark.timeout(300)]

JOIN, HEARTBEAT, SYNC = 11, 12, 14  # Kafka's numbers of these requests
EARLY = [point for point in POINTS if point != "leaving"]
DEATHS = [
    *(("kill", False, point) for point in POINTS),
    *(("kill", True, point) for point in EARLY),
    *(("term", False, point) for point in EARLY),
    *(("break", True, point) for point in EARLY),
]
SLOW_S = 6.0  # what a slow link adds to a rebalance
HEAL_AFTER_S = 3.0
# One frame is hit: its request, what becomes of it, and whether it is the answer.
FRAMES: dict[str, RuleMaker] = {
    "reset instead of JoinGroup": partial(once, JOIN, Delivery.CUT, answer=False),
    "reset instead of JoinGroup's answer": partial(once, JOIN, Delivery.CUT, answer=True),
    "reset instead of SyncGroup": partial(once, SYNC, Delivery.CUT, answer=False),
    "reset instead of SyncGroup's answer": partial(once, SYNC, Delivery.CUT, answer=True),
    "reset instead of a heartbeat's answer": partial(once, HEARTBEAT, Delivery.CUT, answer=True),
    "half an answer, then silence": partial(once, JOIN, Delivery.HALF, answer=True),
    "half an answer, then the end": partial(once, JOIN, Delivery.STUMP, answer=True),
    "an answer that claims two gigabytes": partial(once, JOIN, Delivery.ABSURD, answer=True),
}
SILENCE: dict[str, RuleMaker] = {
    "half-open": partial(always, Delivery.DROP),
    "no answer arrives": partial(always, Delivery.DROP, requests=False),
    "no request arrives": partial(always, Delivery.DROP, answers=False),
}
SLOWNESS: dict[str, RuleMaker] = {
    "each frame 0.3 s late": partial(always, Delivery.PASS, delay_s=0.3),
    "answers byte by byte": partial(always, Delivery.DRIP, requests=False),
    "2,000 bytes per second": partial(always, Delivery.PASS, bytes_per_s=2_000),
}


@pytest.fixture(scope="module")
def stage() -> Iterator[ProxiedStage]:
    with proxied_stage() as made:
        yield made


def spent(took_s: float, promised_s: float) -> None:
    """Prints what it cost, for `pytest -s`, and compares it with what is promised."""
    print(f"{took_s:.2f} s of {promised_s:.1f} s")
    assert took_s <= promised_s


@pytest.mark.parametrize(("how", "standby", "point"), DEATHS)
def test_an_instance_that_ends_at_any_step_costs_its_session_at_most(
    stage: ProxiedStage, how: str, standby: bool, point: str
) -> None:
    outcome = killed(stage.cluster, stage.flock, point, stage.ordinary_s, standby=standby, how=how)
    assert outcome.broken == ()
    spent(outcome.took_s, outcome.promised_s)


@pytest.mark.parametrize("how", ["kill", "stop"])
@pytest.mark.parametrize("point", POINTS)
def test_a_coordinator_node_that_ends_at_any_step_is_survived(stage: ProxiedStage, how: str, point: str) -> None:
    outcome = coordinator_killed(stage.cluster, stage.flock, point, how)
    assert outcome.broken == ()
    spent(outcome.took_s, outcome.promised_s)


@pytest.mark.parametrize("fault", FRAMES)
def test_a_frame_that_is_lost_costs_what_silence_costs_at_most(stage: ProxiedStage, fault: str) -> None:
    with led_through_proxy(stage, f"frame-{list(FRAMES).index(fault)}") as scene:
        took_s = scene.joined_under_s(FRAMES[fault](), 0.0)
    spent(took_s, stage.silent_s)


@pytest.mark.parametrize("fault", SILENCE)
def test_silence_costs_the_session_and_the_time_for_a_plan_at_most(stage: ProxiedStage, fault: str) -> None:
    with led_through_proxy(stage, f"silence-{list(SILENCE).index(fault)}") as scene:
        took_s = scene.joined_under_s(SILENCE[fault](), HEAL_AFTER_S)
    spent(took_s, stage.silent_s)


@pytest.mark.parametrize("fault", SLOWNESS)
def test_a_slow_link_delays_a_rebalance_and_ends_nothing(stage: ProxiedStage, fault: str) -> None:
    with led_through_proxy(stage, f"slow-{list(SLOWNESS).index(fault)}") as scene:
        took_s = scene.joined_under_s(SLOWNESS[fault](), 0.0)
    spent(took_s, stage.at_once_s + SLOW_S)


@pytest.mark.parametrize("paused_s", [3.0, 10.0], ids=["shorter than the session", "longer than the session"])
def test_what_a_paused_process_sends_afterwards_changes_nothing(stage: ProxiedStage, paused_s: float) -> None:
    with led_through_proxy(stage, f"paused-{paused_s:.0f}") as scene:
        os.kill(scene.lead.pid, signal.SIGSTOP)
        wakes = threading.Timer(paused_s, os.kill, (scene.lead.pid, signal.SIGCONT))
        wakes.start()
        try:
            took_s = scene.joined_s()
        finally:
            wakes.join()
            time.sleep(2.0)  # for what it sends now
    spent(took_s, min(paused_s + stage.at_once_s, stage.silent_s))


def test_a_blocked_event_loop_delays_a_rebalance_by_as_long(stage: ProxiedStage, tmp_path: Path) -> None:
    trigger = tmp_path / "trigger"
    command = (sys.executable, "-m", KILLED_AT, "deciding", "block", str(trigger))
    with led_through_proxy(stage, "blocked", command) as scene:
        trigger.touch()
        took_s = scene.joined_s()
        assert Path(f"{trigger}.reached").exists(), "the fault never came about"
    spent(took_s, BLOCK_S + stage.at_once_s)
