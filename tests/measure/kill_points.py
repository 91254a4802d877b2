"""`python -m tests.measure.kill_points`: kill -9 of the sidecar at each step of a round, SIGTERM, a bug of ours, and
the end of the coordinator node at each step, on three real brokers with Java members. Exit code 1 if a promise was
broken.

What a death may cost is our session timeout, and then what the same round takes among the members themselves, which is
measured first. With a standby it is three beats and a bit.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.interop.support.bellwether import INSTANCE, Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.instances import InstanceSet
from tests.interop.support.members import Flock, Member, double_ownership, partitions_of, wait_settled, wait_until
from tests.interop.support.raw import RawError, describe
from tests.interop.support.rebalances import Rebalance, last_rebalance, rebalances
from tests.measure.killed_at import POINTS

TOPIC, PARTITIONS = "kill-points", 12
SESSION_S = 6.0
# Beats are a second apart, and the third in a row that does not come is the alarm; one more for what follows.
STANDBY_S = 4.0
LEAVE_S = 2.0  # how long a LeaveGroup may take before we go without its answer
OPTIONS = {
    "session_timeout_ms": 6_000,
    "heartbeat_interval_ms": 500,
    "decision_deadline_ms": 2_000,
}
SHORTEST_ASSIGNMENT = 10
LIMIT_S = 60.0
HOW = {"kill": "kill -9", "term": "SIGTERM", "break": "a bug"}
MARGIN_S = 1.0  # of a machine that is busy with brokers, a JVM and us
# A node's death is noticed by its clients when it does not come back on its connection, and its groups are loaded
# elsewhere; the session timeout that the next coordinator node grants begins then.
NODE_S = 30.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one death cost: seconds until every partition had an owner again, and what should not have been."""

    point: str
    what: str
    took_s: float
    promised_s: float
    led_by: str
    broken: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.broken and self.took_s <= self.promised_s


class Group:
    """A group with two Java members at rest; a third one joins, or leaves, to begin a round."""

    def __init__(self, cluster: KafkaCluster, flock: Flock, name: str) -> None:
        self.cluster, self.flock, self.name = cluster, flock, name
        self.members: list[Member] = []

    def start(self) -> None:
        self.members = [self.member(), self.member()]
        self.settle()

    def member(self) -> Member:
        return self.flock.member("java", self.name, [TOPIC], ["range"])

    def settle(self, quiet_s: float = 0.3) -> None:
        wait_settled(self.members, partitions_of({TOPIC: PARTITIONS}), spread=0, limit_s=LIMIT_S, quiet_s=quiet_s)

    def owned(self) -> bool:
        held = [tp for member in self.members for tp in member.owned()]
        return len(held) == PARTITIONS == len(set(held)) and all(member.owned() for member in self.members)

    def until_owned(self, since: float) -> float:
        wait_until(self.owned, LIMIT_S, lambda: f"{self.name}: {[(m.name, len(m.owned())) for m in self.members]}")
        return time.monotonic() - since

    def last(self) -> Rebalance:
        return last_rebalance(self.cluster, self.name)

    def trouble(self) -> tuple[str, ...]:
        """What no death may cause: an assignment without bytes, an error in a member, a partition held twice."""
        try:
            described = describe(self.cluster.bootstrap, self.name).members
        except (RawError, OSError):
            described = ()
        short = [m.member_id for m in described if len(m.assignment) < SHORTEST_ASSIGNMENT]
        found = [f"zero-byte assignment of {member}" for member in short]
        found += [error for member in self.members for error in member.errors]
        return (*found, *double_ownership(self.members))

    def close(self) -> None:
        for member in self.members:
            member.stop()


def plain_rebalance(
    cluster: KafkaCluster, flock: Flock, name: str = "points-alone", *, kind: type[Group] = Group
) -> float:
    """Seconds from the call to join until every partition has its owner, among members alone."""
    group = kind(cluster, flock, name)
    group.start()
    began = time.monotonic()
    group.members.append(group.member())
    took = group.until_owned(began)
    group.close()
    return took


def killed(
    cluster: KafkaCluster, flock: Flock, point: str, ordinary_s: float, *, standby: bool, how: str = "kill"
) -> Outcome:
    """kill -9, SIGTERM or a bug (`how`: break) at one point; with or without another sidecar that stands by."""
    group = Group(cluster, flock, f"points-{point}-{how}-{'standby' if standby else 'alone'}")
    with armed(cluster, group.name, point, how, standby=standby) as (instance, trigger):
        group.start()
        generation = group.last().generation
        at_rest = point in ("stable", "leaving")
        trigger.touch()
        if point == "leaving":
            instance.terminate()
        elif not at_rest:
            group.members.append(group.member())
        wait_until(Path(f"{trigger}.reached").exists, LIMIT_S, instance.tail)
        began = time.monotonic()
        if at_rest:  # nobody misses us until somebody comes
            group.members.append(group.member())
        took = group.until_owned(began)
        code = instance.wait_for_end(LIMIT_S)
        group.settle()
        bound = LEAVE_S if how != "kill" else STANDBY_S if standby else SESSION_S
        strangers = [r for r in rebalances(cluster, group.name, generation) if not r.leader.startswith(f"{INSTANCE}-")]
        broken = (*group.trouble(), *(f"led by {r.leader}" for r in strangers if standby))
        broken += (f"exit code {code}",) if how == "term" and code else ()
        outcome = Outcome(
            point,
            f"{HOW[how]}, {'a standby waits' if standby else 'alone'}",
            took,
            bound + ordinary_s + MARGIN_S,
            "a sidecar" if group.last().leader.startswith(f"{INSTANCE}-") else "a member",
            broken,
        )
        group.close()
    return outcome


def coordinator_killed(cluster: KafkaCluster, flock: Flock, point: str, how: str = "kill") -> Outcome:
    """kill -9 or the orderly end (`how`: stop) of the node that coordinates the group, while the sidecar is at one
    point; then that node comes back."""
    group = Group(cluster, flock, f"node-{point}-{how}")
    with armed(cluster, group.name, point, "hold", standby=False) as (instance, trigger):
        group.start()
        node = cluster.coordinator_node(group.name)
        trigger.touch()
        if point == "leaving":
            instance.terminate()
        elif point != "stable":
            group.members.append(group.member())
        wait_until(Path(f"{trigger}.reached").exists, LIMIT_S, instance.tail)
        began = time.monotonic()
        (cluster.kill_node if how == "kill" else cluster.stop_node)(node)
        try:
            if point in ("stable", "leaving"):
                group.members.append(group.member())
            took = group.until_owned(began)
        finally:
            cluster.start_node(node)
        group.settle(quiet_s=1.0)
        leader = group.last().leader
        outcome = Outcome(
            point,
            "coordinator node",
            took,
            NODE_S,
            "a sidecar" if leader.startswith(f"{INSTANCE}-") else "a member",
            group.trouble(),
        )
        group.close()
    return outcome


@contextmanager
def armed(
    cluster: KafkaCluster, group: str, point: str, how: str, *, standby: bool
) -> Iterator[tuple[Bellwether, Path]]:
    """A sidecar that does what `how` says at this point once the file exists."""
    with tempfile.TemporaryDirectory(prefix="bellwether-point-") as directory:
        trigger = Path(directory) / "trigger"
        command = (sys.executable, "-m", "tests.measure.killed_at", point, how, str(trigger))
        if standby:
            with InstanceSet(cluster, [group], f"{group}-control", command=command, options=OPTIONS) as both:
                yield both.processes[0], trigger
        else:
            with Bellwether(cluster, [group], command=command, options=OPTIONS) as alone:
                yield alone, trigger


def run(cluster: KafkaCluster, points: Sequence[str], node_points: Sequence[str], how: Sequence[str]) -> list[Outcome]:
    cluster.create_topic(TOPIC, PARTITIONS, rf=3)
    with Flock(cluster.bootstrap) as flock:
        ordinary_s = max(plain_rebalance(cluster, flock) for _ in range(2))
        # A static leader with a standby does not leave on SIGTERM: it hands over.
        early = [point for point in points if point != "leaving"]
        each = [
            *(("kill", False, point) for point in points),
            *(("kill", True, point) for point in early),
            *(("term", False, point) for point in early),
            *(("break", True, point) for point in early),
        ]
        trials: list[partial[Outcome]] = [
            *(partial(killed, cluster, flock, p, ordinary_s, standby=s, how=h) for h, s, p in each if h in how),
            *(partial(coordinator_killed, cluster, flock, p) for p in node_points),
        ]
        found = []
        for trial in trials:
            try:
                found.append(trial())
            except AssertionError as late:
                p, what = str(trial.args[2]), trial.func.__name__
                found.append(Outcome(p, what, LIMIT_S, 0.0, "nobody", (str(late)[:300],)))
            print(found[-1], flush=True)
        return found


def table(outcomes: Sequence[Outcome]) -> Table:
    shown = Table(title=f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for column in ("killed at", "what", "all owned after", "promised", "then led by", "broken"):
        shown.add_column(column)
    for o in outcomes:
        row = (o.point, o.what, f"{o.took_s:.2f} s", f"{o.promised_s:.1f} s", o.led_by, "; ".join(o.broken) or "none")
        shown.add_row(*row)
    return shown


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", nargs="*", default=list(POINTS))
    parser.add_argument("--how", nargs="*", default=list(HOW))
    parser.add_argument("--node-points", nargs="*", default=list(POINTS))
    arguments = parser.parse_args()
    with KafkaCluster() as cluster:
        found = run(cluster, arguments.points, arguments.node_points, arguments.how)
    Console(width=140).print(table(found))
    return 0 if all(outcome.passed for outcome in found) else 1


if __name__ == "__main__":
    sys.exit(main())
