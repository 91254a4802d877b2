"""Stateful members that are not Streams, led by `bellwether run` on real brokers: the reference member in examples/. A
cold process warms up before it works, a killed one is replaced by its standby, and every record is counted once."""

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.interop.support.bellwether import Bellwether, clean_environment
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import wait_until
from tests.paths import ROOT
from tests.patience import PATIENCE

TASKS = 6
RECORDS = 6_000
KEYS = 50
LAG = 100
PROGRAM = ROOT / "examples" / "stateful_member.py"

pytestmark = [pytest.mark.broker, pytest.mark.timeout(240)]


class Counting:
    """One process of the reference member. `assigned` is the latest assignment, `running` what it works on."""

    def __init__(self, kafka: KafkaCluster, group: str, topic: str, folder: Path, name: str) -> None:
        self.name = name
        self.history: list[dict[str, list[int]]] = []
        self.running: set[int] = set()
        self._stderr = (folder / f"{name}.err").open("w+")
        names = {"group": group, "topic": topic, "changelog": f"{group}-changelog", "state": str(folder / name)}
        options = [part for key, value in names.items() for part in (f"--{key}", value)]
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), "--bootstrap", kafka.bootstrap, *options, "--session-ms", "6000"],
            cwd=ROOT,
            env=clean_environment(),
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.kill()
        self._reader.join(5)
        if self.process.stdout is not None:
            self.process.stdout.close()
        self._stderr.close()

    @property
    def assigned(self) -> dict[str, list[int]]:
        return self.history[-1] if self.history else {"active": [], "standby": [], "warmup": []}

    @property
    def works(self) -> bool:
        """It works on everything that it shall work on."""
        return bool(self.history) and self.running >= set(self.assigned["active"])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(15)

    def reported(self) -> str:
        self._stderr.seek(0)
        return f"{self.name}: {self.history[-3:]}, running {sorted(self.running)}, {self._stderr.read()[-800:]}"

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message: dict[str, Any] = json.loads(line)
            if message["event"] == "assigned":
                self.history.append({kind: message[kind] for kind in ("active", "standby", "warmup")})
                self.running &= set(message["active"])
            elif message["event"] == "running":
                self.running.add(message["task"])


def produce(kafka: KafkaCluster, topic: str, records: int, expected: Counter[str]) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for number in range(records):
        key = f"k{number % KEYS}"
        producer.produce(topic, b"", key)
        expected[key] += 1
        producer.poll(0)
    assert producer.flush(30) == 0


def counts(kafka: KafkaCluster, changelog: str) -> Counter[str]:
    """The counts as they are in the changelog: the last one of each key."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "reads-alone"})
    reported_counts: Counter[str] = Counter()
    try:
        left = {p: consumer.get_watermark_offsets(TopicPartition(changelog, p), 10)[1] for p in range(TASKS)}
        left = {p: end for p, end in left.items() if end}
        consumer.assign([TopicPartition(changelog, p, 0) for p in left])
        deadline = time.monotonic() + 30 * PATIENCE
        while left and time.monotonic() < deadline:
            for message in consumer.consume(1000, timeout=0.5):
                assert message.error() is None
                partition, offset = int(message.partition() or 0), int(message.offset() or 0)
                key, value = message.key(), message.value()
                assert key is not None
                assert value is not None
                reported_counts[key.decode() if isinstance(key, bytes) else key] = json.loads(value)["count"]
                if partition in left and offset + 1 >= left[partition]:
                    del left[partition]
    finally:
        consumer.close()
    return reported_counts


def settled(members: Sequence[Counting], loads: Sequence[int]) -> bool:
    """Each works on its share, nobody warms up, and every task is with one of them."""
    active = [m.assigned["active"] for m in members]
    everything = sorted(task for tasks in active for task in tasks)
    done = all(m.works and not m.assigned["warmup"] for m in members)
    return done and sorted(map(len, active)) == sorted(loads) and everything == list(range(TASKS))


@pytest.mark.smoke
def test_a_cold_member_warms_up_first_and_a_standby_takes_over(kafka: KafkaCluster, tmp_path: Path) -> None:
    group, topic = "stateful-counts", "stateful-orders"
    kafka.create_topic(topic, TASKS)
    kafka.create_topic(f"{group}-changelog", TASKS)
    expected: Counter[str] = Counter()
    produce(kafka, topic, RECORDS, expected)
    options = {
        "kind": "stateful",
        "num.standby.replicas": 1,
        "acceptable.recovery.lag": LAG,
        "max.warmup.replicas": TASKS,
        "coalesce_ms": 1_000,
    }
    with Bellwether(kafka, [group], options=options) as lead:

        def sending(*members: Counting) -> str:
            return "\n".join([*(m.reported() for m in members), lead.tail()])

        def counting(name: str) -> Counting:
            return Counting(kafka, group, topic, tmp_path, name)

        with counting("one") as cold, counting("two") as two:
            both = (cold, two)
            wait_until(lambda: settled(both, [3, 3]), 40, lambda: sending(*both))
            wait_until(lambda: counts(kafka, f"{group}-changelog") == expected, 30, lambda: sending(*both))
            assert all(set(m.assigned["standby"]) == set(range(TASKS)) - set(m.assigned["active"]) for m in both)

            with counting("three") as three:
                trio = (cold, two, three)
                wait_until(lambda: settled(trio, [2, 2, 2]), 60, lambda: sending(*trio))
                first = next(given for given in three.history if any(given.values()))
                assert first["active"] == []
                prepared = {t for given in three.history for t in (*given["warmup"], *given["standby"])}
                assert any(given["warmup"] for given in three.history)
                assert set(three.assigned["active"]) <= prepared, "it kept copies before it worked on them"
                produce(kafka, topic, RECORDS // 2, expected)

                lost = set(cold.assigned["active"])
                survivors = (two, three)
                before = [len(m.history) for m in survivors]
                cold.kill()
                wait_until(lambda: settled(survivors, [3, 3]), 60, lambda: sending(*survivors))
                for member, seen in zip(survivors, before, strict=True):
                    for number, given in enumerate(member.history[seen:], start=seen):
                        taken = (set(given["active"]) - set(member.history[number - 1]["active"])) & lost
                        # Once had, a copy is on disk still; nobody has written to the tasks of the killed one.
                        copies = {t for had in member.history[:number] for kind in had.values() for t in kind}
                        assert taken <= copies, "who has a copy takes over"
                produce(kafka, topic, RECORDS // 2, expected)
                wait_until(lambda: counts(kafka, f"{group}-changelog") == expected, 40, lambda: sending(*survivors))
        assert lead.logged("streams_decision", group=group, source="plan", policy="streams-ha")
