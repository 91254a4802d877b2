"""Part of `make prove-pipeline`: does the backtest rank policies as live runs do?

Three workloads on real brokers, each lived through by one group per policy: the same members come and go, the same
load is written, and bytes are measured by who owned what. One group's recording is then replayed under every policy.
"""

import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from confluent_kafka import Producer

from bellwether_kafka.assignors.consumer.registry import KAFKA, LOAD_AWARE
from bellwether_kafka.coordinator.telemetry.history_reader import recorded
from bellwether_kafka.coordinator.telemetry.weights import key_of
from bellwether_kafka.pipeline.records.backtest import BACKTEST_POLICIES, rank, replay, summary
from bellwether_kafka.pipeline.records.codec import SchemaSet
from bellwether_kafka.pipeline.records.history import History
from bellwether_kafka.protocol.primitives.types import TopicPartition
from tests.interop.support.bellwether import Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.groups import RACKS, create_local_topic
from tests.interop.support.members import Flock, Member, partitions_of, wait_settled
from tests.measure.demo_pipeline.load import RECORD_BYTES, Load, skewed
from tests.pipeline.spark import SCHEMAS

PARTITIONS, MEMBERS = 24, 6
MEASURE_S, SETTLE_S, QUIET_S, LIMIT_S = 8.0, 120.0, 3.0, 60.0
# Below these, two policies count as equally good; live runs measure over seconds.
CLOSE, CLOSE_MOVES = 0.05, 3
JOIN = -1


@dataclass(frozen=True, slots=True)
class Workload:
    """`changes` come one after another: a member joins, or the member with this index leaves."""

    name: str
    rates: Sequence[int]
    racked: bool
    protocol: str
    changes: Sequence[int]


WORKLOADS = (
    Workload("skew", skewed(PARTITIONS), racked=False, protocol="cooperative-sticky", changes=(0, JOIN)),
    Workload("racks", [20] * PARTITIONS, racked=True, protocol="cooperative-sticky", changes=(1, JOIN)),
    Workload("churn", [20] * PARTITIONS, racked=False, protocol="range", changes=(0, JOIN, 1, JOIN, 2, JOIN)),
)

Row = Mapping[str, Any]


def main() -> int:
    wanted = sys.argv[1:]
    with KafkaCluster() as kafka:
        found = [same(kafka, w) for w in WORKLOADS if not wanted or w.name in wanted]
    return 0 if all(found) else 1


def same(kafka: KafkaCluster, workload: Workload) -> bool:
    """Runs a workload and tells both rankings; whether no two policies stand the other way round, and the one that the
    backtest recommends is as good as any live."""
    live, replayed = lived(kafka, workload)
    for title, rows in (("live", live), ("backtest", replayed)):
        say(f"{workload.name}, {title}: {'; '.join(map(words, rows))}")
    against = {row["policy"]: row for row in replayed}
    pairs = [
        (a, b, standing(a, b), standing(against[a["policy"]], against[b["policy"]])) for a, b in combinations(live, 2)
    ]
    turned = [f"{a['policy']} and {b['policy']}" for a, b, here, there in pairs if here * there < 0]
    unclear = [f"{a['policy']} and {b['policy']}" for a, b, here, there in pairs if here != there and here * there == 0]
    agreed = len(pairs) - len(turned) - len(unclear)
    recommended = next(row for row in live if row["policy"] == replayed[0]["policy"])
    best = all(standing(recommended, row) <= 0 for row in live)
    say(f"{workload.name}: {agreed} of {len(pairs)} pairs stand alike; turned round: {turned or 'none'}.")
    say(f"  Equal in one only: {unclear or 'none'}. {recommended['policy']} is {'' if best else 'NOT '}best.")
    return not turned and best


def standing(row: Row, other: Row) -> int:
    """-1 if a policy is clearly better than the other, 1 if it is worse, 0 if they are as good."""
    gap, moves = rank(row)[1] - rank(other)[1], row["moved"] - other["moved"]
    if abs(gap) > CLOSE:
        return 1 if gap > 0 else -1
    return 0 if abs(moves) <= CLOSE_MOVES else 1 if moves > 0 else -1


def words(row: Row) -> str:
    return f"{row['policy']} ({row['imbalance']:.2f} times the mean, {row['cross_share']:.0%}, {row['moved']} moved)"


def lived(kafka: KafkaCluster, workload: Workload) -> tuple[list[Row], list[Row]]:
    """What each policy came to live, and in the backtest of what the first group recorded; each best first."""
    topic, events, weights = (f"{workload.name}-{what}" for what in ("load", "events", "weights"))
    create_local_topic(kafka, topic, PARTITIONS)
    weigh(kafka, weights, topic, workload.rates)
    groups = {policy: f"{workload.name}-{policy}" for policy in BACKTEST_POLICIES}
    more: dict[str, dict[str, Any]] = {policy: {} for policy in groups}
    more[KAFKA]["events"] = {"topic": events, "sample_interval_ms": 1_000}
    more[LOAD_AWARE]["weights"] = {"topic": weights}
    with ExitStack() as stack:
        leaders = {
            policy: stack.enter_context(Bellwether(kafka, [group], options={"policy": policy}, **more[policy]))
            for policy, group in groups.items()
        }
        load = stack.enter_context(Load(kafka.client_config("admin", "admin"), topic, workload.rates))
        flock = stack.enter_context(Flock(kafka.bootstrap))
        members = {
            policy: [join(flock, workload, group, topic, n) for n in range(MEMBERS)] for policy, group in groups.items()
        }
        points: list[dict[str, tuple[float, float]]] = [settled_and_measured(load, topic, members)]
        began_ms = int(time.time() * 1000)
        first = {policy: len(lead.log("decision", group=groups[policy])) for policy, lead in leaders.items()}
        for change in workload.changes:
            for policy, present in members.items():
                if change == JOIN:
                    present.append(join(flock, workload, groups[policy], topic, len(present)))
                else:
                    present.pop(change).stop()
            points.append(settled_and_measured(load, topic, members))
        moved = {
            policy: sum(entry["moved"] for entry in lead.log("decision", group=groups[policy])[first[policy] :])
            for policy, lead in leaders.items()
        }
    live = [row(policy, [point[policy] for point in points], moved[policy]) for policy in groups]
    return sorted(live, key=rank), backtested(kafka, events, began_ms)


def join(flock: Flock, workload: Workload, group: str, topic: str, number: int) -> Member:
    rack = RACKS[number // 2 % len(RACKS)] if workload.racked else None
    return flock.member("confluent", group, (topic,), (workload.protocol,), rack=rack)


def weigh(kafka: KafkaCluster, weights: str, topic: str, rates: Sequence[int]) -> None:
    """What the weights job would have written about this load."""
    kafka.create_topic(weights, 1)
    producer = Producer(kafka.client_config("admin", "admin"))
    now_ms = int(time.time() * 1000)
    for partition, rate in enumerate(rates):
        record = {"topic": topic, "partition": partition, "bytes_per_s": float(rate * RECORD_BYTES)}
        record |= {"records_per_s": float(rate), "estimated_at_ms": now_ms, "windows": 1}
        producer.produce(weights, SCHEMAS.encode("weight", record), key_of(TopicPartition(topic, partition)))
    assert producer.flush(30) == 0


def settled_and_measured(
    load: Load, topic: str, members: Mapping[str, Sequence[Member]]
) -> dict[str, tuple[float, float]]:
    """(fullest member over the mean, share of the bytes across racks) of every policy, over the same seconds."""
    for present in members.values():
        wait_settled(present, partitions_of({topic: PARTITIONS}), limit_s=SETTLE_S, quiet_s=QUIET_S)
    before = Counter(load.written)
    time.sleep(MEASURE_S)
    written = {p: load.written[p] - before[p] for p in range(PARTITIONS)}
    return {policy: measured(written, present) for policy, present in members.items()}


def measured(written: Mapping[int, int], members: Sequence[Member]) -> tuple[float, float]:
    loads = [sum(written[partition] for _, partition in member.owned()) for member in members]
    crossed = sum(
        written[partition]
        for member in members
        for _, partition in member.owned()
        if member.fields.get("rack") not in (None, RACKS[partition % len(RACKS)])
    )
    return max(loads) * len(loads) / sum(loads), crossed / sum(loads)


def row(policy: str, points: Sequence[tuple[float, float]], moved: int) -> Row:
    """As a row of `backtest.summary`, as far as policies are ranked by it."""
    imbalance, crossed = (sum(point[i] for point in points) / len(points) for i in (0, 1))
    return {"policy": policy, "failed": 0, "imbalance": imbalance, "cross_share": crossed, "moved": moved}


def backtested(kafka: KafkaCluster, events: str, began_ms: int) -> list[dict[str, Any]]:
    """From the last round before the first measurement on: what comes before is members arriving one by one."""
    history, schemas = History(), SchemaSet.load()
    for value in recorded({"bootstrap.servers": kafka.bootstrap}, events, LIMIT_S, {}):
        history.take(schemas, value)
    (snapshots,) = history.snapshots.values()
    start = max(s["decided_at_ms"] for s in snapshots if s["decided_at_ms"] <= began_ms)
    late = [s for s in snapshots if s["decided_at_ms"] >= start]
    return summary(list(replay(late, BACKTEST_POLICIES, history.weights())))


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
