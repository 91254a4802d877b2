"""`python -m tests.lab.broker_settles --trials 10`: groups of six members and 60 partitions in three racks whose
broker assigns, by `uniform` and by Bellwether's plans: seconds until settled and partitions across racks after a join,
a leave and a kill (session 6 s, heartbeat 1 s), and the times of `assign` in the brokers. With
`--faults` no plan comes for a while: exit code 1 if a partition moved then, or a plan differs from what `plan` showed.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import Flock
from tests.interop.support.scenes.plan_faults import GONE, WRONG, Disturbed, Faulty, disturb, recovered, shown
from tests.interop.support.scenes.served import RACKS, asking_cluster, create_topic
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
    """One group, after all its changes. `calls` are those of the changes, `first` those before, while the broker's JVM
    had hardly run the assignor."""

    release: str
    group: SettlingGroup
    changes: Sequence[Change]
    first: Sequence[Call]
    calls: Sequence[Call]


def settle(release: str, group: SettlingGroup, trials: int) -> Settled:
    group.begin()
    first = group.calls()
    changes: list[Change] = []
    for trial in range(trials):
        rack = RACKS[trial % len(RACKS)]
        changes += [group.join(rack), group.leave(), group.kill(rack)]
    return Settled(release, group, changes, first, group.calls()[len(first) :])


def settled(release: str, trials: int) -> list[Settled]:
    with stage(release) as (folder, cluster, flock):
        groups = settling_groups(cluster, flock, CLIENTS, (UNIFORM, RACK_FIRST))
        asking = [group.name for group in groups if group.asks]
        with (
            Faulty(cluster, folder, asking, relayed=False).running(),
            ThreadPoolExecutor(len(groups)) as pool,
        ):
            return list(pool.map(lambda group: settle(release, group, trials), groups))


def disturbed(release: str) -> list[Disturbed]:
    """Disturbs a group of each client in each way, all of them at once."""
    every: list[Disturbed] = []
    with stage(release) as (folder, cluster, flock), ThreadPoolExecutor(len(CLIENTS)) as pool:
        groups = settling_groups(cluster, flock, CLIENTS, (RACK_FIRST,))
        for faults in (GONE, WRONG):
            faulty = Faulty(cluster, folder, [group.name for group in groups], relayed=faults is WRONG)
            with faulty.running():
                for fault in faults:
                    list(pool.map(SettlingGroup.begin, groups))
                    with faulty.fault(fault):
                        during = list(pool.map(lambda group, fault=fault: disturb(group, fault), groups))
                        plans = [shown(group, folder) for group in groups]
                        at_ms = int(time.time() * 1000)
                    every += pool.map(recovered, groups, during, plans, [at_ms] * len(groups))
                    list(pool.map(SettlingGroup.end, groups))
                    print(*every[-len(groups) :], sep="\n", flush=True)
    return every


@contextmanager
def stage(release: str) -> Iterator[tuple[Path, KafkaCluster, Flock]]:
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
            yield Path(name), cluster, flock


def table(every: Sequence[Settled]) -> Table:
    shown = Table(*COLUMNS)
    for settled_group in every:
        for what in ("join", "leave", "kill"):
            changes = [change for change in settled_group.changes if change.what == what]
            seconds, across = [c.settled_s for c in changes], [c.crossing for c in changes]
            names = settled_group.release, settled_group.group.kind, settled_group.group.assignor, what
            figures = f"{median(seconds):.1f}", f"{max(seconds):.1f}", f"{median(across):g}", str(max(across))
            shown.add_row(*names, *figures, f"{median(c.optimum for c in changes):g}")
    return shown


def of_calls(every: Sequence[Settled]) -> str:
    """Describes the calls of `assign` in all brokers of a release."""
    calls = [call for group in every for call in group.calls]
    first = [call for group in every for call in group.first]
    times = sorted(call.ms / (call.plans + call.fallbacks) for call in calls)
    number, fallbacks = sum(call.plans + call.fallbacks for call in calls), sum(call.fallbacks for call in calls)
    changed = [f"{c.what} {c.settled_s:.1f} s" for group in every for c in group.changes if c.fallbacks]
    return (
        f"brokers of {every[0].release}: assign p50 {median(times):.1f} ms, p99 {times[int(0.99 * len(times))]:.1f} ms,"
        f" worst {times[-1]:.1f} ms, fallbacks {fallbacks} of {number} calls ({fallbacks / number:.1%}), before"
        f" the first change {sum(call.fallbacks for call in first)}; changes with one: {', '.join(changed) or 'none'}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.broker_settles", description=__doc__)
    parser.add_argument("--release", action="append", choices=RELEASES)
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--faults", action="store_true", help="no plans for a while, in five ways, five changes each")
    options = parser.parse_args()
    if options.faults:
        groups = [group for release in options.release or RELEASES for group in disturbed(release)]
        return 1 if any(group.moved or group.plans or group.errors or group.differing for group in groups) else 0
    every: list[Settled] = []
    for release in options.release or RELEASES:
        every += settled(release, options.trials)
        print(of_calls([group for group in every if group.release == release]), flush=True)
    Console(width=140).print(table(every))
    return 0


if __name__ == "__main__":
    sys.exit(main())
