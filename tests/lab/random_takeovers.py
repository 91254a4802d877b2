"""Random groups that are taken over with the default settings, as many as one asks for, predicted beside removed:
`python -m tests.lab.random_takeovers --live 20 --simulated 80`. Exit code 1 if a group was disturbed in vain, or
fewer than 97 of 100 succeeded.

Live groups are on three real brokers: consumers, half of the groups with 2 to 12 members and half with 13 to 30, and
Streams applications of 2 to 3 instances with 1 to 4 threads each. Simulated groups have 2 to 50 members on the model of
a broker that `make conformance` proves. What is predicted is what `doctor` prints, from the listing alone.

`--answer-ms 20`: the brokers answer Bellwether after this time. `--answer-ms 16-400`: after a random time, as brokers
of a busy machine do. Then only a group that was disturbed in vain makes it fail. `--at-once 12`: one process takes so
many live groups over. `--forecast 60`: only prints the share of random groups that are left alone, by answer time.
"""

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

from bellwether_kafka.coordinator.membership import Forecasts, MembershipConfig, SizeLimit, tables
from tests.interop.support.bellwether import INSTANCE, Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import Flock, partitions_of, wait_settled
from tests.interop.support.proxy import Rule, Ruling
from tests.interop.support.raw import describe
from tests.interop.support.rebalances import last_rebalance
from tests.interop.support.scenes.proxied import ProxiedCluster, proxied_cluster
from tests.interop.support.streams_app import StreamsApp
from tests.interop.support.streams_led import application, create_internal_topics, settings_of
from tests.kit.membership import BrokerTable
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
SIMULATED: dict[str, tuple[Kind, ...]] = {
    "librdkafka range": (RDKAFKA,),
    "librdkafka cooperative-sticky": (RDKAFKA_COOPERATIVE,),
    "java range": (EAGER,),
    "java cooperative-sticky": (COOPERATIVE,),
    "mixed range": (EAGER, RDKAFKA),
    "mixed cooperative-sticky": (COOPERATIVE, RDKAFKA_COOPERATIVE),
}
STREAMS = "streams"
SMALL, LARGE, CROWD = (2, 12), (13, 30), (31, 50)  # a table of 16 buckets holds up to 12 members
PARTITIONS, SIMULATED_MAX = 12, 50
LIMIT_S = 60.0
LIVE_LIMIT_S = 60.0
GOAL = 0.97
FORECAST_MS = (1, 10, 20, 50)


@dataclass(frozen=True, slots=True)
class AnswerTime:
    """How long the brokers take to answer Bellwether, in milliseconds; 0 for no delay."""

    least_ms: float = 0.0
    most_ms: float = 0.0

    @classmethod
    def read(cls, text: str) -> "AnswerTime":
        least, _, most = text.partition("-")
        return cls(float(least), float(most or least))

    @property
    def usual_ms(self) -> float | None:
        return (self.least_ms + self.most_ms) / 2 or None

    def rule(self, draw: random.Random) -> Rule:
        return lambda frame: (
            Ruling(delay_s=draw.uniform(self.least_ms, self.most_ms) / 1000) if frame.answer else Ruling()
        )


@dataclass(frozen=True, slots=True)
class Prediction:
    """From a listing of the group alone: whether it is begun, with how many temporary members, and how many members are
    removed (the leader is not known), or `at_most` where no member id sorts first in time."""

    begins: bool
    temporary: int
    removals: int
    at_most: int

    @classmethod
    def of(
        cls,
        ids: Sequence[str],
        config: MembershipConfig,
        answer_time_ms: float | None = None,
        size_max: int | None = SIZE_MAX,
    ) -> "Prediction":
        tries = config.tries_max(answer_time_ms)
        foreseen = Forecasts().forecast(ids, tables(ids), "", config.evictions_max, size_max, tries)
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
    tried: tuple[str, ...] = ()  # what Bellwether notes of live attempts that members may have noticed
    why: str = ""  # the end of the log, where it is not led

    @property
    def in_vain(self) -> bool:
        """Members rebalance by themselves too, on a busy machine."""
        return not self.led and self.rebalances > 0 and (bool(self.tried) or not self.why)

    @property
    def as_predicted(self) -> bool:
        if not self.predicted.begins:
            return not self.led and not self.rebalances
        return self.led and 0 < self.removed <= self.predicted.at_most


def removed_by(notes: Sequence[str]) -> int:
    """How many members the note of a take-over names: "after a, b, in 0.5 s, with member id number 7"."""
    return sum(note.split(", in ")[0].count(", ") + 1 for note in notes)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A live group that is at rest under its own leader. `settle` waits until it is at rest again."""

    group: str
    name: str
    ids: tuple[str, ...]
    generation: int
    options: Mapping[str, Any]
    settle: Callable[[], object]


def drawn(kafka: KafkaCluster, stack: ExitStack, flock: Flock, draw: random.Random, group: str) -> Waiting:
    kind = draw.choice((*KINDS, STREAMS))
    if kind == STREAMS:
        return application_of(kafka, stack, draw, group)
    of, assignors = KINDS[kind]
    assignor = draw.choice(assignors)
    size = draw.randint(*draw.choice((SMALL, LARGE)))
    expected = partitions_of({"random": PARTITIONS})
    members = [flock.member(of[i % len(of)], group, ["random"], [assignor]) for i in range(size)]
    for member in members:
        stack.callback(member.stop)
    wait_settled(members, expected, spread=1, limit_s=120)
    return _waiting(kafka, group, f"{kind} {assignor}", {}, lambda: wait_settled(members, expected, limit_s=120))


def application_of(kafka: KafkaCluster, stack: ExitStack, draw: random.Random, group: str) -> Waiting:
    options = {"threads": draw.randint(1, 4), "probing_interval_ms": 600_000, "acceptable_recovery_lag": 1_000}
    common = application(kafka, group, **options)
    create_internal_topics(kafka, common)
    folder = Path(stack.enter_context(TemporaryDirectory()))
    app = stack.enter_context(StreamsApp(kafka, common))
    for instance in range(draw.randint(2, 3)):
        app.add(f"instance-{instance}")
    app.wait_settled(spread=1)
    return _waiting(kafka, group, STREAMS, settings_of(common, folder, stores="persistent"), app.wait_settled)


def _waiting(
    kafka: KafkaCluster, group: str, name: str, options: Mapping[str, Any], settle: Callable[[], object]
) -> Waiting:
    ids = tuple(m.member_id for m in describe(kafka.bootstrap, group).members)
    return Waiting(group, name, ids, last_rebalance(kafka, group).generation, options, settle)


def live(cluster: ProxiedCluster, groups: Sequence[Waiting], answers: AnswerTime) -> list[Taken]:
    """One process takes these groups over, through the proxies. Ends early where no attempt is due any more."""
    login = {"bootstrap.servers": cluster.proxy.addresses}
    own = {waiting.group: waiting.options for waiting in groups}
    bellwether = Bellwether(cluster, [waiting.group for waiting in groups], own=own, login=login)
    led_after: dict[str, float] = {}
    with ExitStack() as stack:
        stack.push(bellwether)
        bellwether.start(wait=False)
        began = time.monotonic()
        while time.monotonic() - began < LIVE_LIMIT_S and len(led_after) < len(groups):
            for waiting in groups:
                if waiting.group not in led_after and _leads(cluster, waiting.group):
                    led_after[waiting.group] = time.monotonic() - began
            time.sleep(0.1)
        for waiting in groups:
            waiting.settle()
        return [_taken(cluster, bellwether, waiting, led_after.get(waiting.group), answers) for waiting in groups]


def _leads(cluster: KafkaCluster, group: str) -> bool:
    return last_rebalance(cluster, group).leader.startswith(f"{INSTANCE}-")


def _taken(
    cluster: KafkaCluster, bellwether: Bellwether, waiting: Waiting, took_s: float | None, answers: AnswerTime
) -> Taken:
    config = MembershipConfig(waiting.group, instance_id=INSTANCE)
    rebalances = last_rebalance(cluster, waiting.group).generation - waiting.generation
    notes = [entry["reason"] for entry in bellwether.log("membership", what="ADOPTED", group=waiting.group)]
    why = "" if took_s is not None else bellwether.log_of(waiting.group, 3)
    ended = [entry for what in ("LEFT", "WATCHING") for entry in bellwether.log("membership", what=what)]
    tried = [entry["reason"] for entry in ended if entry["group"] == waiting.group and _noticed(entry["reason"])]
    predicted = Prediction.of(waiting.ids, config, answers.usual_ms)
    return Taken(
        waiting.name,
        len(waiting.ids),
        predicted,
        took_s is not None or bool(notes),
        removed_by(notes),
        rebalances,
        took_s or 0.0,
        tuple(tried),
        why,
    )


def _noticed(reason: str) -> bool:
    """Whether an attempt that ended so may have begun a rebalance: not one that ended while the group was at rest."""
    at_rest = ("no member was disturbed", "did not give ids to all temporary members")
    return not reason.startswith("not taken over") and not any(words in reason for words in at_rest)


def simulated(seed: int, answers: AnswerTime) -> Taken:
    with World(seed, crowd=2) as world:
        return taken_in(world, seed, answers)


def taken_in(world: World, seed: int, answers: AnswerTime) -> Taken:
    draw = random.Random(f"takeover {seed}")
    name, size = draw.choice(list(SIMULATED)), draw.randint(2, SIMULATED_MAX)
    world.topics.change({"t": size})
    world.members = [Member(world, f"m{i}", draw.choice(SIMULATED[name]), None) for i in range(size)]
    world.hostile = []
    config = replace(world.config, adopt="take-over", standby=False, size_limit=SizeLimit(SIZE_MAX))
    world.size_max = SIZE_MAX
    (bellwether, *_) = world.instances
    bellwether.config = config
    for number, member in enumerate(world.members):
        world.clock.after(number * 0.05, member.start)
    if not world.run_until(120.0, lambda: not world.checks.unsettled()):
        raise AssertionError(f"seed {seed}: {world.checks.unsettled()}")
    world.run_until(world.clock.now + 15.0)
    ids = [member_entry.member_id for member_entry in world.broker.group.table.listed()]
    before, began = world.broker.group.generation, world.clock.now
    if answers.usual_ms is not None:
        world.network.latency_s = answers.least_ms / 2000, answers.most_ms / 2000
    bellwether.start()
    led = world.run_until(began + LIMIT_S, world.checks.bellwether_leads)
    now, took_s = world.broker.group.generation, world.clock.now - began
    adopted = [line.split("ADOPTED ")[1] for line in world.reported if "ADOPTED " in line]
    predicted = Prediction.of(ids, config, answers.usual_ms)
    return Taken(name, len(ids), predicted, led, removed_by(adopted), now - before, took_s)


def left_alone(groups: int, draw: random.Random, sizes: tuple[int, int], answer_time_ms: float) -> float:
    """Returns the share of random groups with so many members that are not taken over at this answer time."""
    config = MembershipConfig("g", instance_id=INSTANCE)
    begins = 0
    for _ in range(groups):
        size = draw.randint(*sizes)
        ids = [f"consumer-{number}-{UUID(int=draw.getrandbits(128))}" for number in range(size)]
        listing = BrokerTable().grown(size).listed(ids)
        begins += Prediction.of(listing, config, answer_time_ms).begins
    return 1 - begins / groups


def forecast(groups: int, seed: int) -> Iterator[str]:
    for sizes in (SMALL, LARGE, CROWD):
        shares = [
            f"{answer_time_ms} ms {left_alone(groups, random.Random(f'{sizes} {seed}'), sizes, answer_time_ms):.0%}"
            for answer_time_ms in FORECAST_MS
        ]
        yield f"of {groups} groups of {sizes[0]} to {sizes[1]} members are left alone: {', '.join(shares)}"


def line(number: int, group: Taken) -> str:
    predicted = group.predicted
    removals = " or ".join(map(str, dict.fromkeys((predicted.removals, predicted.at_most))))
    expected = f"{removals} with {predicted.temporary} temporary" if predicted.begins else "no"
    return (
        f"{number:3} {group.name:37} {group.members:3} members; predicted {expected:19} led {group.led},"
        f" removed {group.removed} in {group.rebalances} rebalances, {group.took_s:.1f} s"
        f"{'' if group.as_predicted else ' NOT AS PREDICTED'}{' IN VAIN' * group.in_vain}"
        f"{'; '.join(('', *group.tried))}{group.why and chr(10)}{group.why}"
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
    parser.add_argument("--answer-ms", type=AnswerTime.read, default=AnswerTime())
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--forecast", type=int, default=0)
    given = parser.parse_args()
    if given.forecast:
        print("\n".join(forecast(given.forecast, given.seed)))
        return 0
    answers: AnswerTime = given.answer_ms
    taken = [simulated(given.seed * 10_000 + number, answers) for number in range(given.simulated)]
    if taken:
        print("\n".join(["---- simulated", *lines(taken)]), flush=True)
    if given.live:
        taken += live_groups(random.Random(given.seed), given.live, answers, given.at_once)
        print("\n".join(["---- all", *lines(taken)]))
    good = answers.usual_ms is not None or sum(group.led for group in taken) >= GOAL * len(taken)
    return 0 if good and not any(group.in_vain for group in taken) else 1


def live_groups(draw: random.Random, count: int, answers: AnswerTime, at_once: int) -> list[Taken]:
    taken: list[Taken] = []
    with proxied_cluster() as cluster, Flock(cluster.bootstrap) as flock:
        cluster.create_topic("random", PARTITIONS)
        if answers.usual_ms is not None:
            cluster.proxy.rule = answers.rule(draw)
        names = [f"random-{number}" for number in range(count)]
        for some in (names[i : i + at_once] for i in range(0, count, at_once)):
            with ExitStack() as stack:
                taken += live(cluster, [drawn(cluster, stack, flock, draw, name) for name in some], answers)
            print("\n".join(map(line, range(len(taken))[-len(some) :], taken[-len(some) :])), flush=True)
    return taken


if __name__ == "__main__":
    sys.exit(main())
