"""Random groups that are taken over with the default settings, as many as one asks for, predicted beside removed:
`python -m tests.measure.random_takeovers --live 20 --simulated 80`. Exit code 1 if a group was disturbed in vain, or
fewer than 97 of 100 succeeded.

Live groups are on three real brokers: consumers, half of the groups with 2 to 12 members and half with 13 to 30, and
Streams applications of 2 to 3 instances with 1 to 4 threads each. Simulated groups have 2 to 50 members on the model of
a broker that `make conformance` proves. What is predicted is what `doctor` prints, from the listing alone.
"""

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from bellwether_kafka.coordinator.membership.broker_order import tables
from bellwether_kafka.coordinator.membership.commands import NoteKind
from bellwether_kafka.coordinator.membership.config import STREAMS_PROTOCOL, MembershipConfig, SizeLimit
from bellwether_kafka.coordinator.membership.table_growth import Forecasts
from bellwether_kafka.coordinator.membership.transitions import State
from tests.interop.support.bellwether import INSTANCE, Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.instance import InstanceHarness
from tests.interop.support.members import Flock, partitions_of, wait_settled
from tests.interop.support.raw import describe
from tests.interop.support.rebalances import last_rebalance
from tests.interop.support.streams_app import StreamsApp
from tests.interop.support.streams_led import application, create_internal_topics, settings_of
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
STREAMS = "streams"
SMALL, LARGE = (2, 12), (13, 30)  # a table of 16 buckets holds up to 12 members
PARTITIONS, SIMULATED_MAX = 12, 50
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
        foreseen = Forecasts().forecast(ids, tables(ids), "", config.evictions_max, size_max, config.tries_max())
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


def live(kafka: KafkaCluster, draw: random.Random, number: int) -> Taken:
    kind = draw.choice((*KINDS, STREAMS))
    return live_application(kafka, draw, number) if kind == STREAMS else live_consumers(kafka, draw, number, kind)


def live_consumers(kafka: KafkaCluster, draw: random.Random, number: int, kind: str) -> Taken:
    of, assignors = KINDS[kind]
    assignor = draw.choice(assignors)
    size, group = draw.randint(*draw.choice((SMALL, LARGE))), f"random-{number}"
    instance = draw.choice((None, INSTANCE))
    expected = partitions_of({"random": PARTITIONS})
    with Flock(kafka.bootstrap) as flock:
        members = [flock.member(of[i % len(of)], group, ["random"], [assignor]) for i in range(size)]
        wait_settled(members, expected, spread=1, limit_s=120)
        ids = [m.member_id for m in describe(kafka.bootstrap, group).members]
        before = last_rebalance(kafka, group).generation
        config = MembershipConfig(group, instance_id=instance, watch_interval_ms=500)
        began = time.monotonic()
        with InstanceHarness(kafka.client_config("bellwether", "bellwether"), config) as bellwether:
            led = _within_limit(lambda: _stable(bellwether, group))
            took_s = time.monotonic() - began
            wait_settled(members, expected, limit_s=120)
            now = last_rebalance(kafka, group).generation
            removed = removed_by(bellwether.message(NoteKind.ADOPTED))
    name = f"{kind} {assignor}{', static' * (instance is not None)}"
    return Taken(name, len(ids), Prediction.of(ids, config), led, removed, now - before, took_s)


def live_application(kafka: KafkaCluster, draw: random.Random, number: int) -> Taken:
    group, instances = f"random-{number}", draw.randint(2, 3)
    options = {"threads": draw.randint(1, 4), "probing_interval_ms": 600_000, "acceptable_recovery_lag": 1_000}
    common = application(kafka, group, **options)
    create_internal_topics(kafka, common)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        app = stack.enter_context(StreamsApp(kafka, common))
        for instance in range(instances):
            app.add(f"instance-{instance}")
        app.wait_settled(spread=1)
        ids = [m.member_id for m in describe(kafka.bootstrap, group).members]
        before = last_rebalance(kafka, group).generation
        config = MembershipConfig(group, instance_id=INSTANCE, protocols=(STREAMS_PROTOCOL,))
        bellwether = Bellwether(kafka, [group], options=settings_of(common, folder, stores="persistent"))
        stack.push(bellwether)
        bellwether.start(wait=False)
        began = time.monotonic()
        led = _within_limit(lambda: last_rebalance(kafka, group).leader.startswith(INSTANCE))
        took_s = time.monotonic() - began
        app.wait_settled()
        now = last_rebalance(kafka, group).generation
        removed = removed_by([entry["reason"] for entry in bellwether.log("membership", what="ADOPTED")])
    return Taken(STREAMS, len(ids), Prediction.of(ids, config), led, removed, now - before, took_s)


def _within_limit(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + LIVE_LIMIT_S
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.05)
    return False


def _stable(bellwether: InstanceHarness, group: str) -> bool:
    runner = bellwether.service.runners.get(group)
    return runner is not None and runner.membership.state is State.STABLE


def simulated(seed: int) -> Taken:
    world = World(seed, crowd=2)
    draw = random.Random(f"takeover {seed}")
    name, size = draw.choice(list(SIMULATED)), draw.randint(2, SIMULATED_MAX)
    world.topics.change({"t": size})
    world.members = [Member(world, f"m{i}", draw.choice(SIMULATED[name]), None) for i in range(size)]
    world.hostile = []
    config = replace(world.config, adopt="take-over", standby=False, size_limit=SizeLimit(SIZE_MAX))
    (bellwether, *_) = world.instances
    bellwether.config = config
    for number, member in enumerate(world.members):
        world.clock.after(number * 0.05, member.start)
    if not world.run_until(120.0, lambda: not world.checks.unsettled()):
        raise AssertionError(f"seed {seed}: {world.checks.unsettled()}")
    world.run_until(world.clock.now + 15.0)
    ids = [member_entry.member_id for member_entry in world.broker.group.table.listed()]
    before, began = world.broker.group.generation, world.clock.now
    bellwether.start()
    led = world.run_until(began + LIMIT_S, world.checks.bellwether_leads)
    now, took_s = world.broker.group.generation, world.clock.now - began
    adopted = [line.split("ADOPTED ")[1] for line in world.reported if "ADOPTED " in line]
    return Taken(name, len(ids), Prediction.of(ids, config), led, removed_by(adopted), now - before, took_s)


def line(number: int, group: Taken) -> str:
    predicted = group.predicted
    removals = " or ".join(map(str, dict.fromkeys((predicted.removals, predicted.at_most))))
    expected = f"{removals} with {predicted.temporary} temporary" if predicted.begins else "no"
    return (
        f"{number:3} {group.name:37} {group.members:3} members; predicted {expected:19} led {group.led},"
        f" removed {group.removed} in {group.rebalances} rebalances, {group.took_s:.1f} s"
        f"{'' if group.as_predicted else ' NOT AS PREDICTED'}"
    )


def lines(taken: Sequence[Taken]) -> Iterator[str]:
    yield from map(line, range(len(taken)), taken)
    removed = Counter(group.removed for group in taken if group.led)
    yield f"{sum(group.led for group in taken)} of {len(taken)} groups are led, after so many removals: {dict(removed)}"
    yield f"as predicted: {sum(group.as_predicted for group in taken)} of {len(taken)}"
    yield f"disturbed in vain: {sum(group.in_vain for group in taken)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--live", type=int, default=20)
    parser.add_argument("--simulated", type=int, default=80)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    draw = random.Random(given.seed)
    taken = [simulated(given.seed * 10_000 + number) for number in range(given.simulated)]
    if taken:
        print("\n".join(["---- simulated", *lines(taken)]), flush=True)
    if given.live:
        with KafkaCluster(nodes=NODES, racks=(None,) * NODES) as kafka:
            kafka.create_topic("random", PARTITIONS)
            for number in range(given.live):
                taken.append(live(kafka, draw, number))
                print(line(number, taken[-1]), flush=True)
        print("\n".join(["---- all", *lines(taken)]))
    good = sum(group.led for group in taken) >= GOAL * len(taken)
    return 0 if good and not any(group.in_vain for group in taken) else 1


if __name__ == "__main__":
    sys.exit(main())
