"""Measures first starts of a Streams application: `python -m tests.measure.first_starts --runs 5`.

Each run makes a new application with records to read and no internal topics, and starts all its instances at once, in
a JVM that is warm. Bellwether, where it leads, is alone in the group by then, with a topology file. What is measured
comes from the application's own reports and from the brokers' logs; leaders take turns.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

from tests.interop.support.bellwether import Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.jvm import java
from tests.interop.support.members import wait_until
from tests.interop.support.raw import describe
from tests.interop.support.rounds import rounds
from tests.interop.support.streams_app import Application
from tests.interop.support.streams_led import application, settings_of
from tests.interop.support.streams_load import Load
from tests.interop.support.streams_stage import check_leader

LEADERS = ("java", "kafka", "streams-ha")
SIZES = (1, 3, 30)
DELAYS_MS = (3_000, 0)
PARTITIONS = 10  # 30 tasks
RECORDS = 1_000
KEYS = 200
QUIET_S = 5.0  # longer than a heartbeat, by which members hear of a round that follows
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
class FirstStart:
    """One run. Seconds from the start of all instances: until the first record was processed, until every task ran, and
    until the last change of any task. `generations` are those whose leader delivered a plan, `load` the machine's load
    average of the last minute."""

    leader: str
    instances: int
    delay_ms: int
    run: int
    generations: int
    first_record_s: float
    all_running_s: float
    settled_s: float
    load: float


class Starts:
    """The JVM in which instances are started; a context manager."""

    def __init__(self) -> None:
        self._said: list[dict[str, Any]] = []
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
        said: list[dict[str, Any]] = []
        self._said = said
        state = Path(self._directory.name, app.application_id)
        words = [f"{key}={value}" for key, value in app.arguments(bootstrap, state).items()]
        self._tell(" ".join(["start", str(instances), *words]))
        try:
            yield said
        finally:
            self._tell("stop")
            wait_until(lambda: any(s["event"] == "stopped" for s in said), LIMIT_S, lambda: "it does not stop")
            shutil.rmtree(state, ignore_errors=True)

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.append(json.loads(line))


def one_round(cluster: KafkaCluster, starts: Starts, run: int, sizes: Sequence[int] = SIZES) -> Iterator[FirstStart]:
    """One start of each size under each leader. A start before them is discarded, because the broker is still creating
    topics then. Raises AssertionError when an application does not come to rest or another leader led."""
    delay_ms = cluster.initial_rebalance_delay_ms
    turns = LEADERS[run % len(LEADERS) :] + LEADERS[: run % len(LEADERS)]
    planned = [
        (size, leader, application(cluster, f"first-{leader}-{size}-{delay_ms}-{run}", **DEFAULTS))
        for size, leader in product(sizes, turns)
    ]
    idle = application(cluster, f"first-idle-{delay_ms}-{run}", **DEFAULTS)
    for app in (idle, *(app for *_, app in planned)):
        with Load(cluster, app.topics[0], KEYS) as load:
            load.produce(RECORDS)
    led = [(app, leader) for _, leader, app in planned if leader != "java"]
    with leading(cluster, led) as bellwether:
        with starts.started(idle, cluster.bootstrap, sizes[0]) as said:
            wait_until(partial(rests, said, idle), LIMIT_S, partial(last_words, said))
        for size, leader, app in planned:
            before = len(rounds(cluster, app.application_id))
            with starts.started(app, cluster.bootstrap, size) as said:
                try:
                    wait_until(partial(rests, said, app), LIMIT_S, partial(last_words, said))
                except AssertionError as error:
                    raise AssertionError(f"{error}\n{bellwether.said_of(app.application_id, 60)}") from error
                generations = len(rounds(cluster, app.application_id)) - before
                load_1m = round(os.getloadavg()[0], 1)
                first_s, all_s, settled_s = seconds(said, app)
                found = FirstStart(leader, size, delay_ms, run, generations, first_s, all_s, settled_s, load_1m)
            check_leader(cluster, app.application_id, "java" if leader == "java" else "bellwether")
            yield found


@contextmanager
def leading(cluster: KafkaCluster, led: Sequence[tuple[Application, str]]) -> Iterator[Bellwether]:
    """Bellwether at rest in the empty group of each application, with its policy."""
    with TemporaryDirectory(prefix="bellwether-topology-") as folder:
        options: dict[str, Any] = {"session_timeout_ms": None}
        own = {app.application_id: settings_of(app, Path(folder), policy=policy, **options) for app, policy in led}
        with Bellwether(cluster, tuple(own), own=own) as process:
            for group in own:
                wait_until(partial(stable, cluster, group), LIMIT_S, process.tail)
            yield process


def last_words(said: Sequence[dict[str, Any]]) -> str:
    return json.dumps(said[-5:])


def stable(cluster: KafkaCluster, group: str) -> bool:
    return describe(cluster.bootstrap, group).state == "Stable"


def times(said: Sequence[dict[str, Any]], app: Application) -> tuple[int, int, int, int]:
    """Milliseconds by the JVM's clock, 0 for what did not happen yet: the start, the first record, the moment at which
    every task ran, the last change."""
    started = record = complete = changed = 0
    running: list[str] = []
    for line in list(said):
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


def rests(said: Sequence[dict[str, Any]], app: Application) -> bool:
    """Whether every task runs and nothing has changed for a while."""
    _, record, _, changed = times(said, app)
    return bool(record and changed) and time.time() - changed / 1000 > QUIET_S


def seconds(said: Sequence[dict[str, Any]], app: Application) -> tuple[float, ...]:
    started, *happened = times(said, app)
    return tuple((at - started) / 1000 for at in happened)


def table(found: Sequence[FirstStart]) -> str:
    """Least, median and most of each figure, and the median ratio to Java in the same round, as Markdown."""
    shown = {"generations": "generations", "first_record_s": "first record, s", "all_running_s": "every task runs, s"}
    head = ["brokers wait, ms", "instances", "leader", "runs", *shown.values(), "of Java's time", "load"]
    lines = [head, ["---"] * len(head)]
    java = {(one.delay_ms, one.instances, one.run): one for one in found if one.leader == "java"}
    for delay_ms, instances, leader in product(DELAYS_MS, SIZES, LEADERS):
        runs = [one for one in found if (one.delay_ms, one.instances, one.leader) == (delay_ms, instances, leader)]
        beside = [(one, java.get((delay_ms, instances, one.run))) for one in runs]
        ratios = [one.all_running_s / other.all_running_s for one, other in beside if other is not None]
        if ratios:
            cells = [spread([getattr(one, name) for one in runs]) for name in shown]
            ratio, load = f"{statistics.median(ratios):.2f}", spread([one.load for one in runs])
            lines.append([f"{delay_ms}", f"{instances}", leader, f"{len(runs)}", *cells, ratio, load])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def spread(figures: Sequence[float]) -> str:
    least, median, most = min(figures), statistics.median(figures), max(figures)
    return f"{least:.2g} / {median:.2g} / {most:.2g}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write every run there as a JSON line")
    options = parser.parse_args()
    found: list[FirstStart] = []
    with ExitStack() as stack:
        sink = stack.enter_context(options.json.open("w")) if options.json else sys.stderr
        clusters = [stack.enter_context(broker(delay_ms)) for delay_ms in DELAYS_MS]
        starts = stack.enter_context(Starts())
        list(one_round(clusters[0], starts, 0, SIZES[:1]))  # until the JVM is warm
        for run, cluster in product(range(1, options.runs + 1), clusters):
            for one in one_round(cluster, starts, run):
                found.append(one)
                print(json.dumps(asdict(one)), file=sink, flush=True)
    print(table(found))
    return 0


def broker(delay_ms: int) -> KafkaCluster:
    """One node: what is measured is how leaders wait, not how brokers spread metadata."""
    return KafkaCluster(nodes=1, initial_rebalance_delay_ms=delay_ms, heap_mb=384)


if __name__ == "__main__":
    sys.exit(main())
