"""kill -9 of Bellwether at each step of a rebalance, SIGTERM, an error of its own, and the end of the coordinator node
at each step, on real brokers with Java members. `make faults` tries them all.

A death may cost the session timeout of Bellwether, and then what the same rebalance takes among the members themselves,
which is measured first. With a standby it costs three missed heartbeats and a little more.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.interop.support.bellwether import INSTANCE, Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.instances import InstanceSet
from tests.interop.support.members import Flock, Member, partitions_of, wait_settled, wait_until
from tests.interop.support.ownership import double_ownership
from tests.interop.support.raw import RawError, describe
from tests.interop.support.rebalances import Rebalance, last_rebalance, rebalances
from tests.interop.support.scenes.killed_at import KILLED_AT

TOPIC, PARTITIONS = "kill-points", 12
SESSION_S = 6.0
# Heartbeats are a second apart, and the third in a row that does not come is the alarm; one more for what follows.
STANDBY_S = 4.0
LEAVE_S = 2.0  # how long a LeaveGroup may take before Bellwether goes without its answer
OPTIONS = {
    "session_timeout_ms": 6_000,
    "heartbeat_interval_ms": 500,
    "decision_deadline_ms": 2_000,
}
SHORTEST_ASSIGNMENT = 10
LIMIT_S = 60.0
HOW = {"kill": "kill -9", "term": "SIGTERM", "break": "a bug"}
MARGIN_S = 1.0  # of a machine that is busy with brokers, a JVM and Bellwether
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


class Group:
    """A group with two Java members at rest; a third one joins, or leaves, to begin a rebalance."""

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
        partitions = [tp for member in self.members for tp in member.owned()]
        return len(partitions) == PARTITIONS == len(set(partitions)) and all(member.owned() for member in self.members)

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
        troubles = [f"zero-byte assignment of {member}" for member in short]
        troubles += [error for member in self.members for error in member.errors]
        return (*troubles, *double_ownership(self.members))

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
    """kill -9, SIGTERM or a bug (`how`: break) at one point; with or without a standby instance."""
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
        if at_rest:  # Bellwether is not missed until a member comes
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
            "an instance" if group.last().leader.startswith(f"{INSTANCE}-") else "a member",
            broken,
        )
        group.close()
    return outcome


def coordinator_killed(cluster: KafkaCluster, flock: Flock, point: str, how: str = "kill") -> Outcome:
    """kill -9 or the orderly end (`how`: stop) of the node that coordinates the group, while the instance is at one
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
            "an instance" if leader.startswith(f"{INSTANCE}-") else "a member",
            group.trouble(),
        )
        group.close()
    return outcome


@contextmanager
def armed(
    cluster: KafkaCluster, group: str, point: str, how: str, *, standby: bool
) -> Iterator[tuple[Bellwether, Path]]:
    """An instance that does what `how` says at this point once the file exists."""
    with tempfile.TemporaryDirectory(prefix="bellwether-point-") as directory:
        trigger = Path(directory) / "trigger"
        command = (sys.executable, "-m", KILLED_AT, point, how, str(trigger))
        if standby:
            with InstanceSet(cluster, [group], f"{group}-control", command=command, options=OPTIONS) as both:
                yield both.processes[0], trigger
        else:
            with Bellwether(cluster, [group], command=command, options=OPTIONS) as alone:
                yield alone, trigger
