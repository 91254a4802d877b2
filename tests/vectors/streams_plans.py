"""What each policy decides for Streams tasks in random small applications, and what is then sent: `python -m` writes
the file.

One character per task says which process runs it (0-9a-z, "." is nobody); standbys are "task:process", with "*" for
those that only warm up. As with consumer_plans: write it anew when plans are meant to change, and look at the
difference.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from bellwether_kafka.assignors.consumer import LoadAware
from bellwether_kafka.assignors.shared import NOBODY, IntArray, Rule, Weights
from bellwether_kafka.assignors.streams.application import (
    BALANCE_SUBTOPOLOGY,
    NO_STRATEGY,
    AssignmentConfigs,
    StreamsPlan,
    StreamsView,
)
from bellwether_kafka.assignors.streams.policies import LOAD_AWARE, STREAMS_HA, assign_streams
from bellwether_kafka.assignors.streams.stages import NO_STAGES, StageConfigs
from bellwether_kafka.assignors.streams.threads import spread
from bellwether_kafka.protocol.messages import NEVER_MS
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.consumers import cluster_of
from tests.kit.streams import sent
from tests.kit.streams_views import RACKS, Application, Instance, process_id, random_application
from tests.unit.assignors.streams.fleet import Fleet
from tests.vectors.consumer_plans import LETTERS, stages_text

FILE = Path(__file__).with_name("streams-plans.jsonl")
SEEDS = range(16)
RULES = (Rule("ban", "*", f"member:{process_id(1)}"), Rule("pin", "0", f"member:{process_id(2)}"))
# Policy and stages.
CASES: dict[str, tuple[str, StageConfigs]] = {
    "kafka": ("kafka", NO_STAGES),
    "sticky": ("sticky", NO_STAGES),
    "streams-ha": (STREAMS_HA, NO_STAGES),
    "load-aware": (LOAD_AWARE, NO_STAGES),
    "host affinity": (STREAMS_HA, StageConfigs(host_affinity_ms=60_000)),
    "co-location": (STREAMS_HA, StageConfigs(colocate=((0, 1), (2, 3, 4)))),
    "capacity": (STREAMS_HA, StageConfigs(capacity_tag="cores")),
    "moves budget": (STREAMS_HA, StageConfigs(max_concurrent_moves=1)),
    "rules": (STREAMS_HA, StageConfigs(rules=RULES)),
    "all stages": (
        STREAMS_HA,
        StageConfigs(
            host_affinity_ms=60_000, colocate=((0, 2),), capacity_tag="cores", max_concurrent_moves=2, rules=RULES
        ),
    ),
}


def random_world(random: Random) -> tuple[Application, AssignmentConfigs]:
    """An application with racks and weights in three of four cases."""
    application, configs = random_application(random, tags=random.random() < 0.5, most=6)
    if random.random() < 0.75:
        application.replicas = [random.randrange(len(RACKS)) for _ in range(application.table().size)]
        for instance in application.instances:
            instance.rack = random.choice(RACKS)
        cost = random.choice([None, 0, 1, 10])
        configs = replace(
            configs,
            rack_aware_assignment_strategy=random.choice(["min_traffic", BALANCE_SUBTOPOLOGY, NO_STRATEGY]),
            rack_aware_traffic_cost=cost,
            rack_aware_non_overlap_cost=random.choice([None, 0, 1, 10]) if cost is not None else None,
        )
    for instance in application.instances:
        instance.tags = {**instance.tags, "cores": random.choice(["1", "2", "3", "8", "many"])}
    return application, configs


def _views(name: str, seed: int) -> list[dict[str, Any]]:
    policy, stages = CASES[name]
    random = Random(f"{name} {seed}")
    application, configs = random_world(random)
    rebalances = []
    for _ in range(3):
        view = application.view()
        home = [random.randrange(view.size) if random.random() < 0.3 else NOBODY for _ in range(view.tasks.size)]
        partitions = {f"t{number}": count for number, (count, _) in enumerate(application.subtopologies)}
        view = replace(view, home=np.array(home, dtype=np.int32), cluster=cluster_of(partitions))
        plan = assign_streams(view, configs, policy, stages, load_of(random, view))
        rebalances.append(_rebalance(view, plan))
        application.settle(plan, caught_up=random.random() < 0.6)
        if random.random() < 0.4 and len(application.instances) > 1:
            application.instances.pop(random.randrange(len(application.instances)))
        if random.random() < 0.3:
            rack = random.choice(RACKS) if application.replicas else None
            number = 90 + len(application.instances)
            application.instances.append(Instance(process_id(number), random.randint(1, 2), rack, {"cores": "2"}))
    return rebalances


def load_of(random: Random, view: StreamsView) -> LoadAware:
    weights = {
        TopicPartition(topic, partition): float(random.choice([1, 5, 20, 100]))
        for subtopology in view.tasks.subtopologies
        for topic in subtopology.sources
        for partition in range(8)
        if random.random() < 0.9
    }
    return LoadAware(Weights(weights))


def _rebalance(view: StreamsView, plan: StreamsPlan) -> dict[str, Any]:
    threads = spread(view, plan)
    rebalance: dict[str, Any] = {
        "active": _letters(plan.active),
        "standby": _standbys(plan),
        "threads": f"{_letters(threads.active)} {_letters(threads.standby)}",
    }
    if plan.probing:
        rebalance["probing"] = True
    if plan.deferred:
        rebalance["deferred"] = plan.deferred
    if plan.stages:
        rebalance["stages"] = stages_text(plan.stages)
    if plan.notes:
        rebalance["notes"] = len(plan.notes)
    return rebalance


def _letters(numbers: IntArray) -> str:
    return "".join("." if number < 0 else LETTERS[number] for number in numbers.tolist())


def _standbys(plan: StreamsPlan) -> str:
    each = zip(plan.standby_task.tolist(), plan.standby_process.tolist(), plan.warmup.tolist(), strict=True)
    return " ".join(f"{task}:{LETTERS[process]}{'*' * warm}" for task, process, warm in each)


def _fleet(policy: str, strategy: str, seed: int) -> list[dict[str, Any]]:
    """Whole decisions, bytes to bytes, while instances restart; of the bytes that are sent only a fingerprint."""
    random = Random(f"{policy} {strategy} {seed}")
    fleet = Fleet(policy, strategy, durable=seed % 2 == 0)
    rebalances = [_fleet_rebalance(fleet)]
    for _ in range(3):
        process = random.randrange(3)
        fleet.stop(process)
        if random.random() < 0.6:
            fleet.rebalance()
            rebalances.append(_fleet_rebalance(fleet))
        fleet.start(process, wiped=random.random() < 0.3)
        for _ in range(random.randint(1, 3)):
            fleet.rebalance()
            rebalances.append(_fleet_rebalance(fleet))
    return rebalances


def _fleet_rebalance(fleet: Fleet) -> dict[str, Any]:
    decision = fleet.decision
    assert decision is not None
    print_of = blake2b(digest_size=8)
    for _, blob in decision.assignments:
        print_of.update(blob)
    owners = fleet.owners()
    asks = min(sent(decision, name)[1].next_rebalance_ms for name in fleet.threads)
    return {
        "active": "".join(str(owners[task]) for task in sorted(owners)),
        "standby": _standbys(decision.plan.target),
        "asks again": {0: "now", NEVER_MS: "never"}.get(asks, asks - fleet.now_ms),
        "bytes": print_of.hexdigest(),
    }


FLEETS = {
    f"fleet {policy} {strategy}": (policy, strategy)
    for policy in ("kafka", STREAMS_HA, "sticky")
    for strategy in (NO_STRATEGY, "min_traffic")
}


def record(name: str, seed: int) -> dict[str, Any]:
    rebalances = _fleet(*FLEETS[name], seed) if name in FLEETS else _views(name, seed)
    return {"case": name, "seed": seed, "rebalances": rebalances}


def records() -> Iterator[dict[str, Any]]:
    yield from (record(name, seed) for name in CASES for seed in SEEDS)
    yield from (record(name, seed) for name in FLEETS for seed in range(2))


if __name__ == "__main__":
    FILE.write_text("".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records()), "utf-8")
