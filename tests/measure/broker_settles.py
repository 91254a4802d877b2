"""`python -m tests.measure.broker_settles --trials 10`: groups of six members and 60 partitions in three racks whose
broker assigns, by `uniform` and by Bellwether's plans: seconds until settled and partitions across racks after a join,
a leave and a kill (session 6 s, heartbeat 1 s), and the times of `assign` in the brokers.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

from rich.console import Console
from rich.table import Table

from tests.interop.support.bellwether import Bellwether
from tests.interop.support.members import Flock
from tests.interop.support.scenes.served import RACKS, address_in, asking_cluster, create_topic, started
from tests.interop.support.scenes.settling import (
    DEADLINE_MS,
    PARTITIONS,
    PRINT_CALLS,
    RACK_FIRST,
    RELEASES,
    SESSION_MS,
    UNIFORM,
    Call,
    Change,
    SettlingGroup,
    settling_groups,
)

CLIENTS = ("java-4.4", "confluent")
COLUMNS = ("brokers", "members", "assignor", "after a", "settled s", "worst", "across racks", "worst", "optimum")


@dataclass(frozen=True, slots=True)
class Settled:
    """One group, after all its changes."""

    release: str
    group: SettlingGroup
    changes: Sequence[Change]
    calls: Sequence[Call]


def settle(release: str, group: SettlingGroup, trials: int) -> Settled:
    group.begin()
    changes: list[Change] = []
    for trial in range(trials):
        rack = RACKS[trial % len(RACKS)]
        changes += [group.join(rack), group.leave(), group.kill(rack)]
    return Settled(release, group, changes, group.calls())


def run(release: str, clients: Sequence[str], trials: int) -> list[Settled]:
    with tempfile.TemporaryDirectory(prefix="bellwether-assignor-") as name:
        made = asking_cluster(
            Path(name),
            release=RELEASES[release],
            deadline_ms=DEADLINE_MS,
            session_ms=SESSION_MS,
            options=PRINT_CALLS,
        )
        with made as cluster, Flock(cluster.bootstrap) as flock:
            create_topic(cluster, PARTITIONS)
            groups = settling_groups(cluster, flock, clients, (UNIFORM, RACK_FIRST))
            asking = [group.name for group in groups if group.asks]
            bellwether = Bellwether(
                cluster, asking, options={"mode": "observe"}, assignor_address=address_in(Path(name))
            )
            try:
                started(bellwether)
                with ThreadPoolExecutor(len(groups)) as pool:
                    return list(pool.map(lambda group: settle(release, group, trials), groups))
            finally:
                bellwether.stop()


def table(every: Sequence[Settled]) -> Table:
    shown = Table(*COLUMNS)
    for one in every:
        for what in ("join", "leave", "kill"):
            changes = [change for change in one.changes if change.what == what]
            seconds, across = [c.settled_s for c in changes], [c.crossing for c in changes]
            shown.add_row(
                one.release,
                one.group.kind,
                one.group.assignor,
                what,
                f"{median(seconds):.1f}",
                f"{max(seconds):.1f}",
                f"{median(across):g}",
                str(max(across)),
                f"{median(c.optimum for c in changes):g}",
            )
    return shown


def of_calls(every: Sequence[Settled]) -> str:
    """Describes the calls of `assign` in all brokers of a release."""
    calls = [call for one in every for call in one.calls]
    times = sorted(call.ms / (call.plans + call.fallbacks) for call in calls)
    fallbacks, plans = sum(call.fallbacks for call in calls), sum(call.plans for call in calls)
    changed = [f"{c.what} {c.settled_s:.1f} s" for one in every for c in one.changes if c.fallbacks]
    return (
        f"brokers of {every[0].release}: {plans + fallbacks} calls, p50 {median(times):.1f} ms,"
        f" p99 {quantiles(times, n=100)[98]:.1f} ms, worst {times[-1]:.1f} ms,"
        f" fallbacks {fallbacks / (plans + fallbacks):.1%}; changes with one: {', '.join(changed) or 'none'}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.measure.broker_settles", description=__doc__)
    parser.add_argument("--release", action="append", choices=RELEASES)
    parser.add_argument("--client", action="append", choices=CLIENTS)
    parser.add_argument("--trials", type=int, default=10)
    options = parser.parse_args()
    every: list[Settled] = []
    for release in options.release or RELEASES:
        every += run(release, options.client or CLIENTS, options.trials)
        print(of_calls([one for one in every if one.release == release]), flush=True)
    Console(width=140).print(table(every))
    return 0


if __name__ == "__main__":
    sys.exit(main())
