"""What each policy decides for consumer groups in random small worlds, rebalance after rebalance: `python -m` writes
the file.

One character per partition says who gets it (members are 0-9a-z in the order of their joining, "." is nobody). A
difference is either a mistake or a change of plans that was meant: then write the file anew and look at the difference.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from random import Random
from string import ascii_lowercase, digits
from typing import Any

from bellwether_kafka.assignors.consumer import (
    KAFKA,
    LOAD_AWARE,
    STICKY_MIN_CHURN,
    LoadAware,
    PartitionPlan,
    Policy,
    decide,
)
from bellwether_kafka.assignors.shared import ClusterView, Decision, Memory, Rule, StageReport, Weights
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.consumers import LiveMember, given, live_group

FILE = Path(__file__).with_name("consumer-plans.jsonl")
SEEDS = range(24)
LETTERS = digits + ascii_lowercase
RACKS = ("a", "b", "c")
RULES = (Rule("ban", "t0", "member:m0"), Rule("pin", "t1-1", "rack:b"), Rule("pin", "t1-0", "member:m1"))
# Policy, protocol, and what is beside them.
CASES: dict[str, tuple[Policy, str]] = {
    "range": (Policy(KAFKA), "range"),
    "roundrobin": (Policy(KAFKA), "roundrobin"),
    "sticky": (Policy(KAFKA), "sticky"),
    "cooperative-sticky": (Policy(KAFKA), "cooperative-sticky"),
    "rack-first": (Policy("rack-first"), "cooperative-sticky"),
    "sticky-min-churn": (Policy(STICKY_MIN_CHURN), "range"),
    "load-aware": (Policy(LOAD_AWARE), "cooperative-sticky"),
    "rules": (Policy(STICKY_MIN_CHURN).with_rules(RULES), "cooperative-sticky"),
}


@dataclass
class World:
    """A group that lives: its members own what they were sent."""

    random: Random
    large: bool
    protocol: str

    def __post_init__(self) -> None:
        pick = self.random
        self.counts = {f"t{i}": pick.randint(1, 30 if self.large else 8) for i in range(pick.randint(1, 5))}
        self.racks: tuple[str | None, ...] = pick.choice([(None,), RACKS, RACKS, (*RACKS, None)])
        self.replicas = pick.randint(1, 2)
        self.uniform = pick.random() < 0.5
        self.placed: dict[str, list[list[str | None]]] = {}
        self.joined = 0
        self.members: list[LiveMember] = []
        for _ in range(pick.randint(2, 14 if self.large else 5)):
            self.join()
        if pick.random() < 0.5:  # they come with claims, some of which contradict others
            self.members = [
                replace(m, owned=self.some_partitions(), generation=pick.randint(-1, 3)) for m in self.members
            ]

    def join(self) -> None:
        pick, names = self.random, sorted(self.counts)
        topics = names if self.uniform else sorted(pick.sample(names, pick.randint(0, len(names))))
        cooperative = self.protocol == "cooperative-sticky"
        self.members.append(LiveMember(f"m{self.joined}", tuple(topics), pick.choice(self.racks), cooperative))
        self.joined += 1

    def some_partitions(self) -> tuple[TopicPartition, ...]:
        partitions = [TopicPartition(topic, p) for topic, count in self.counts.items() for p in range(count + 1)]
        return tuple(self.random.sample(partitions, self.random.randint(0, len(partitions))))

    def cluster(self) -> ClusterView:
        for topic, count in self.counts.items():
            placed = self.placed.setdefault(topic, [])
            while len(placed) < count:
                placed.append([self.random.choice(self.racks) for _ in range(self.replicas)])
        return ClusterView.of(self.placed)

    def weights(self) -> Weights:
        partitions = [TopicPartition(topic, p) for topic, count in self.counts.items() for p in range(count)]
        return Weights(
            {tp: float(self.random.choice([0, 1, 5, 20, 100])) for tp in partitions if self.random.random() < 0.9}
        )

    def change(self) -> None:
        match self.random.choice(["join", "leave", "grow", "both", "nothing"]):
            case "join":
                self.join()
            case "leave" if len(self.members) > 1:
                self.members.pop(self.random.randrange(len(self.members)))
            case "grow":
                self.counts[self.random.choice(sorted(self.counts))] += self.random.randint(1, 5)
            case "both":
                self.members.pop(0)
                self.join()


def record(name: str, seed: int) -> dict[str, Any]:
    policy, protocol = CASES[name]
    world = World(Random(f"{name} {seed}"), seed % 4 == 0, protocol)
    memory, rebalances = Memory.empty(), []
    for generation in range(4, 8):
        cluster = world.cluster()
        if policy.name == LOAD_AWARE:
            policy = replace(policy, load=LoadAware(world.weights(), {"m0": 2.0, "m1": 0.5}))
        raw = live_group(world.members, generation, protocol)
        decision = decide(raw, cluster, memory, policy, 0)
        rebalances.append(_rebalance(decision))
        world.members = [member.after(decision) for member in world.members]
        memory = decision.plan.memory if world.random.random() < 0.8 else Memory.empty()
        if not decision.followup:
            world.change()
    return {"case": name, "seed": seed, "rebalances": rebalances}


def _rebalance(decision: Decision[PartitionPlan]) -> dict[str, Any]:
    cluster = decision.cluster
    sent = ["."] * cluster.partition_total
    for member, partitions in given(decision).items():
        for topic, partition in partitions:
            flat = cluster.flat(topic, partition)
            assert flat is not None
            sent[flat] = LETTERS[int(member[1:])]
    ids = decision.plan.group.members.ids
    plan = "".join("." if m < 0 else LETTERS[int(ids[m][1:])] for m in decision.plan.owner.tolist())
    rebalance: dict[str, Any] = {"sent": "".join(sent)}
    if decision.followup:
        rebalance["plan"] = plan
    rebalance["score"] = " ".join(f"{value:.6g}" for value in astuple(decision.cost))
    rebalance["stages"] = stages_text(decision.stages)
    if decision.warnings:
        rebalance["warnings"] = list(decision.warnings)
    return rebalance


def stages_text(reports: Sequence[StageReport]) -> str:
    """The scores before and after each stage; "!" for hard ones, "x" where the plan of the stage was not taken."""
    each = (f"{r.before:.6g}>{r.after:.6g}{'!' * r.hard}{'x' * (not r.taken)}" for r in reports)
    return ", ".join(each)


def records() -> Iterator[dict[str, Any]]:
    return (record(name, seed) for name in CASES for seed in SEEDS)


if __name__ == "__main__":
    FILE.write_text("".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records()), "utf-8")
