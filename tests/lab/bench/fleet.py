"""`python -m tests.lab.bench.fleet`: the cost of leading hundreds of groups in one process, or one of 2,000.

Brokers, members and wires are those of the simulator, and so is time; the service is the real one. One processor
carries out all work of Bellwether: what a step of it takes here in CPU time passes there, and what comes meanwhile
waits. So late heartbeats show. Sockets are not in it: `make bench-live` has them, with fewer groups.
"""

import argparse
import gc
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from bellwether_kafka.coordinator.membership import JoinAnswer, MembershipConfig
from bellwether_kafka.coordinator.planning import MESSAGE_BYTES_MAX
from bellwether_kafka.coordinator.planning.inspection import RECORD_SHARE
from tests.lab.bench.report import Figures, figure, percentiles, print_and_save
from tests.simulation.brokers.topics import Topics
from tests.simulation.instance import Instance, Server
from tests.simulation.members import COOPERATIVE, Member
from tests.simulation.world import INSTANCE, TOPIC, World

GROUPS, MEMBERS, PARTITIONS = 500, 3, 30
LARGE_MEMBERS, LARGE_PARTITIONS = 2_000, 20_000
LEAD_S, SETTLE_S, QUIET_S = 10.0, 60.0, 60.0
WEIGHED = 100  # groups whose objects are counted, which is slow
OWN = ("*/assignors/*", "*/protocol/*", "*/coordinator/*")


class Led(World):
    """One group with its brokers and members, which Bellwether leads from the beginning. `heartbeats` are the times of
    Bellwether's heartbeats, `shares` the seconds from each JoinGroup answered to SyncGroup sent."""

    def __init__(self, seed: int, members: int, partitions: int, beside: "Led | None") -> None:
        super().__init__(seed, beside=beside)
        self.flock, self.subscribed = "cooperative", (TOPIC,)
        if beside is None:
            self.topics = Topics(self.clock, self.rng, {})
            self.topics.change({TOPIC: partitions})
            self.servers[:] = [Server(INSTANCE, computes=True)]
        self.config = MembershipConfig(group_id=self.group, instance_id=INSTANCE, subscribes=True)
        self.members = [Member(self, f"{self.group}m{number}", COOPERATIVE, None) for number in range(members)]
        self.leader = Instance(self, self.servers[0], self.config)
        self.instances = [self.leader]
        self.hostile = []
        self.heartbeats: list[float] = []
        self.shares: list[float] = []
        self._joined_at = 0.0
        self.checks.worked = self._worked  # type: ignore[method-assign]  # the same, with the time

    def answered(self, answer: Any) -> None:
        if isinstance(answer, JoinAnswer):
            self._joined_at = self.clock.now

    def sent(self, plan: tuple[tuple[str, bytes], ...]) -> None:
        self.shares.append(self._now() - self._joined_at)
        super().sent(plan)

    def _worked(self, kind: str) -> None:
        if kind == "Heartbeat":
            self.heartbeats.append(self._now())

    def _turned(self) -> None:
        """Promises are for others to check."""

    def _now(self) -> float:
        """Virtual time, that of the work under way included."""
        running = self.servers[0].running
        return self.clock.now + (running.under_way_s if running is not None else 0.0)

    @property
    def settled(self) -> bool:
        """Every partition is owned, and once."""
        owned = [partition for member in self.members if member.running for partition in member.owned]
        return len(owned) == len(set(owned)) == self.partitions and self.leader.leads


class Fleet:
    """So many groups in one process. To be entered and left, as the world of the first one."""

    def __init__(self, groups: int, members: int, partitions: int) -> None:
        self.first = Led(0, members, partitions, None)
        self.worlds = [self.first, *(Led(seed, members, partitions, self.first) for seed in range(1, groups))]
        self.clock = self.first.clock

    @property
    def spent_s(self) -> float:
        """The processor's time that the process has taken."""
        return sum(process.spent_s for process in self.first.processes_run)

    def settle(self) -> None:
        """Bellwether comes first, then all members but the last of each group."""
        self.first.leader.start()
        self.pass_time(LEAD_S)
        self._spread([member.start for world in self.worlds for member in world.members[:-1]])
        self.pass_time(SETTLE_S)
        self.check()

    def join(self) -> float:
        """One more member for every group, all in one second. Returns the virtual seconds until all are settled."""
        began = self.clock.now
        self._spread([world.members[-1].start for world in self.worlds])
        self.pass_time(1.0)
        while not all(world.settled for world in self.worlds):
            assert self.clock.now < began + SETTLE_S, "the groups do not settle"
            self.pass_time(0.1)
        return self.clock.now - began

    def check(self) -> None:
        unsettled = sum(not world.settled for world in self.worlds)
        assert not unsettled, f"{unsettled} groups are not settled"

    def pass_time(self, seconds: float) -> None:
        self.first.run_until(self.clock.now + seconds)

    def heartbeats_since(self, when: float) -> list[float]:
        """Milliseconds between the heartbeats of each group, sorted."""
        times = [[at for at in world.heartbeats if at >= when] for world in self.worlds]
        return sorted((b - a) * 1e3 for of_group in times for a, b in pairwise(of_group))

    def forget_shares(self) -> None:
        for world in self.worlds:
            world.shares.clear()

    @property
    def shares(self) -> list[float]:
        """Milliseconds, sorted."""
        return sorted(share * 1e3 for world in self.worlds for share in world.shares)

    def _spread(self, works: Sequence[Callable[[], None]]) -> None:
        """Over one second."""
        for number, work in enumerate(works):
            self.clock.after(number / len(works), work)

    @property
    def record_bytes(self) -> int:
        """What the broker has written of the first group."""
        record = self.worlds[0].broker.record
        assert record is not None
        return sum(
            len(member_entry.metadata(record.protocol))
            + len(member_entry.assignment)
            + len(member_entry.member_id)
            + len(member_entry.client_id)
            for member_entry in record.member_entries
        )


def many(groups: int) -> Iterator[Figures]:
    fleet = Fleet(groups, MEMBERS, PARTITIONS)
    with fleet.first:
        yield from _measured(fleet, groups)


def _measured(fleet: Fleet, groups: int) -> Iterator[Figures]:
    fleet.settle()
    spent, began = fleet.spent_s, fleet.clock.now
    fleet.pass_time(QUIET_S)
    core = (fleet.spent_s - spent) / QUIET_S
    gaps = fleet.heartbeats_since(began)
    size = f"{groups} groups with {MEMBERS} members and {PARTITIONS} partitions each"
    yield figure(
        f"simulated: {size}, {QUIET_S:.0f} quiet seconds",
        f"between heartbeats {percentiles(gaps)} ms; {core:.2%} of a core without sockets, {core / groups:.4%} a group;"
        f" {_kilobytes(min(groups, WEIGHED)):.0f} KB of Python objects a group",
    )
    fleet.forget_shares()
    spent, began = fleet.spent_s, fleet.clock.now
    settled_s = fleet.join()
    work_s = fleet.spent_s - spent
    yield figure(
        f"simulated: {size}, a member joins all of them within a second",
        f"all settled after {settled_s:.1f} s; leader's share {percentiles(fleet.shares)} ms, {len(fleet.shares)}"
        f" rebalances, {work_s:.2f} s of work; between heartbeats {percentiles(fleet.heartbeats_since(began))} ms",
    )


def _kilobytes(groups: int) -> float:
    """Returns the size of the product's Python objects per group. In a run of its own: counting them is slow."""
    tracemalloc.start()
    try:
        fleet = Fleet(groups, MEMBERS, PARTITIONS)
        gc.collect()
        before = _own_bytes()
        with fleet.first:
            fleet.settle()
            gc.collect()
            return (_own_bytes() - before) / 1024 / groups
    finally:
        tracemalloc.stop()


def _own_bytes() -> int:
    own = [tracemalloc.Filter(True, pattern) for pattern in OWN]
    return sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces(own).traces)


def large() -> Figures:
    fleet = Fleet(1, LARGE_MEMBERS, LARGE_PARTITIONS)
    with fleet.first:
        fleet.settle()
        fleet.forget_shares()
        began = fleet.clock.now
        settled_s = fleet.join()
    return figure(
        f"simulated: one group of {LARGE_MEMBERS:,} members and {LARGE_PARTITIONS:,} partitions, a member joins",
        f"settled after {settled_s:.1f} s; leader's share {percentiles(fleet.shares)} ms, {len(fleet.shares)}"
        f" rebalances; between heartbeats {percentiles(fleet.heartbeats_since(began))} ms; group record"
        f" {fleet.record_bytes / 1024:,.0f} KB of {MESSAGE_BYTES_MAX * RECORD_SHARE / 1024:,.0f} KB allowed",
    )


def main() -> int:
    argparse.ArgumentParser(prog="python -m tests.lab.bench.fleet", description=__doc__).parse_args()
    for row in many(GROUPS):
        print_and_save(row)
    print_and_save(large())
    return 0


if __name__ == "__main__":
    sys.exit(main())
