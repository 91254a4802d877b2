"""First starts of three Streams applications, led with a file that the application exported and that nobody edited:
`python -m tests.measure.exported_starts --runs 2`.

The brokers have the source topics and nothing else. Java's own leader is beside it in each run. How a start is
measured: tests/measure/first_starts.py.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.interop.support.bellwether import Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import wait_until
from tests.interop.support.streams_app import Application, export
from tests.interop.support.streams_led import application, settings_of
from tests.interop.support.streams_load import Load
from tests.interop.support.streams_stage import check_leader
from tests.measure.first_starts import (
    DEFAULTS,
    KEYS,
    LIMIT_S,
    RECORDS,
    Starts,
    broker,
    last_words,
    rests,
    seconds,
    stable,
)

LEADERS = ("java", "bellwether")
VARIANTS = {"v1": "two stores", "v2": "three stores", "v3": "subtopologies in another order"}
INSTANCES = 3
DELAY_MS = 3_000


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds from the start of all instances until every task ran, and until the last change of any task."""

    variant: str
    leader: str
    run: int
    all_running_s: float
    settled_s: float


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
            with starts.started(app, cluster.bootstrap, INSTANCES) as said:
                wait_until(partial(rests, said, app), LIMIT_S, partial(last_words, said))
                _, all_s, settled_s = seconds(said, app)
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
    with broker(DELAY_MS) as cluster, Starts() as starts:
        for run in range(1, options.runs + 1):
            for one in measured(cluster, starts, run):
                found.append(one)
                print(one, file=sys.stderr, flush=True)
    print(table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
