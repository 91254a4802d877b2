"""Storms: hundreds of consumers that come and die at random, some of them without end, under one instance. What a
rebalance costs Bellwether must not depend on how many they are, nor may rebalances be more than what happened to the
group.

    make storm MEMBERS=1000 SEEDS=3
"""

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial

from tests.simulation.checks import ViolationError
from tests.simulation.members import Member
from tests.simulation.run import SETTLE_S
from tests.simulation.world import World

STORM_S = 180.0
LIFE_S, AWAY_S = 120.0, 20.0  # means
FLAPPING = 0.1  # of the members live LIFE_S / 20
# Of Bellwether in one generation: a join may be repeated on a new connection, and be refused without its member id.
# Heartbeats, and looks at a group that others lead, go by the clock.
WORK_MAX = {"Join": 4, "Sync": 2, "Decide": 2, "Leave": 1, "Evict": 1}
REBALANCE_S_MIN = 5.0  # on average: members that have died are waited for, up to ten seconds


@dataclass
class Weather:
    """What came of one storm."""

    members: int
    flock: str
    events: int = 0  # joins and deaths
    generations: int = 0
    plans: Counter[str] = field(default_factory=Counter)
    work: Counter[str] = field(default_factory=Counter)  # the most in one generation
    longest: dict[str, float] = field(default_factory=dict)
    settled_s: float = 0.0
    violation: str = ""


class Storm:
    """Members of one world, each with lives and absences of exponential length."""

    def __init__(self, seed: int, members: int) -> None:
        self.world = World(seed, crowd=members)
        self.weather = Weather(members, self.world.flock)
        self._over = False

    def run(self) -> Weather:
        try:
            with self.world as world:
                world.instances[0].start()
                world.run_until(5.0)
                for member in world.members:
                    world.clock.after(world.rng.expovariate(10 / STORM_S), partial(self._come, member))
                world.run_until(5.0 + STORM_S)
                self._end_faults()
        except ViolationError as violation:
            self.weather.violation = str(violation)
        self._sum_up()
        return self.weather

    def _end_faults(self) -> None:
        world = self.world
        world.log("---- calm ----")
        self._over = True
        for member in world.members:
            if not member.running:
                member.start()
        began = world.clock.now
        if not world.run_until(
            began + SETTLE_S, lambda: not world.checks.unsettled() and world.checks.bellwether_leads()
        ):
            why = world.checks.unsettled() or "a member leads"
            world.violate(f"not at rest {SETTLE_S:.0f} s after the storm: {why}")
        self.weather.settled_s = world.clock.now - began

    def _come(self, member: Member) -> None:
        if self._over or member.running:
            return
        member.start()
        self.weather.events += 1
        flaps = self.world.more.random() < FLAPPING
        life_s = self.world.rng.expovariate((20 if flaps else 1) / LIFE_S)
        self.world.clock.after(life_s, lambda: self._go(member, member.process))

    def _go(self, member: Member, process: int) -> None:
        if self._over or member.process != process or not member.running:
            return
        self.world.rng.choice((member.crash, member.close))()
        self.weather.events += 1
        self.world.clock.after(self.world.rng.expovariate(1 / AWAY_S), lambda: self._come(member))

    def _sum_up(self) -> None:
        world, weather = self.world, self.weather
        weather.generations = world.broker.group.generation
        weather.plans, weather.longest = world.checks.plans, world.checks.longest
        for work in world.checks.work.values():
            weather.work |= work
        excess = {kind: n for kind, n in weather.work.items() if n > WORK_MAX.get(kind, n)}
        if not weather.violation and excess:
            weather.violation = f"seed {world.seed}: more work in one generation than {WORK_MAX}: {excess}"
        if not weather.violation and weather.generations > world.clock.now / REBALANCE_S_MIN + 10:
            weather.violation = f"seed {world.seed}: {weather.generations} rounds in {world.clock.now:.0f} s"


def line(seed: int, weather: Weather) -> str:
    waits = ", ".join(f"{state} {seconds:.2f} s" for state, seconds in sorted(weather.longest.items()))
    work = ", ".join(f"{kind} {n}" for kind, n in sorted(weather.work.items()))
    return (
        f"seed {seed}: {weather.members} members ({weather.flock}), {weather.events} comings and goings,"
        f" {weather.generations} rounds, {weather.plans['own']} plans of ours; most of us in one generation: {work};"
        f" longest wait for us: {waits};"
        f" at rest {weather.settled_s:.0f} s after it. {weather.violation or 'Every promise was kept.'}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Storms of members that come and go.")
    parser.add_argument("--members", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    failed = False
    for seed in range(options.first, options.first + options.seeds):
        began = time.process_time()
        weather = Storm(seed, options.members).run()
        failed = failed or bool(weather.violation)
        print(f"{line(seed, weather)} CPU {time.process_time() - began:.0f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
