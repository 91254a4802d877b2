"""`python -m tests.measure.mixed_versions COMMIT --trials 20`: an instance of an older commit and one of this commit
stand by for each other in one group, on a real broker with Java members. The lead passes so often from each to the
other, by kill -9 and by a drain. Exit code 1 if a member noticed, or if it took longer than it may with two instances
of one version.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.instances import InstanceSet, LeaderPlace, strangers
from tests.interop.support.members import Flock
from tests.interop.support.rebalances import last_rebalance
from tests.interop.support.scenes.failover import CONTROL, GROUP, KILLED_S_MAX, PARTITIONS, TOPIC, Stage, Trials
from tests.measure.failover import DRAINED_S_MAX, table
from tests.paths import ROOT

INSTALL_S = 600


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


def run(cluster: KafkaCluster, command: Path, trials: int) -> list[Trials]:
    cluster.create_topic(TOPIC, PARTITIONS, rf=1)
    found = [
        Trials(f"{what}, {way}", promise_s)
        for what, promise_s in (("kill -9 at rest", KILLED_S_MAX), ("drain", DRAINED_S_MAX))
        for way in ("old to new", "new to old")
    ]
    instances = InstanceSet(cluster, [GROUP], CONTROL, command=[str(command)])
    with instances, Flock(cluster.bootstrap) as flock, LeaderPlace(cluster.bootstrap, GROUP) as place:
        stage, older = Stage(cluster, instances, flock, place), instances.processes[0]
        since = last_rebalance(cluster, GROUP).generation
        for kind, act in ((found[:2], stage.killed_at_rest), (found[2:], stage.drained)):
            while any(len(each.took_s) < trials for each in kind):
                act(kind[instances.leader(GROUP) is not older])
        led_by_others = strangers(cluster, GROUP, since)
    found[0].broken += [f"led by {rebalance.leader}" for rebalance in led_by_others]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.measure.mixed_versions", description=__doc__)
    parser.add_argument("commit", help="the older one")
    parser.add_argument("--trials", type=int, default=20, help="of each kind, each way")
    arguments = parser.parse_args()
    with installed(arguments.commit) as command, KafkaCluster() as cluster:
        found = run(cluster, command, arguments.trials)
    Console(width=140).print(table(found))
    return 0 if all(trials.passed() for trials in found) else 1


if __name__ == "__main__":
    sys.exit(main())
