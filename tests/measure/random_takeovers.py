"""Random groups that are taken over with the default settings, as many as one asks for, predicted beside removed:
`python -m tests.measure.random_takeovers --live 20 --simulated 80`. Exit code 1 if a group was disturbed in vain, or
fewer than 97 of 100 succeeded.

Live groups have 2 to 12 members on three real brokers, simulated ones 2 to 50 on the model of one that
`make conformance` proves. What is predicted is what `doctor` prints, from the listing alone.
"""

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from bellwether_kafka.coordinator.membership.broker_order import tables
from bellwether_kafka.coordinator.membership.commands import NoteKind
from bellwether_kafka.coordinator.membership.config import MembershipConfig, SizeLimit
from bellwether_kafka.coordinator.membership.table_growth import forecast
from bellwether_kafka.coordinator.membership.transitions import State
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import Flock, partitions_of, wait_settled
from tests.interop.support.raw import describe
from tests.interop.support.rounds import last_round
from tests.interop.support.sidecar import Sidecar
from tests.simulation.members import COOPERATIVE, EAGER, RDKAFKA, RDKAFKA_COOPERATIVE, Kind, Member
from tests.simulation.world import SIZE_MAX, World

ASSIGNORS = ("range", "cooperative-sticky")
KINDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "librdkafka": (("confluent",), ASSIGNORS),
    "java": (("java",), ASSIGNORS),
    "mixed": (("java", "confluent", "kafka-python"), ASSIGNORS),
    "kafka-python": (("kafka-python",), ("range",)),
    "aiokafka": (("aiokafka",), ("range",)),
}
NODES = 3
SIMULATED: dict[str, tuple[Kind, ...]] = {
    "librdkafka range": (RDKAFKA,),
    "librdkafka cooperative-sticky": (RDKAFKA_COOPERATIVE,),
    "java range": (EAGER,),
    "java cooperative-sticky": (COOPERATIVE,),
    "mixed range": (EAGER, RDKAFKA),
    "mixed cooperative-sticky": (COOPERATIVE, RDKAFKA_COOPERATIVE),
}
LIVE_MAX, SIMULATED_MAX = 12, 50
LIMIT_S = 30.0
LIVE_LIMIT_S = 60.0
GOAL = 0.97


@dataclass(frozen=True, slots=True)
class Prediction:
    """From a listing of the group alone: whether it is begun, with how many temporary members, and how many members are
    removed (the leader is not known), or `at_most` where no member id sorts first in time."""

    begins: bool
    temporary: int
    removals: int
    at_most: int

    @classmethod
    def of(cls, ids: Sequence[str], config: MembershipConfig, size_max: int | None = SIZE_MAX) -> "Prediction":
        foreseen = forecast(ids, tables(ids), "", config.evictions_max, size_max, config.tries_max)
        removals = len(foreseen.with_leader) + 1
        return cls(foreseen.begins, foreseen.chosen.temporary, removals, removals + bool(foreseen.perhaps))


@dataclass(frozen=True, slots=True)
class Taken:
    """One group. `rebalances`: how many it went through."""

    name: str
    members: int
    predicted: Prediction
    led: bool
    removed: int
    rebalances: int
    took_s: float

    @property
    def in_vain(self) -> bool:
        return not self.led and self.rebalances > 0

    @property
    def as_predicted(self) -> bool:
        if not self.predicted.begins:
            return not self.led and not self.rebalances
        return self.led and 0 < self.removed <= self.predicted.at_most


def removed_by(notes: Sequence[str]) -> int:
    """How many members the note of a take-over names: "after a, b, in 0.5 s, with member id number 7"."""
    return sum(note.split(", in ")[0].count(", ") + 1 for note in notes)


# ---- live ------------------------------------------------------------------------------------------------------------


def live(kafka: KafkaCluster, draw: random.Random, number: int) -> Taken:
    kinds = draw.choice(list(KINDS))
    of, assignors = KINDS[kinds]
    assignor = draw.choice(assignors)
    size, group = draw.randint(2, LIVE_MAX), f"random-{number}"
    instance = draw.choice((None, "bellwether"))
    expected = partitions_of({"random": LIVE_MAX})
    with Flock(kafka.bootstrap) as flock:
        members = [flock.member(of[i % len(of)], group, ["random"], [assignor]) for i in range(size)]
        wait_settled(members, expected, spread=1, limit_s=120)
        ids = [m.member_id for m in describe(kafka.bootstrap, group).members]
        before = last_round(kafka, group).generation
        config = MembershipConfig(group, instance_id=instance, watch_interval_ms=500)
        began = time.monotonic()
        with Sidecar(kafka.client_config("bellwether", "bellwether"), config) as bellwether:
            led = _leads(bellwether, group)
            took_s = time.monotonic() - began
            wait_settled(members, expected, limit_s=120)
            now = last_round(kafka, group).generation
            removed = removed_by(bellwether.said(NoteKind.ADOPTED))
    name = f"{kinds} {assignor}{', static' * (instance is not None)}"
    return Taken(name, len(ids), Prediction.of(ids, config), led, removed, now - before, took_s)


def _leads(bellwether: Sidecar, group: str) -> bool:
    """Whether it leads within the limit."""
    deadline = time.monotonic() + LIVE_LIMIT_S
    while time.monotonic() < deadline:
        runner = bellwether.service.runners.get(group)
        if runner is not None and runner.membership.state is State.STABLE:
            return True
        time.sleep(0.05)
    return False


# ---- simulated -------------------------------------------------------------------------------------------------------


def simulated(seed: int) -> Taken:
    world = World(seed, crowd=2)
    draw = random.Random(f"takeover {seed}")
    name, size = draw.choice(list(SIMULATED)), draw.randint(2, SIMULATED_MAX)
    world.topics.change({"t": size})
    world.members = [Member(world, f"m{i}", draw.choice(SIMULATED[name]), None) for i in range(size)]
    world.hostile = []
    config = replace(world.config, adopt="take-over", standby=False, size_limit=SizeLimit(SIZE_MAX))
    (bellwether, *_) = world.sidecars
    bellwether.config = config
    for number, member in enumerate(world.members):
        world.clock.after(number * 0.05, member.start)
    if not world.run_until(120.0, lambda: not world.checks.unsettled()):
        raise AssertionError(f"seed {seed}: {world.checks.unsettled()}")
    world.run_until(world.clock.now + 15.0)
    ids = [seat.member_id for seat in world.broker.group.table.listed()]
    before, began = world.broker.group.generation, world.clock.now
    bellwether.start()
    led = world.run_until(began + LIMIT_S, world.checks.we_lead)
    now, took_s = world.broker.group.generation, world.clock.now - began
    adopted = [line.split("ADOPTED ")[1] for line in world.told if "ADOPTED " in line]
    return Taken(name, len(ids), Prediction.of(ids, config), led, removed_by(adopted), now - before, took_s)


# ---- the table -------------------------------------------------------------------------------------------------------


def line(number: int, one: Taken) -> str:
    predicted = one.predicted
    removals = " or ".join(map(str, dict.fromkeys((predicted.removals, predicted.at_most))))
    expected = f"{removals} with {predicted.temporary} temporary" if predicted.begins else "no"
    return (
        f"{number:3} {one.name:37} {one.members:3} members; predicted {expected:19} led {one.led},"
        f" removed {one.removed} in {one.rebalances} rebalances, {one.took_s:.1f} s"
        f"{'' if one.as_predicted else ' NOT AS PREDICTED'}"
    )


def lines(taken: Sequence[Taken]) -> Iterator[str]:
    yield from map(line, range(len(taken)), taken)
    removed = Counter(one.removed for one in taken if one.led)
    yield f"{sum(one.led for one in taken)} of {len(taken)} groups are led, after so many removals: {dict(removed)}"
    yield f"as predicted: {sum(one.as_predicted for one in taken)} of {len(taken)}"
    yield f"disturbed in vain: {sum(one.in_vain for one in taken)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--live", type=int, default=20)
    parser.add_argument("--simulated", type=int, default=80)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    draw = random.Random(given.seed)
    taken = [simulated(given.seed * 10_000 + number) for number in range(given.simulated)]
    print("\n".join(["---- simulated", *lines(taken)]), flush=True)
    if given.live:
        with KafkaCluster(nodes=NODES, racks=(None,) * NODES) as kafka:
            kafka.create_topic("random", LIVE_MAX)
            for number in range(given.live):
                taken.append(live(kafka, draw, number))
                print(line(number, taken[-1]), flush=True)
        print("\n".join(["---- all", *lines(taken)]))
    good = sum(one.led for one in taken) >= GOAL * len(taken)
    return 0 if good and not any(one.in_vain for one in taken) else 1


if __name__ == "__main__":
    sys.exit(main())
