"""`python -m tests.measure.failover --trials 20`: how fast and how quietly the lead passes between sidecars, on real
brokers with Java members, which would lead if nobody of ours did. Exit code 1 if a promise was broken.
"""

import argparse
import os
import signal
import sys
import time
from dataclasses import dataclass, field
from statistics import median

from rich.console import Console
from rich.table import Table

from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.instances import ACQUAINTED_S, InstanceSet, LeaderPlace, strangers, timed
from tests.interop.support.members import Flock, Member, partitions_of, wait_settled, wait_until
from tests.interop.support.rebalances import last_rebalance, rebalances

GROUP, TOPIC, CONTROL = "failover", "failover", "failover-control"
PARTITIONS = 12
SESSION_S = 10.0
KILLED_S_MAX = SESSION_S + 1.0
DRAINED_S_MAX = 0.1
SETTLE_S = 60.0


@dataclass(slots=True)
class Trials:
    """One kind of trial: how long each took, and what should not have been."""

    name: str
    promise_s: float
    took_s: list[float] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    def passed(self) -> bool:
        return not self.broken and all(took <= self.promise_s for took in self.took_s)


class Stage:
    """Two sidecars and two Java members in one group, at rest."""

    def __init__(self, cluster: KafkaCluster, instances: InstanceSet, flock: Flock, member_entry: LeaderPlace) -> None:
        self.cluster, self.instances, self.flock, self.member_entry = cluster, instances, flock, member_entry
        self.members = [self._member(), self._member()]
        self.settle()

    def settle(self) -> None:
        wait_settled(self.members, partitions_of({TOPIC: PARTITIONS}), limit_s=SETTLE_S, quiet_s=0.3)

    def killed_at_rest(self, trials: Trials) -> None:
        """kill -9 of the leader while nothing happens; the group must not notice."""
        generation, seen = last_rebalance(self.cluster, GROUP).generation, self._seen()
        holder, leader = self.member_entry.holder, self.instances.leader(GROUP)
        began = timed(leader.kill)
        trials.took_s.append(self.member_entry.next_holder(holder, KILLED_S_MAX + 10) - began)
        time.sleep(0.5)
        if rebalances(self.cluster, GROUP, generation) or self._seen() != seen:
            trials.broken.append("members noticed")
        first = next(p for p in self.instances.processes if p is not leader)
        if self.instances.leader(GROUP) is not first:
            trials.broken.append("not the first standby by id took over")
        self._back(leader)

    def killed_in_a_rebalance(self, trials: Trials) -> None:
        """kill -9 while members join; the time is until every partition has an owner again."""
        generation = last_rebalance(self.cluster, GROUP).generation
        holder, leader = self.member_entry.holder, self.instances.leader(GROUP)
        late = self._member()
        wait_until(lambda: self.member_entry.state != "Stable", 20, lambda: "no rebalance has begun")
        began = timed(leader.kill)
        self.member_entry.next_holder(holder, KILLED_S_MAX + 10)
        self.members.append(late)
        wait_until(self._all_owned, SETTLE_S, self.instances.tails)
        trials.took_s.append(time.monotonic() - began)
        trials.broken += [f"led by {r.leader}" for r in strangers(self.cluster, GROUP, generation)]
        self._back(leader)
        self.members.pop().stop()
        self.settle()

    def drained(self, trials: Trials) -> None:
        """An order to drain: from its sending to another member id in our seat."""
        generation, seen = last_rebalance(self.cluster, GROUP).generation, self._seen()
        holder = self.member_entry.holder
        began = self.instances.drain()
        trials.took_s.append(self.member_entry.next_holder(holder, 20) - began)
        time.sleep(0.5)
        if rebalances(self.cluster, GROUP, generation) or self._seen() != seen:
            trials.broken.append("members noticed")
        time.sleep(ACQUAINTED_S)

    def paused(self, trials: Trials) -> None:
        """SIGSTOP until another one leads, then SIGCONT: the paused one must find itself fenced and stand by."""
        generation, seen = last_rebalance(self.cluster, GROUP).generation, self._seen()
        holder, leader = self.member_entry.holder, self.instances.leader(GROUP)
        released = len(leader.log("lead_released"))
        os.kill(leader.pid, signal.SIGSTOP)
        began = time.monotonic()
        try:
            trials.took_s.append(self.member_entry.next_holder(holder, KILLED_S_MAX + 10) - began)
        finally:
            os.kill(leader.pid, signal.SIGCONT)
        wait_until(lambda: len(leader.log("lead_released")) > released, 20, leader.tail)
        time.sleep(ACQUAINTED_S)
        if rebalances(self.cluster, GROUP, generation) or self._seen() != seen:
            trials.broken.append("members noticed")

    def rolled(self, trials: Trials) -> None:
        """Every sidecar is stopped and started, one after the other; the time is the longest hand-over."""
        generation, seen = last_rebalance(self.cluster, GROUP).generation, self._seen()
        took = 0.0
        for process in self.instances.processes:
            holder, leads = self.member_entry.holder, process is self.instances.leader(GROUP)
            began = time.monotonic()
            code = process.stop()
            if code:
                trials.broken.append(f"exit code {code}")
            if leads:
                this = self.member_entry.next_holder(holder, 20) - began
                took = max(took, this)
                if this > trials.promise_s:
                    print(f"{this:.3f} s from {time.time() - (time.monotonic() - began):.3f}", self.instances.tails())
            self.instances.start(process)
            time.sleep(ACQUAINTED_S)
        trials.took_s.append(took)
        if rebalances(self.cluster, GROUP, generation) or self._seen() != seen:
            trials.broken.append("members noticed")

    def _all_owned(self) -> bool:
        owned = [tp for member in self.members for tp in member.owned()]
        return len(owned) == PARTITIONS == len(set(owned)) and all(member.owned() for member in self.members)

    def _back(self, process: object) -> None:
        (dead,) = [p for p in self.instances.processes if p is process]
        self.instances.start(dead)
        time.sleep(ACQUAINTED_S)

    def _seen(self) -> list[int]:
        return [len(member.events) for member in self.members]

    def _member(self) -> Member:
        return self.flock.member("java", GROUP, [TOPIC], ["range"])


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
        print(f"{len(led)} rounds after the start, {len(strangers(cluster, GROUP, base))} of them led by others")
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
