"""Part of `make prove-pipeline`: many recorded groups through a topic, replayed on one machine and on Spark.

Tells snapshots per second per core of both, and whether both recommend the same.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from confluent_kafka import Producer

from bellwether_kafka.assignors.consumer.decide import decide
from bellwether_kafka.assignors.consumer.registry import Policy
from bellwether_kafka.assignors.shared.memory import Memory
from bellwether_kafka.assignors.shared.model import ClusterView
from bellwether_kafka.coordinator.telemetry.event_records import snapshot_record
from bellwether_kafka.pipeline.records.backtest import BACKTEST_POLICIES
from tests.interop.support.bellwether import run_to_end
from tests.interop.support.brokers import KafkaCluster
from tests.paths import ROOT
from tests.pipeline.spark import SCHEMAS
from tests.unit.assignors.consumer.wire import LiveMember, live_group

TOPIC = "backtest-events"
RACKS = ("az1", "az2", "az3")
GROUPS, PARTITIONS = 100, 120
SIZES = (12, 13, 12, 14, 13, 12, 11, 12, 13, 12)  # members in each recorded round
LIMIT_S = 300
TOOK = re.compile(r"Replayed (\d+) rebalances? in ([0-9.]+) s")


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="prove-backtest-") as directory, KafkaCluster() as kafka:
        kafka.create_topic(TOPIC, 3)
        count = publish(kafka)
        path = Path(directory) / "history"
        copied = run_to_end(["history", "--bootstrap", kafka.bootstrap, "--topic", TOPIC, "--file", str(path)])
        say(f"{count} snapshots of {GROUPS} groups, {PARTITIONS} partitions each. bellwether history: {copied.text}")
        words = ["simulate", "--history", str(path)]
        for policy in BACKTEST_POLICIES:
            words += ["--policy", policy]
        here = told("bellwether simulate", run_to_end(words, limit_s=LIMIT_S).stdout, 1)
        spark = []
        for cores in (1, 2):
            words = ["backtest", "--bootstrap", kafka.bootstrap, "--topic", TOPIC, "--master", f"local[{cores}]"]
            done = subprocess.run(
                [sys.executable, "-m", "bellwether_kafka.pipeline", *words],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                text=True,
                timeout=LIMIT_S,
                check=True,
            )
            spark.append(told(f"backtest on Spark, {cores} cores", done.stdout, cores))
    same = spark == [here, here]
    say("All three recommend the same." if same else f"THEY DIFFER: {[here, *spark]}")
    return 0 if same and copied.code == 0 else 1


def publish(kafka: KafkaCluster) -> int:
    """The same recording under the names of many groups; how many snapshots."""
    records = recorded()
    producer = Producer(kafka.client_config("admin", "admin"))
    for number in range(GROUPS):
        group = f"group-{number}"
        for record in records:
            producer.produce(TOPIC, SCHEMAS.encode("snapshot", {**record, "group": group}), group.encode())
    assert producer.flush(60) == 0
    return GROUPS * len(records)


def recorded() -> list[dict[str, object]]:
    """A group that members join and leave, led by the policy of the default."""
    cluster = ClusterView.of({"t": [[RACKS[p % 3]] for p in range(PARTITIONS)]})
    memory, records = Memory.empty(), []
    members = [LiveMember(f"m{i}", ("t",), RACKS[i % 3]) for i in range(max(SIZES))]
    for n, size in enumerate(SIZES):
        decision = decide(live_group(members[:size], n + 1, "cooperative-sticky"), cluster, memory, Policy("kafka"), n)
        memory = decision.plan.memory
        members = [m.after(decision) if i < size else m for i, m in enumerate(members)]
        records.append(snapshot_record(decision))
    return records


def told(name: str, text: str, cores: int) -> list[str]:
    """Says the rate; what was recommended."""
    *advice, last = text.strip().splitlines()
    hit = TOOK.search(last)
    assert hit is not None, text
    rate = int(hit[1]) / float(hit[2])
    say(f"{name}: {rate:,.0f} replayed snapshots/s, {rate / cores:,.0f} per core ({last})")
    return advice


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
