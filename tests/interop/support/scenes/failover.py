"""Instances of Bellwether that stand by for one another on real brokers, beside Java members, which would lead if no
instance did: how fast and how quietly the lead passes between them. `make failover` measures it many times.
"""

import os
import signal
import time
from dataclasses import dataclass, field

from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.instances import ACQUAINTED_S, InstanceSet, LeaderPlace, strangers, timed
from tests.interop.support.members import Flock, Member, partitions_of, wait_settled, wait_until
from tests.interop.support.rebalances import last_rebalance, rebalances

GROUP, TOPIC, CONTROL = "failover", "failover", "failover-control"
PARTITIONS = 12
SESSION_S = 10.0
KILLED_S_MAX = SESSION_S + 1.0
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
    """Two instances and two Java members in one group, at rest."""

    def __init__(self, cluster: KafkaCluster, instances: InstanceSet, flock: Flock, member_entry: LeaderPlace) -> None:
        self.cluster, self.instances, self.flock, self.member_entry = cluster, instances, flock, member_entry
        self.members = [self._member(), self._member()]
        self.settle()

    def settle(self) -> None:
        wait_settled(self.members, partitions_of({TOPIC: PARTITIONS}), spread=0, limit_s=SETTLE_S, quiet_s=0.3)

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
        """An order to drain: from its sending to another member id under the instance id."""
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
        """Every instance is stopped and started, one after the other; the time is the longest hand-over."""
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
