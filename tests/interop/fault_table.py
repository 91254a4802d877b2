"""`make faults`: a led group on a real broker, and what goes wrong around the sidecar: connections (by `proxy`), a
process that stands still, clocks that jump, a full disk, a network that is gone. Each row is measured against what is
promised; makes the table of docs/faults.md. Needs root for the network and the disk, and libfaketime for the clocks.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.interop.bellwether import COMMAND, INSTANCE, Bellwether
from tests.interop.brokers import LOOPBACK, KafkaCluster, Node, PortLease
from tests.interop.jvm import CACHE, ROOT
from tests.interop.kill_points import (
    LIMIT_S,
    MARGIN_S,
    OPTIONS,
    PARTITIONS,
    SESSION_S,
    TOPIC,
    Group,
    ordinary_round,
)
from tests.interop.members import Flock
from tests.interop.proxy import Fate, Frame, Proxy, Rule, Ruling, honest

JOIN, HEARTBEAT, SYNC, METADATA = 11, 12, 14, 3
FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")
DECISION_S = OPTIONS["decision_deadline_ms"] / 1000
KEPT = CACHE / "faults.json"
DOC = ROOT / "docs" / "faults.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
HOST, GUEST, NETWORK = "10.213.77.1", "10.213.77.2", "bellwether-f"


class ProxiedCluster(KafkaCluster):
    """One node with a second listener, whose advertised address is the proxy's."""

    proxy: Proxy
    inner: PortLease

    def _configuration(self, node: Node) -> dict[str, str]:
        config = super()._configuration(node)
        config["listeners"] += f",PROXIED://{LOOPBACK}:{self.inner.port}"
        config["advertised.listeners"] += f",PROXIED://{self.proxy.host}:{self.proxy.port}"
        config["listener.security.protocol.map"] += ",PROXIED:PLAINTEXT"
        return config


@contextmanager
def proxied(host: str = LOOPBACK) -> Iterator[ProxiedCluster]:
    inner = PortLease()
    with Proxy(host, inner.port) as proxy:
        cluster = ProxiedCluster(nodes=1, racks=("az1",), heap_mb=512)
        cluster.proxy, cluster.inner = proxy, inner
        with cluster:
            yield cluster


@dataclass(frozen=True, slots=True)
class Row:
    """What a fault cost. `took_s`: from the fault, or from the next consumer's call to join where the group is at rest,
    until every partition has one owner."""

    fault: str
    took_s: float
    promised_s: float
    then_led_by: str
    broken: tuple[str, ...]
    load: float

    @property
    def passed(self) -> bool:
        return not self.broken and self.took_s <= self.promised_s


@dataclass(frozen=True, slots=True)
class Scene:
    """A group of two members at rest under us."""

    cluster: ProxiedCluster
    group: Group
    lead: Bellwether

    @property
    def proxy(self) -> Proxy:
        return self.cluster.proxy

    def joined(self) -> float:
        """A third member comes; how long until everything is owned."""
        began = time.monotonic()
        self.group.members.append(self.group.member())
        return self.group.until_owned(began)


def once(api: int, fate: Fate, *, answer: bool) -> Rule:
    """For the first frame of this kind."""
    hit: list[Frame] = []

    def rule(frame: Frame) -> Ruling:
        if hit or frame.api != api or frame.answer is not answer:
            return Ruling()
        hit.append(frame)
        return Ruling(fate)

    return rule


def always(fate: Fate, *, answers: bool = True, requests: bool = True, delay_s: float = 0.0) -> Rule:
    return lambda frame: Ruling(fate, delay_s) if (answers if frame.answer else requests) else Ruling()


def by_rule(rule: Callable[[], Rule], *, heal_after_s: float | None = None) -> Callable[[Scene], float]:
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


def stopped(seconds: float) -> Callable[[Scene], float]:
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


def jumped(by: str, clock: Path) -> Callable[[Scene], float]:
    def work(scene: Scene) -> float:
        clock.write_text(by)
        before = scene.group.last().generation
        time.sleep(3.0)
        assert scene.group.last().generation == before, "a clock that jumps is no reason for a round"
        return scene.joined()

    return work


def plain(scene: Scene) -> float:
    return scene.joined()


def network_down(scene: Scene) -> float:
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
def network() -> Iterator[None]:
    """A namespace that reaches this machine by one wire."""
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


def measure(
    cluster: ProxiedCluster,
    flock: Flock,
    name: str,
    fault: str,
    promised_s: float,
    work: Callable[[Scene], float],
    **how: Any,
) -> Row:
    """One row, with a group and a sidecar of its own."""
    group = Group(cluster, flock, name)
    login = {"bootstrap.servers": f"{cluster.proxy.host}:{cluster.proxy.port}"}
    took_s, broken, leader = LIMIT_S, (), "nobody"
    try:
        with Bellwether(cluster, [name], options=OPTIONS, login=login, **how) as lead:
            group.start()
            try:
                took_s = work(Scene(cluster, group, lead))
                group.settle()
                broken = group.trouble()
            except AssertionError as error:
                broken = (str(error)[:400], lead.tail(6))
            leader = "the sidecar" if group.last().leader.startswith(f"{INSTANCE}-") else "a member"
            if not lead.running:
                broken = (*broken, f"the sidecar has ended: {lead.tail(10)}")
    except AssertionError as error:
        broken = (*broken, str(error)[:400])
    finally:
        cluster.proxy.rule = honest
        for member in group.members:
            member.stop()
    row = Row(fault, took_s, promised_s, leader, broken, os.getloadavg()[0])
    print(row, flush=True)
    keep([row])
    return row


# Name, fault, request, what becomes of the frame, and whether that is the answer: each strikes one frame.
ONCE = (
    ("cut-join-request", "reset instead of our JoinGroup", JOIN, Fate.CUT, False),
    ("cut-join", "reset instead of the answer to JoinGroup", JOIN, Fate.CUT, True),
    ("cut-sync-request", "reset instead of our SyncGroup", SYNC, Fate.CUT, False),
    ("cut-sync", "reset instead of the answer to SyncGroup", SYNC, Fate.CUT, True),
    ("cut-beat", "reset instead of the answer to a heartbeat", HEARTBEAT, Fate.CUT, True),
    ("half-join", "half of JoinGroup's answer, then silence", JOIN, Fate.HALF, True),
    ("stump-join", "half of JoinGroup's answer, then the end", JOIN, Fate.STUMP, True),
    ("absurd-join", "an answer that claims two gigabytes", JOIN, Fate.ABSURD, True),
)


def rows(ordinary_s: float) -> dict[str, tuple[str, float, Callable[[Scene], float]]]:
    """What the proxy and signals do, by a name: fault, promise, work."""
    at_once = ordinary_s + MARGIN_S
    silent = SESSION_S + DECISION_S + ordinary_s + MARGIN_S
    return {
        **{
            name: (fault, silent, by_rule(partial(once, key, fate, answer=answer)))
            for name, fault, key, fate, answer in ONCE
        },
        "half-open": (
            "half-open: nothing passes either way",
            silent,
            by_rule(lambda: always(Fate.DROP), heal_after_s=3.0),
        ),
        "deaf": (
            "one way only: our requests arrive, no answer does",
            silent,
            by_rule(lambda: always(Fate.DROP, requests=False), heal_after_s=3.0),
        ),
        "mute": (
            "one way only: no request of ours arrives",
            silent,
            by_rule(lambda: always(Fate.DROP, answers=False), heal_after_s=3.0),
        ),
        "slow": (
            "every frame is 0.3 s late, either way",
            at_once + 6.0,
            by_rule(lambda: always(Fate.PASS, delay_s=0.3)),
        ),
        "drip": ("every answer comes byte by byte", at_once + 6.0, by_rule(lambda: always(Fate.DRIP, requests=False))),
        "stopped-short": ("SIGSTOP for 3 s", 3.0 + at_once, stopped(3.0)),
        "stopped-long": ("SIGSTOP for 10 s, longer than the session", silent, stopped(10.0)),
    }


def run(chosen: Sequence[str]) -> list[Row]:
    found: list[Row] = []
    with ExitStack() as stack:
        cluster = stack.enter_context(proxied())
        flock = stack.enter_context(Flock(cluster.bootstrap))
        cluster.create_topic(TOPIC, PARTITIONS)
        ordinary_s = max(ordinary_round(cluster, flock, f"alone-{i}") for i in range(2))
        at_once = ordinary_s + MARGIN_S
        for name, (fault, promised_s, work) in rows(ordinary_s).items():
            if _wanted(name, chosen):
                found.append(measure(cluster, flock, name, fault, promised_s, work))
        for name, by in (("clock-forward", "+6h"), ("clock-back", "-6h")):
            if _wanted(name, chosen) and FAKETIME.exists():
                with tempfile.TemporaryDirectory(prefix="bellwether-clock-") as directory:
                    clock = Path(directory) / "clock"
                    clock.write_text("+0")
                    told = f"the wall clock jumps by {by}"
                    command = _faketime(clock)
                    found.append(measure(cluster, flock, name, told, at_once, jumped(by, clock), command=command))
        if _wanted("full-disk", chosen):
            with full_disk() as directory:
                command = ("env", f"TMPDIR={directory}", f"HOME={directory}", f"XDG_CACHE_HOME={directory}", *COMMAND)
                told = "no free byte in the temporary directory and at home"
                found.append(measure(cluster, flock, "full-disk", told, at_once, plain, command=command))
                log = f'exec "$@" > {directory}/log 2>&1'
                command = ("sh", "-c", log, "sh", *COMMAND)
                told = "no free byte where the log is written"
                found.append(measure(cluster, flock, "full-log", told, at_once, plain, command=command))
    if _wanted("network", chosen) and shutil.which("ip"):
        with network(), proxied(HOST) as cluster, Flock(cluster.bootstrap) as flock:
            cluster.create_topic(TOPIC, PARTITIONS)
            ordinary_s = ordinary_round(cluster, flock)
            promised_s = SESSION_S + DECISION_S + ordinary_s + MARGIN_S
            command = ("ip", "netns", "exec", NETWORK, *COMMAND)
            told = "the sidecar's network namespace loses its wire"
            found.append(measure(cluster, flock, "network", told, promised_s, network_down, command=command))
    return found


def _wanted(name: str, chosen: Sequence[str]) -> bool:
    return not chosen or name in chosen


def _faketime(clock: Path) -> tuple[str, ...]:
    settings = {
        "LD_PRELOAD": str(FAKETIME),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }
    return ("env", *(f"{key}={value}" for key, value in settings.items()), *COMMAND)


def keep(found: Sequence[Row]) -> None:
    """Beside what earlier pieces have found, and into the document."""
    rows = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    rows |= {row.fault: asdict(row) for row in found}
    KEPT.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    lines = ["| fault | all owned after | promised | then led by | broken |", "|---|---|---|---|---|"]
    for row in rows.values():
        broken = "none" if not row["broken"] else "; ".join(row["broken"]).replace("\n", " ").replace("|", "/")[:200]
        took = f"{row['took_s']:.2f} s | {row['promised_s']:.1f} s"
        lines.append(f"| {row['fault']} | {took} | {row['then_led_by']} | {broken} |")
    loads = [row["load"] for row in rows.values()]
    stamp = f"{time.strftime('%Y-%m-%d', time.gmtime())}, load average {min(loads):.0f} to {max(loads):.0f}"
    lines += ["", f"{len(rows)} rows, on {os.cpu_count()} cores, {stamp}."]
    text = DOC.read_text(encoding="utf-8")
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    DOC.write_text(before + BEGIN + "\n" + "\n".join(lines) + "\n" + END + after, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description="What goes wrong around a sidecar, and what it costs its group.")
    parser.add_argument("rows", nargs="*", help="only these")
    options = parser.parse_args()
    found = run(options.rows)
    for row in found:
        took = f"{row.took_s:6.2f} s of {row.promised_s:5.1f} s"
        print(f"{'kept' if row.passed else 'BROKEN':<6} {took}  {row.fault}; then led by {row.then_led_by}")
    return 0 if found and all(row.passed for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
