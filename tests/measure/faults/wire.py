"""Rows around the sidecar's connections, its process, its clocks and its disks."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from tests.interop.support.bellwether import COMMAND
from tests.interop.support.proxy import Fate, Frame, Rule, Ruling, honest
from tests.interop.support.scenes.killed_at import BLOCK_S, KILLED_AT
from tests.measure.faults.rows import Row
from tests.measure.faults.scene import Scene, Stage, Work, measure, stage

JOIN, HEARTBEAT, SYNC = 11, 12, 14
FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")
HOST, GUEST, NETWORK = "10.213.77.1", "10.213.77.2", "bellwether-f"
SLOW_S = 6.0  # what a slow link adds to a round
BYTES_PER_S = 2_000


def once(api: int, fate: Fate, *, answer: bool, meanwhile: Callable[[], object] | None = None) -> Rule:
    """For the first frame of this kind. `meanwhile` is done while the frame waits in the proxy."""
    hit: list[Frame] = []

    def rule(frame: Frame) -> Ruling:
        if hit or frame.api != api or frame.answer is not answer:
            return Ruling()
        hit.append(frame)
        if meanwhile is not None:
            meanwhile()
        return Ruling(fate, 0.001)

    return rule


def always(
    fate: Fate, *, answers: bool = True, requests: bool = True, delay_s: float = 0.0, bytes_per_s: int = 0
) -> Rule:
    ruling = Ruling(fate, delay_s, bytes_per_s)
    return lambda frame: ruling if (answers if frame.answer else requests) else Ruling()


def by_rule(rule: Callable[[], Rule], *, heal_after_s: float | None = None) -> Work:
    """Sets the rule, lets a member come, and heals afterwards."""

    def work(scene: Scene) -> float:
        scene.proxy.ruled.clear()
        scene.proxy.rule = rule()
        try:
            took_s = scene.joined()
            if heal_after_s is not None:
                time.sleep(heal_after_s)
            assert scene.proxy.ruled, "the fault never came about"
        finally:
            scene.proxy.rule = honest
        return took_s

    return work


# Name, fault, request, what becomes of the frame, and whether that is the answer: each strikes one frame.
ONCE = (
    ("cut-join-request", "reset instead of Bellwether's JoinGroup", JOIN, Fate.CUT, False),
    ("cut-join", "reset instead of the answer to JoinGroup", JOIN, Fate.CUT, True),
    ("cut-sync-request", "reset instead of Bellwether's SyncGroup", SYNC, Fate.CUT, False),
    ("cut-sync", "reset instead of the answer to SyncGroup", SYNC, Fate.CUT, True),
    ("cut-beat", "reset instead of the answer to a heartbeat", HEARTBEAT, Fate.CUT, True),
    ("half-join", "half of JoinGroup's answer, then silence", JOIN, Fate.HALF, True),
    ("stump-join", "half of JoinGroup's answer, then the end", JOIN, Fate.STUMP, True),
    ("absurd-join", "an answer that claims two gigabytes", JOIN, Fate.ABSURD, True),
)


def connections(stage: Stage, wanted: Callable[[str], bool]) -> Iterator[Row]:
    silent, patient = stage.silent_s, stage.at_once_s + SLOW_S
    rows: list[tuple[str, str, str, float, Work]] = [
        ("connection", name, fault, silent, by_rule(partial(once, key, fate, answer=answer)))
        for name, fault, key, fate, answer in ONCE
    ]
    for name, fault, deaf in (
        ("half-open", "half-open: nothing passes either way", lambda: always(Fate.DROP)),
        (
            "deaf",
            "one way only: Bellwether's requests arrive, no answer does",
            lambda: always(Fate.DROP, requests=False),
        ),
        ("mute", "one way only: no request of Bellwether's arrives", lambda: always(Fate.DROP, answers=False)),
    ):
        rows.append(("connection", name, fault, silent, by_rule(deaf, heal_after_s=3.0)))
    for name, fault, slow in (
        ("slow", "every frame is 0.3 s late, either way", lambda: always(Fate.PASS, delay_s=0.3)),
        ("drip", "every answer comes byte by byte", lambda: always(Fate.DRIP, requests=False)),
        (
            "narrow",
            f"a link of {BYTES_PER_S:,} bytes per second, either way",
            lambda: always(Fate.PASS, bytes_per_s=BYTES_PER_S),
        ),
    ):
        rows.append(("slow", name, fault, patient, by_rule(slow)))
    for kind, name, fault, promised_s, work in rows:
        if wanted(name):
            yield measure(stage, kind, name, fault, promised_s, work)


def processes(stage: Stage, wanted: Callable[[str], bool]) -> Iterator[Row]:
    for name, fault, promised_s, seconds in (
        ("stopped-short", "SIGSTOP for 3 s", 3.0 + stage.at_once_s, 3.0),
        ("stopped-long", "SIGSTOP for 10 s, longer than the session", stage.silent_s, 10.0),
    ):
        if wanted(name):
            yield measure(stage, "pause", name, fault, promised_s, stopped(seconds))
    if wanted("blocked"):
        with tempfile.TemporaryDirectory(prefix="bellwether-block-") as directory:
            trigger = Path(directory) / "trigger"
            command = (
                sys.executable,
                "-m",
                KILLED_AT,
                "deciding",
                "block",
                str(trigger),
            )
            reported = f"the event loop is blocked for {BLOCK_S:.0f} s, when a plan is to be made"
            promised_s = BLOCK_S + stage.at_once_s
            yield measure(stage, "pause", "blocked", reported, promised_s, blocked(trigger), command=command)
    for name, by in (("clock-forward", "+6h"), ("clock-back", "-6h")):
        if wanted(name) and FAKETIME.exists():
            with tempfile.TemporaryDirectory(prefix="bellwether-clock-") as directory:
                clock = Path(directory) / "clock"
                clock.write_text("+0")
                reported, faked = f"the wall clock jumps by {by}", faketime(clock)
                yield measure(stage, "clock", name, reported, stage.at_once_s, jumped(by, clock), command=faked)


def disks(stage: Stage, wanted: Callable[[str], bool]) -> Iterator[Row]:
    def row(name: str, fault: str, *command: str) -> Row:
        return measure(stage, "disk", name, fault, stage.at_once_s, Scene.joined, command=command)

    if wanted("full-disk"):
        with full_disk() as directory:
            homes = (f"TMPDIR={directory}", f"HOME={directory}", f"XDG_CACHE_HOME={directory}")
            yield row("full-disk", "no free byte in the temporary directory and at home", "env", *homes, *COMMAND)
            log = f'exec "$@" > {directory}/log 2>&1'
            yield row("full-log", "no free byte where the log is written", "sh", "-c", log, "sh", *COMMAND)
    if wanted("read-only"):
        # Its own view of every file system, read-only, its temporary directory too.
        script = (
            "for at in / /tmp /var/tmp /dev/shm /run; do mountpoint -q $at || mount --bind $at $at;"
            ' mount -o remount,bind,ro $at; done; ! touch /tmp/written && exec "$@"'
        )
        closed = ("unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh")
        alone = ("env", "-u", "HOME", "-u", "XDG_CACHE_HOME", "TMPDIR=/tmp", *closed, *COMMAND)
        yield row("read-only", "every file system is read-only", *closed, *COMMAND)
        yield row("no-home", "no home directory, and every file system is read-only", *alone)


def network(wanted: Callable[[str], bool]) -> Iterator[Row]:
    """On brokers of its own, which are reached from the namespace."""
    if not wanted("network"):
        return
    with _namespace(), stage(HOST) as far:
        command = ("ip", "netns", "exec", NETWORK, *COMMAND)
        reported = "the sidecar's network namespace loses its wire"
        yield measure(far, "connection", "network", reported, far.silent_s, _network_down, command=command)


def stopped(seconds: float) -> Work:
    def work(scene: Scene) -> float:
        os.kill(scene.lead.pid, signal.SIGSTOP)
        wakes = threading.Timer(seconds, os.kill, (scene.lead.pid, signal.SIGCONT))
        wakes.start()
        try:
            return scene.joined()
        finally:
            wakes.join()
            time.sleep(2.0)  # what it says now must change nothing

    return work


def blocked(trigger: Path) -> Work:
    def work(scene: Scene) -> float:
        trigger.touch()
        took_s = scene.joined()
        assert Path(f"{trigger}.reached").exists(), "the fault never came about"
        return took_s

    return work


def jumped(by: str, clock: Path) -> Work:
    def work(scene: Scene) -> float:
        clock.write_text(by)
        before = scene.group.last().generation
        time.sleep(3.0)
        assert scene.group.last().generation == before, "a clock that jumps is no reason for a round"
        return scene.joined()

    return work


def _network_down(scene: Scene) -> float:
    _ip("link", "set", f"{NETWORK}0", "down")
    try:
        took_s = scene.joined()
        time.sleep(3.0)
    finally:
        _ip("link", "set", f"{NETWORK}0", "up")
    return took_s


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=20)


@contextmanager
def _namespace() -> Iterator[None]:
    """One that reaches this machine by one wire."""
    ends = (f"{NETWORK}0", f"{NETWORK}1")
    _ip("netns", "add", NETWORK)
    try:
        _ip("link", "add", ends[0], "type", "veth", "peer", "name", ends[1], "netns", NETWORK)
        _ip("addr", "add", f"{HOST}/30", "dev", ends[0])
        _ip("link", "set", ends[0], "up")
        _ip("-n", NETWORK, "addr", "add", f"{GUEST}/30", "dev", ends[1])
        _ip("-n", NETWORK, "link", "set", ends[1], "up")
        _ip("-n", NETWORK, "link", "set", "lo", "up")
        yield
    finally:
        _ip("netns", "del", NETWORK)


@contextmanager
def full_disk() -> Iterator[Path]:
    """A file system of 64 KiB without a free byte."""
    with tempfile.TemporaryDirectory(prefix="bellwether-full-") as directory:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", directory], check=True, timeout=20)
        try:
            with suppress(OSError):
                (Path(directory) / "filler").write_bytes(b"x" * (1 << 20))
            yield Path(directory)
        finally:
            subprocess.run(["umount", "-l", directory], check=True, timeout=20)


def faketime(clock: Path) -> tuple[str, ...]:
    settings = {
        "LD_PRELOAD": str(FAKETIME),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }
    return ("env", *(f"{key}={value}" for key, value in settings.items()), *COMMAND)
