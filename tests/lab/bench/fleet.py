"""`python -m tests.lab.bench.fleet`: the cost of leading hundreds of groups in one process, or one of 2,000.

Brokers, members and wires are those of the simulator, and so is time; membership machine, plans and gate are the real
ones. One processor carries out all work of Bellwether: what a piece of it takes here in CPU time passes there, and what
comes meanwhile waits. So late heartbeats show. Sockets are not in it: `make bench-live` has them, with fewer groups.
"""

import argparse
import gc
import sys
import time
import tracemalloc
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.membership import MembershipConfig
from bellwether_kafka.coordinator.planning import MESSAGE_BYTES_MAX
from bellwether_kafka.coordinator.planning.inspection import RECORD_SHARE
from tests.lab.bench.report import Figures, figure, percentiles, print_and_save
from tests.simulation.brokers.topics import Topics
from tests.simulation.clock import Clock
from tests.simulation.instance import Instance
from tests.simulation.members import COOPERATIVE, Member
from tests.simulation.world import INSTANCE, TOPIC, World

GROUPS, MEMBERS, PARTITIONS = 500, 3, 30
LARGE_MEMBERS, LARGE_PARTITIONS = 2_000, 20_000
LEAD_S, SETTLE_S, QUIET_S = 10.0, 60.0, 60.0
WEIGHED = 100  # groups whose objects are counted, which is slow
OWN = ("*/assignors/*", "*/protocol/*", "*/coordinator/*")


class Processor:
    """The processor of the process: work is done in the order in which it came. `spent_s` is what all has taken."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.spent_s = 0.0
        self._since: float | None = None
        self.free_at = 0.0
        self._waiting: deque[Callable[[], None]] = deque()

    @property
    def now(self) -> float:
        """Virtual time, that of the work under way included."""
        return self.clock.now + (0.0 if self._since is None else time.thread_time() - self._since)

    def when_free(self, work: Callable[[], None]) -> None:
        """Does it now, or after all that is under way and waits."""
        self._waiting.append(work)
        if len(self._waiting) == 1 and self._since is None:
            self.clock.at(self.free_at, self._serve)

    def _serve(self) -> None:
        work = self._waiting.popleft()
        self._since = time.thread_time()
        try:
            work()
        finally:
            spent = time.thread_time() - self._since
            self._since = None
            self.spent_s += spent
            self.free_at = self.clock.now + spent
        if self._waiting:
            self.clock.at(self.free_at, self._serve)


class Leader(Instance):
    """A membership of the process. `heartbeats` are the times of its heartbeats, `shares` the seconds from each
    JoinGroup answered to SyncGroup sent."""

    def __init__(self, world: World, config: MembershipConfig, processor: Processor) -> None:
        super().__init__(world, INSTANCE, config)
        self.processor = processor
        self.heartbeats: list[float] = []
        self.shares: list[float] = []
        self._joined_at = 0.0
        self._queued = False  # events that have come are handled together

    def post(self, event: membership.Event) -> None:
        if isinstance(event, membership.JoinAnswer):
            self._joined_at = self.world.clock.now
        super().post(event)

    def _pump(self) -> None:
        if not self._queued:
            self._queued = True
            self.processor.when_free(self.alive(self._pump_now))

    def _pump_now(self) -> None:
        self._queued = False
        super()._pump()

    def _decide(self, command: membership.Decide) -> None:
        self.processor.when_free(self.alive(lambda: self._plan(command)))

    def _send(self, command: membership.Request) -> None:
        if isinstance(command, membership.Heartbeat):
            self.heartbeats.append(self.processor.now)
        elif isinstance(command, membership.Sync) and command.assignments:
            self.shares.append(self.processor.now - self._joined_at)
        super()._send(command)


class Led(World):
    """One group with its brokers and members, which Bellwether leads from the beginning; nothing of it is printed."""

    def __init__(self, seed: int, processor: Processor, members: int, partitions: int) -> None:
        super().__init__(seed, processor.clock)
        self.flock, self.subscribed = "cooperative", (TOPIC,)
        self.topics = Topics(self.clock, self.rng, {})
        self.topics.change({TOPIC: partitions})
        self.config = MembershipConfig(group_id="g", instance_id=INSTANCE, subscribes=True)
        self.members = [Member(self, f"m{number}", COOPERATIVE, None) for number in range(members)]
        self.leader = Leader(self, self.config, processor)
        self.instances = [self.leader]

    def print_result(self, text: str) -> None:
        del text

    @property
    def settled(self) -> bool:
        """Every partition is owned, and once."""
        owned = [partition for member in self.members if member.running for partition in member.owned]
        return len(owned) == len(set(owned)) == self.partitions and self.leader.leads


class Fleet:
    """So many groups on one clock and one processor."""

    def __init__(self, groups: int, members: int, partitions: int) -> None:
        self.clock = Clock()
        self.processor = Processor(self.clock)
        self.worlds = [Led(seed, self.processor, members, partitions) for seed in range(groups)]

    def settle(self) -> None:
        """Bellwether comes first, then all members but the last of each group."""
        self._spread([world.leader.start for world in self.worlds])
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
        until = self.clock.now + seconds
        while self.clock.now < until:
            self.clock.step(until)

    def heartbeats_since(self, when: float) -> list[float]:
        """Milliseconds between the heartbeats of each group, sorted."""
        times = [[at for at in world.leader.heartbeats if at >= when] for world in self.worlds]
        return sorted((b - a) * 1e3 for of_group in times for a, b in pairwise(of_group))

    def forget_shares(self) -> None:
        for world in self.worlds:
            world.leader.shares.clear()

    @property
    def shares(self) -> list[float]:
        """Milliseconds, sorted."""
        return sorted(share * 1e3 for world in self.worlds for share in world.leader.shares)

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
    fleet.settle()
    spent, began = fleet.processor.spent_s, fleet.clock.now
    fleet.pass_time(QUIET_S)
    core = (fleet.processor.spent_s - spent) / QUIET_S
    gaps = fleet.heartbeats_since(began)
    size = f"{groups} groups with {MEMBERS} members and {PARTITIONS} partitions each"
    yield figure(
        f"simulated: {size}, {QUIET_S:.0f} quiet seconds",
        f"between heartbeats {percentiles(gaps)} ms; {core:.2%} of a core without sockets, {core / groups:.4%} a group;"
        f" {_kilobytes(min(groups, WEIGHED)):.0f} KB of Python objects a group",
    )
    fleet.forget_shares()
    spent, began = fleet.processor.spent_s, fleet.clock.now
    settled_s = fleet.join()
    work_s = fleet.processor.spent_s - spent
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
