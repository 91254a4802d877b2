"""First starts of three Streams applications, led with a file that the application exported and that nobody edited:
`python -m tests.measure.exported_starts --runs 2`.

The brokers have the source topics and nothing else. Java's own leader is beside it in each run. All instances start at
once in a JVM that is warm. What is measured comes from their own reports.
"""

import argparse
import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

from tests.interop.support.bellwether import Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.jvm import java
from tests.interop.support.members import wait_until
from tests.interop.support.raw import describe
from tests.interop.support.streams_app import Application, export
from tests.interop.support.streams_led import application, settings_of
from tests.interop.support.streams_load import Load
from tests.interop.support.streams_stage import check_leader

LEADERS = ("java", "bellwether")
VARIANTS = {"v1": "two stores", "v2": "three stores", "v3": "subtopologies in another order"}
INSTANCES = 3
DELAY_MS = 3_000
PARTITIONS = 10  # 30 tasks
RECORDS = 1_000
KEYS = 200
QUIET_S = 5.0  # longer than a heartbeat, by which members hear of a rebalance that follows
LIMIT_S = 60.0
OPTIONS = ("-Xmx768m", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
# What an application has that sets nothing.
DEFAULTS: dict[str, Any] = {
    "partitions": PARTITIONS,
    "acceptable_recovery_lag": 10_000,
    "probing_interval_ms": 600_000,
    "session_timeout_ms": 45_000,
    "heartbeat_interval_ms": 3_000,
    "settings": {"consumer.metadata.max.age.ms": "300000", "commit.interval.ms": "30000"},
}


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds from the start of all instances until every task ran, and until the last change of any task."""

    variant: str
    leader: str
    run: int
    all_running_s: float
    settled_s: float


class Starts:
    """The JVM in which instances are started; a context manager."""

    def __init__(self) -> None:
        self._message: list[dict[str, Any]] = []
        self._directory = TemporaryDirectory(prefix="bellwether-starts-", ignore_cleanup_errors=True)
        command = java().command("bellwether.StartsMain", options=OPTIONS)
        self._log = Path(self._directory.name, "stderr.log").open("ab")  # noqa: SIM115 - until __exit__
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join(10)
        self._log.close()
        self._directory.cleanup()

    @contextmanager
    def started(self, app: Application, bootstrap: str, instances: int) -> Iterator[list[dict[str, Any]]]:
        """Instances of an application, as long as the block runs, and what they say, which grows."""
        message: list[dict[str, Any]] = []
        self._message = message
        state = Path(self._directory.name, app.application_id)
        words = [f"{key}={value}" for key, value in app.arguments(bootstrap, state).items()]
        self._send(" ".join(["start", str(instances), *words]))
        try:
            yield message
        finally:
            self._send("stop")
            wait_until(lambda: any(s["event"] == "stopped" for s in message), LIMIT_S, lambda: "it does not stop")
            shutil.rmtree(state, ignore_errors=True)

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._message.append(json.loads(line))


def measured(cluster: KafkaCluster, starts: Starts, run: int) -> Iterator[Start]:
    """Each application under each leader. Raises AssertionError when one does not come to rest."""
    planned = [
        (leader, application(cluster, f"{leader}-{variant}-{run}", topology=variant, **DEFAULTS))
        for variant in VARIANTS
        for leader in (LEADERS if run % 2 else LEADERS[::-1])
    ]
    for _, app in planned:
        with Load(cluster, app.topics[0], KEYS) as load:
            load.produce(RECORDS)
    with leading(cluster, [app for leader, app in planned if leader != "java"]):
        for leader, app in planned:
            with starts.started(app, cluster.bootstrap, INSTANCES) as message:
                wait_until(partial(rests, message, app), LIMIT_S, partial(last_words, message))
                _, all_s, settled_s = seconds(message, app)
            check_leader(cluster, app.application_id, leader)
            yield Start(app.topology, leader, run, all_s, settled_s)


@contextmanager
def leading(cluster: KafkaCluster, apps: Sequence[Application]) -> Iterator[Bellwether]:
    """Bellwether at rest in the empty group of each application, with its exported file."""
    with TemporaryDirectory(prefix="bellwether-exported-") as folder:
        own: dict[str, dict[str, Any]] = {}
        for app in apps:
            file = export(app, Path(folder, f"exported-{app.application_id}.yaml"))
            own[app.application_id] = settings_of(app, Path(folder), session_timeout_ms=None, topology=str(file))
        with Bellwether(cluster, tuple(own), own=own) as process:
            for group in own:
                wait_until(partial(stable, cluster, group), LIMIT_S, process.tail)
            yield process


def last_words(message: Sequence[dict[str, Any]]) -> str:
    return json.dumps(message[-5:])


def stable(cluster: KafkaCluster, group: str) -> bool:
    return describe(cluster.bootstrap, group).state == "Stable"


def times(message: Sequence[dict[str, Any]], app: Application) -> tuple[int, int, int, int]:
    """Milliseconds by the JVM's clock, 0 for what did not happen yet: the start, the first record, the moment at which
    every task ran, the last change."""
    started = record = complete = changed = 0
    running: list[str] = []
    for line in list(message):
        match line["event"]:
            case "started":
                started = line["t_ms"]
            case "processed":
                record = min([first for first, _, _ in line["tasks"].values()] + [record] * bool(record))
            case "running":
                running.append(line["task"])
                changed = line["t_ms"]
            case "suspended" if line["task"] in running:  # it may be closed before it ran
                running.remove(line["task"])
                changed = line["t_ms"]
            case "failed":
                raise AssertionError(line["text"])
        if not complete and frozenset(running) == app.tasks:
            complete = changed
    return started, record, complete, changed if frozenset(running) == app.tasks else 0


def rests(message: Sequence[dict[str, Any]], app: Application) -> bool:
    """Whether every task runs and nothing has changed for a while."""
    _, record, _, changed = times(message, app)
    return bool(record and changed) and time.time() - changed / 1000 > QUIET_S


def seconds(message: Sequence[dict[str, Any]], app: Application) -> tuple[float, ...]:
    started, *happened = times(message, app)
    return tuple((at - started) / 1000 for at in happened)


def table(found: Sequence[Start]) -> str:
    """A line for each application and leader, runs behind one another."""
    lines = ["| application | leader | every task runs, s | settled, s |", "|---|---|---|---|"]
    for variant, what in VARIANTS.items():
        for leader in LEADERS:
            runs = [one for one in found if (one.variant, one.leader) == (variant, leader)]
            running = ", ".join(f"{one.all_running_s:.1f}" for one in runs)
            settled = ", ".join(f"{one.settled_s:.1f}" for one in runs)
            lines.append(f"| {what} | {leader} | {running} | {settled} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2)
    options = parser.parse_args()
    found: list[Start] = []
    with KafkaCluster(nodes=1, initial_rebalance_delay_ms=DELAY_MS, heap_mb=384) as cluster, Starts() as starts:
        for run in range(1, options.runs + 1):
            for one in measured(cluster, starts, run):
                found.append(one)
                print(one, file=sys.stderr, flush=True)
    print(table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
