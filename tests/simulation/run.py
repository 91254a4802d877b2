"""One seed from its beginning to its end, and what it did; as a command, the trace of one or a table of many."""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bellwether_kafka.coordinator.membership import MEMBERSHIP, TAKEOVER, Edge, Transitions
from tests.kit.membership import edges, spread_hash, trigger_name
from tests.simulation.applications import INPUT, OTHER, PROBING_MS
from tests.simulation.checks import ViolationError
from tests.simulation.faults import Faults
from tests.simulation.hostile import accept_everything
from tests.simulation.instance import Instance
from tests.simulation.members import Member
from tests.simulation.world import World

CHAOS_S = 600.0
SETTLE_S = 420.0  # a member that died before its first generation keeps its membership for 300 s
ADOPT_S = 900.0  # waits after setbacks double up to 300 s, and are spread by a fifth
QUIET_S = 120.0
REPEAT_AFTER_S = 60.0  # a reason that led to no rebalance is given again after a minute
REST_S = 12.0
STANDBY_S = 9.0  # less than Bellwether's session, after which members would notice
FOLLOW_S = 60.0  # two refreshes of metadata, at most a quiet interval, and a rebalance with its follow-up
NO_ID = "member ids sorts first"  # what Bellwether reports when it gives up
BUCKETS = 16  # of a small group's table
REBALANCES_BEFORE = 20  # members that come back after healing, each in a rebalance of its own and its follow-up


@dataclass
class Result:
    """What one seed, or many, came to."""

    seeds: int = 0
    virtual_s: float = 0.0
    steps: int = 0
    generations: int = 0
    injected: Counter[str] = field(default_factory=Counter)
    plans: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    edges: Counter[Edge[Any]] = field(default_factory=Counter)
    longest: dict[str, float] = field(default_factory=dict)
    bounds: dict[str, float] = field(default_factory=dict)
    roles: dict[str, float] = field(default_factory=dict)  # longest by what was wrong about a role, seconds
    failed: list[str] = field(default_factory=list)
    flocks: Counter[str] = field(default_factory=Counter)
    settled: dict[str, tuple[float, int]] = field(default_factory=dict)  # the longest: seconds, rebalances

    def add(self, world: World) -> None:
        self.seeds += 1
        self.virtual_s += world.clock.now
        self.steps += world.clock.steps
        self.generations += world.broker.group.generation
        self.injected += world.injected
        self.plans += world.checks.plans
        self.notes += world.notes
        self.edges += world.edges
        self.flocks[world.flock] += 1
        self.flocks.update(f"streams, {name}" for name in world.application.names if world.streams)
        self.flocks["with a sidecar that stands by"] += world.config.standby
        self.flocks["with a hostile member"] += bool(world.hostile)
        for what, (seconds, rebalances) in world.rested.items():
            longest_s, most = self.settled.get(what, (0.0, 0))
            self.settled[what] = max(seconds, longest_s), max(rebalances, most)
        for state, seconds in world.checks.longest.items():
            self.longest[state] = max(seconds, self.longest.get(state, 0.0))
            self.bounds[state] = world.checks.bound_s(state)
        for wrong, seconds in world.checks.roles.longest.items():
            self.roles[wrong] = max(seconds, self.roles.get(wrong, 0.0))


def live(world: World) -> None:
    """Safety while things go wrong, then liveness. Raises ViolationError."""
    instances = world.instances if world.config.standby else world.instances[:1]
    starts: list[Member | Instance] = [*world.members, *world.hostile, *instances]
    world.rng.shuffle(starts)
    for number, process in enumerate(starts):
        world.clock.after(number * world.rng.choice((0.01, 1.0, 6.0)), process.start)
    faults = Faults(world, world.rng.choice((3.0, 10.0, 25.0)))
    world.run_until(CHAOS_S)
    faults.heal()
    # A paused process wakes up when it was to: what it has put off until then cannot be withdrawn.
    processes: list[Member | Instance] = [*world.members, *world.instances]
    asleep = (process.paused_until for process in processes)
    world.run_until(max(world.clock.now, *asleep))
    must_settle(world)
    must_lead(world)
    _must_follow(world)
    if world.config.standby:
        _must_wait(world)
    generation = world.broker.group.generation
    world.run_until(world.clock.now + QUIET_S)
    if world.broker.group.generation != generation:
        world.violate("the group does not stay at rest")


def must_settle(world: World) -> None:
    """An application has longer, because state takes its time, but not more rebalances than KIP-441 grants."""
    checks, before = world.checks, world.broker.group.generation
    most = world.rebalances_max
    limit_s = SETTLE_S + most * PROBING_MS / 1000
    healed = world.clock.now
    if not world.run_until(healed + limit_s, lambda: not checks.unsettled()):
        world.violate(f"not at rest {limit_s:.0f} s after healing: {checks.unsettled()}")
    rebalances = world.broker.group.generation - before
    world.rested[f"healing, {world.flock}"] = world.clock.now - healed, rebalances
    if world.streams and rebalances > most + REBALANCES_BEFORE:
        world.violate(f"{rebalances} rounds until it had converged, and {most} were to be enough")


def must_lead(world: World) -> None:
    """Where a running group is not taken over, it is led once it has been empty."""
    checks = world.checks
    adopt_s = ADOPT_S + world.rebalances_max * PROBING_MS / 1000

    def led() -> bool:
        return checks.bellwether_leads() and not checks.unsettled()

    if world.config.adopt == "take-over":
        if world.run_until(world.clock.now + adopt_s, led):
            return
        obstacle = next((instance.obstacle for instance in world.instances if instance.obstacle), "")
        if not obstacle and not _no_id_is_first(world):
            world.violate(f"we do not lead {adopt_s:.0f} s later: {checks.unsettled() or 'a member leads'}")
        world.notes["not to be taken over, by a reason that was told"] += 1
    if not led():
        world.log("---- all members close, and come back when we are there ----")
        guests = world.guests
        for member in (*world.members, *guests):
            member.close()
        world.run_until(world.clock.now + ADOPT_S)
        for member in (*world.members, *guests):
            member.start()
    if not world.run_until(world.clock.now + adopt_s, led):
        world.violate(f"we do not lead {adopt_s:.0f} s later: {checks.unsettled() or 'a member leads'}")


def _no_id_is_first(world: World) -> bool:
    """Whether a member sits in the first bucket of the broker's table, so that no id of Bellwether comes before it, and
    Bellwether has said that none does. Who leads is not known before a rebalance of Bellwether has named it, and that
    takes an id."""
    in_first = any(spread_hash(member) % BUCKETS == 0 for member in world.broker.group.member_entries)
    return in_first and any(NO_ID in line for line in world.reported)


def _must_follow(world: World) -> None:
    """While Bellwether leads a group at rest, a topic is deleted and made again; each time members follow as soon as
    brokers agree."""
    topics = world.topics
    if world.streams:
        _must_not_end(world)
        return
    topic = world.rng.choice(sorted(topics.sizes))
    for what, sizes in (("gone", {**topics.sizes, topic: 0}), ("back", topics.sizes)):
        disagree_s = world.rng.choice((0.0, 8.0))
        world.log(f"---- topic {topic} is {what}; all brokers know in {disagree_s} s ----")
        topics.change(sizes, disagree_s)
        began, before = world.clock.now, world.broker.group.generation
        if not world.run_until(began + disagree_s + FOLLOW_S, lambda: not world.checks.unsettled()):
            world.violate(f"topic {topic} is {what} since {began:.0f} s: {world.checks.unsettled()}")
        world.rested[f"a topic that is {what}"] = world.clock.now - began, world.broker.group.generation - before


def _rest(world: World) -> None:
    """Until a session has gone by without a rebalance: what was lost just before healing is only noticed then."""
    limit = world.clock.now + ADOPT_S
    while world.clock.now < limit:
        before = world.broker.group.generation
        world.run_until(world.clock.now + REST_S)
        if world.broker.group.generation == before and world.checks.bellwether_leads() and not world.checks.unsettled():
            return
    world.violate(f"no rest of {REST_S:.0f} s: {world.checks.unsettled()}")


def _must_not_end(world: World) -> None:
    """The input of an application at rest outgrows its state: nothing happens, because a rebalance would end it. When
    its internal topics have grown as well, the new partitions are consumed."""
    topics, checks = world.topics, world.checks
    _rest(world)
    world.log("---- the input outgrows the internal topics ----")
    topics.change({**topics.sizes, INPUT: topics.sizes[INPUT] + 1})
    began, before = world.clock.now, world.broker.group.generation
    world.run_until(began + FOLLOW_S)
    if world.broker.group.generation != before:
        world.violate("a round has ended the application, whose internal topics do not fit its input")
    world.log("---- internal topics have grown, too ----")
    topics.change({**topics.sizes, **dict.fromkeys(world.application.fixed, topics.sizes[INPUT])})
    if OTHER in topics.sizes:
        topics.change({**topics.sizes, OTHER: topics.sizes[OTHER] + 1})
    began = world.clock.now
    limit_s = FOLLOW_S + REPEAT_AFTER_S + world.rebalances_max * PROBING_MS / 1000
    if not world.run_until(began + limit_s, lambda: not checks.unsettled()):
        world.violate(f"topics have grown {limit_s:.0f} s ago: {checks.unsettled()}")
    world.rested["topics that have grown"] = world.clock.now - began, world.broker.group.generation - before


def _must_wait(world: World) -> None:
    """The leader dies, or is stopped, while its group is at rest: it is led again, in the same generation."""
    for what in ("killed", "stopped"):
        if not world.run_until(world.clock.now + ADOPT_S, lambda: all(s.up for s in world.instances)):
            world.violate("the supervisor does not start an instance")
        world.run_until(world.clock.now + 10.0)  # until each has heard the other
        first = next((instance for instance in world.instances if instance.leads), None)
        if first is None:
            world.violate("no sidecar leads a group at rest")
            return
        generation, began = world.broker.group.generation, world.clock.now
        first.crash() if what == "killed" else first.stop()
        second = next(instance for instance in world.instances if instance is not first)
        # Who was killed is started again at once, and may come back under the instance id a moment after the other one.
        successors = world.instances if what == "killed" else [second]

        def led(successors: Sequence[Instance] = successors) -> bool:
            return any(instance.leads for instance in successors) and world.checks.bellwether_leads()

        if not world.run_until(began + STANDBY_S, led):
            world.violate(f"{first.name} was {what} {STANDBY_S:.0f} s ago, and {second.name} does not lead")
        if world.broker.group.generation != generation:
            world.violate(f"{first.name} was {what}, and that began a round")
        world.rested[f"a leader that is {what}, with a standby"] = world.clock.now - began, 0


def lived(world: World) -> World:
    """The world after it. Raises ViolationError."""
    with world:
        live(world)
    return world


def run_seed(seed: int, *, lasting_hostile: bool = False) -> tuple[World, str]:
    """The world after it, and the violation, "" for none."""
    world = World(seed, lasting_hostile=lasting_hostile)
    try:
        lived(world)
    except ViolationError as violation:
        return world, str(violation)
    return world, ""


def run_seeds(first: int, count: int, *, lasting_hostile: bool = False) -> Result:
    result = Result()
    for seed in range(first, first + count):
        world, violation = run_seed(seed, lasting_hostile=lasting_hostile)
        result.add(world)
        if violation:
            result.failed.append(violation)
    return result


def covered(machine: str, transitions: Transitions[Any], taken: Counter[Edge[Any]]) -> list[str]:
    """How many of a machine's declared edges have been taken, and which have not."""
    declared = list(edges(transitions))
    never: dict[str, list[str]] = {}
    for edge in (edge for edge in declared if edge not in taken):
        never.setdefault(edge.state.name, []).append(f"{trigger_name(edge.on)} {edge.to.name}")
    missing = sum(map(len, never.values()))
    lines = [f"edges of the {machine}: {len(declared) - missing} of {len(declared)}"]
    return [*lines, *(f"  never from {state}: {', '.join(which)}" for state, which in never.items())]


def table(result: Result) -> str:
    lines = [
        f"seeds                 {result.seeds:>10}",
        f"virtual hours         {result.virtual_s / 3600:>10.1f}",
        f"steps                 {result.steps:>10}",
        f"generations           {result.generations:>10}",
    ]
    lines += [f"plans: {whose:<14} {number:>10}" for whose, number in sorted(result.plans.items())]
    lines += [f"seeds: {flock:<30} {number:>6}" for flock, number in sorted(result.flocks.items())]
    lines += [
        f"longest to rest from {flock:<34} {seconds:6.0f} s, {rebalances} rounds"
        for flock, (seconds, rebalances) in sorted(result.settled.items())
    ]
    lines += [f"fault: {kind:<40} {number:>6}" for kind, number in sorted(result.injected.items())]
    lines += [f"note: {kind:<41} {number:>6}" for kind, number in sorted(result.notes.items())]
    lines += [
        f"longest wait for us in {state:<20} {seconds:6.2f} s of {result.bounds[state]:.1f} s"
        for state, seconds in sorted(result.longest.items())
    ]
    lines += [f"longest wrong role: {wrong:<35} {seconds:6.2f} s" for wrong, seconds in sorted(result.roles.items())]
    lines += covered("membership", MEMBERSHIP, result.edges)
    lines += covered("take-over", TAKEOVER, result.edges)
    lines += [f"violations            {len(result.failed):>10}", *result.failed]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="Deterministic simulation of groups and sidecars.")
    parser.add_argument("--seed", type=int, help="print the trace of this seed")
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds to run without a trace")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument(
        "--hostile", action="store_true", help="consumers, with a hostile member to the end of each seed"
    )
    parser.add_argument("--gullible", action="store_true", help="without the rule that false claims are not believed")
    options = parser.parse_args()
    if options.gullible:
        accept_everything()
    began = time.process_time()
    if options.seed is not None:
        world, violation = run_seed(options.seed, lasting_hostile=options.hostile)
        print("\n".join(world.reported))
        print(violation or "every promise was kept")
        return 1 if violation else 0
    result = run_seeds(options.first, options.seeds, lasting_hostile=options.hostile)
    print(table(result))
    print(f"CPU seconds           {time.process_time() - began:>10.1f}")
    return 1 if result.failed else 0


if __name__ == "__main__":
    sys.exit(main())
