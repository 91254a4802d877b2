"""`python -m tests.lab.failover --trials 20`: how fast and how quietly the lead passes between instances of
Bellwether, on real brokers with Java members. With `--older COMMIT` one instance is of an older commit, and the lead
passes so often from each to the other, by kill -9 and by a drain. Exit code 1 if a promise was broken.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.instances import InstanceSet, LeaderPlace, strangers
from tests.interop.support.members import Flock
from tests.interop.support.rebalances import last_rebalance, rebalances
from tests.interop.support.scenes.failover import CONTROL, GROUP, KILLED_S_MAX, PARTITIONS, TOPIC, Stage, Trials
from tests.paths import ROOT

DRAINED_S_MAX = 0.1
INSTALL_S = 600
RESTARTS = 2


def run(cluster: KafkaCluster, trials: int) -> list[Trials]:
    """All kinds of trials, `trials` times each, and some rolling restarts."""
    cluster.create_topic(TOPIC, PARTITIONS, rf=1)
    at_rest = Trials("kill -9 of the leader, group at rest", KILLED_S_MAX)
    rebalancing = Trials("kill -9 of the leader, members joining (until all is owned)", KILLED_S_MAX)
    drained = Trials("drain (from the order to the new leader)", DRAINED_S_MAX)
    paused = Trials("SIGSTOP of the leader, then SIGCONT", KILLED_S_MAX)
    rolled = Trials("rolling restart (longest hand-over, from SIGTERM)", DRAINED_S_MAX)
    with InstanceSet(cluster, [GROUP], CONTROL) as instances, Flock(cluster.bootstrap) as flock:
        with LeaderPlace(cluster.bootstrap, GROUP) as member_entry:
            stage = Stage(cluster, instances, flock, member_entry)
            base = last_rebalance(cluster, GROUP).generation
            for _ in range(trials):
                stage.killed_at_rest(at_rest)
                stage.drained(drained)
            for _ in range(trials):
                stage.killed_in_a_rebalance(rebalancing)
            for _ in range(RESTARTS):
                stage.rolled(rolled)
                stage.paused(paused)
        led = rebalances(cluster, GROUP, base)
        print(f"{len(led)} rebalances after the start, {len(strangers(cluster, GROUP, base))} of them led by others")
    return [at_rest, rebalancing, drained, rolled, paused]


@contextmanager
def installed(commit: str) -> Iterator[Path]:
    """The command `bellwether` of this commit, in an environment of its own."""
    with tempfile.TemporaryDirectory(prefix="bellwether-older-") as directory:
        older = Path(directory) / "checkout"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(older), commit], check=True, timeout=INSTALL_S)
        try:
            uv = [str(ROOT / ".venv" / "bin" / "uv"), "sync", "--frozen", "--quiet", "--no-dev"]
            environment = os.environ | {"UV_PROJECT_ENVIRONMENT": str(older / ".venv")}
            subprocess.run(uv, cwd=older, env=environment, check=True, timeout=INSTALL_S)
            yield older / ".venv" / "bin" / "bellwether"
        finally:
            subprocess.run([*git, "remove", "--force", str(older)], check=True, timeout=INSTALL_S)


def run_beside(cluster: KafkaCluster, command: Path, trials: int) -> list[Trials]:
    """The lead passes so often from the instance of this command to one of this commit, and back, either way."""
    cluster.create_topic(TOPIC, PARTITIONS, rf=1)
    kinds = [
        Trials(f"{what}, {way}", promise_s)
        for what, promise_s in (("kill -9 at rest", KILLED_S_MAX), ("drain", DRAINED_S_MAX))
        for way in ("old to new", "new to old")
    ]
    instances = InstanceSet(cluster, [GROUP], CONTROL, command=[str(command)])
    with instances, Flock(cluster.bootstrap) as flock, LeaderPlace(cluster.bootstrap, GROUP) as place:
        stage, older = Stage(cluster, instances, flock, place), instances.processes[0]
        since = last_rebalance(cluster, GROUP).generation
        for kind, act in ((kinds[:2], stage.killed_at_rest), (kinds[2:], stage.drained)):
            while any(len(each.took_s) < trials for each in kind):
                act(kind[instances.leader(GROUP) is not older])
        led_by_others = strangers(cluster, GROUP, since)
    kinds[0].broken += [f"led by {rebalance.leader}" for rebalance in led_by_others]
    return kinds


def judged(all_trials: list[Trials]) -> int:
    """Prints all trials; returns the exit code."""
    shown = Table(title=f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for column in ("what", "trials", "median", "longest", "promised", "broken"):
        shown.add_column(column)
    for t in all_trials:
        took = [f"{seconds:.3f} s" for seconds in (median(t.took_s), max(t.took_s))] if t.took_s else ["-", "-"]
        shown.add_row(t.name, str(len(t.took_s)), *took, f"{t.promise_s:.1f} s", "; ".join(t.broken) or "none")
    Console(width=140).print(shown)
    return 0 if all(t.passed() for t in all_trials) else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--older", metavar="COMMIT", help="of one of two instances")
    arguments = parser.parse_args()
    with KafkaCluster() as cluster, ExitStack() as stack:
        if arguments.older is None:
            return judged(run(cluster, arguments.trials))
        command = stack.enter_context(installed(arguments.older))
        return judged(run_beside(cluster, command, arguments.trials))


if __name__ == "__main__":
    sys.exit(main())
