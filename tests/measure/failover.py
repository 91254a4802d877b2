"""`python -m tests.measure.failover --trials 20`: how fast and how quietly the lead passes between instances of
Bellwether, on real brokers with Java members. Exit code 1 if a promise was broken.
"""

import argparse
import os
import sys
from statistics import median

from rich.console import Console
from rich.table import Table

from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.instances import InstanceSet, LeaderPlace, strangers
from tests.interop.support.members import Flock
from tests.interop.support.rebalances import last_rebalance, rebalances
from tests.interop.support.scenes.failover import CONTROL, GROUP, KILLED_S_MAX, PARTITIONS, TOPIC, Stage, Trials

DRAINED_S_MAX = 0.1


def run(cluster: KafkaCluster, trials: int, restarts: int, instances_count: int = 2) -> list[Trials]:
    """All kinds of trials, `trials` times each; `restarts` rolling restarts."""
    cluster.create_topic(TOPIC, PARTITIONS, rf=1)
    at_rest = Trials("kill -9 of the leader, group at rest", KILLED_S_MAX)
    rebalancing = Trials("kill -9 of the leader, members joining (until all is owned)", KILLED_S_MAX)
    drained = Trials("drain (from the order to the new leader)", DRAINED_S_MAX)
    paused = Trials("SIGSTOP of the leader, then SIGCONT", KILLED_S_MAX)
    rolled = Trials("rolling restart (longest hand-over, from SIGTERM)", DRAINED_S_MAX)
    with InstanceSet(cluster, [GROUP], CONTROL, count=instances_count) as instances, Flock(cluster.bootstrap) as flock:
        with LeaderPlace(cluster.bootstrap, GROUP) as member_entry:
            stage = Stage(cluster, instances, flock, member_entry)
            base = last_rebalance(cluster, GROUP).generation
            for _ in range(trials):
                stage.killed_at_rest(at_rest)
                stage.drained(drained)
            for _ in range(trials):
                stage.killed_in_a_rebalance(rebalancing)
            for _ in range(restarts):
                stage.rolled(rolled)
                stage.paused(paused)
        led = rebalances(cluster, GROUP, base)
        print(f"{len(led)} rebalances after the start, {len(strangers(cluster, GROUP, base))} of them led by others")
    return [at_rest, rebalancing, drained, rolled, paused]


def table(all_trials: list[Trials]) -> Table:
    shown = Table(title=f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for column in ("what", "trials", "median", "longest", "promised", "broken"):
        shown.add_column(column)
    for t in all_trials:
        took = [f"{seconds:.3f} s" for seconds in (median(t.took_s), max(t.took_s))] if t.took_s else ["-", "-"]
        shown.add_row(t.name, str(len(t.took_s)), *took, f"{t.promise_s:.1f} s", "; ".join(t.broken) or "none")
    return shown


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--restarts", type=int, default=2)
    parser.add_argument("--instances", type=int, default=2)
    arguments = parser.parse_args()
    with KafkaCluster() as cluster:
        found = run(cluster, arguments.trials, arguments.restarts, arguments.instances)
    Console(width=140).print(table(found))
    return 0 if all(t.passed() for t in found) else 1


if __name__ == "__main__":
    sys.exit(main())
