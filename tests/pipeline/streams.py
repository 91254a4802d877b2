"""A topic of events for the streaming jobs, a driver that is killed in the middle of a batch, and tables compared.

What a stream must have written follows from the records alone: every window that ends before its watermark, which the
closing events push to half an hour before `now_ms`, and none of the windows of the closing events themselves.
"""

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from confluent_kafka import Message, Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from bellwether_kafka.coordinator.events import ERROR_HEADER
from bellwether_kafka.pipeline.source import dead_letters
from bellwether_kafka.pipeline.tables import TABLES, Options, weights
from tests.interop.support.brokers import KafkaCluster
from tests.paths import ROOT
from tests.patience import PATIENCE
from tests.pipeline.spark import SCHEMAS, decision_event, lag_event, membership_event, traffic_event
from tests.pipeline.topics import read_until

HOUR_MS = 3_600_000
WATERMARK_MS = HOUR_MS // 2
CLOSING_ROWS = 1  # of every table
QUEUED = 50_000  # half of what librdkafka's queue holds


def values(count: int, end_ms: int) -> list[bytes]:
    """Events of the ten minutes before `end_ms` in the order of their times, one in a hundred junk."""
    records: list[bytes] = []
    for n in range(count):
        at = end_ms - 600_000 + 600_000 * n // count
        kind = n % 5
        if kind == 0:
            records.append(lag_event(at, n % 700, partition=n % 7))
        elif kind == 1:
            records.append(traffic_event(at, 100 * (n % 50), partition=n % 7))
        elif kind == 2:
            records.append(membership_event(at, f"m{n % 11}"))
        elif kind == 3:
            records.append(decision_event(at, n, n % 4))
        else:
            records.append(b"junk" if n % 100 == 4 else lag_event(at, -1))
    return records


def closing(now_ms: int) -> list[bytes]:
    """One event of every table, hours later than the others, so that their windows close and its own stays open."""
    return [lag_event(now_ms, 0), traffic_event(now_ms, 0), membership_event(now_ms, "z"), decision_event(now_ms, 0, 0)]


def publish(
    kafka: KafkaCluster, topic: str, records: Sequence[bytes], at_ms: int | Sequence[int], partitions: int = 3
) -> None:
    """To the topic's partitions in turn; `at_ms` is when they were appended, all at once or each."""
    producer = Producer(kafka.client_config("admin", "admin") | {"enable.idempotence": "true", "linger.ms": 20})
    for n, value in enumerate(records):
        producer.produce(
            topic, value, b"g", partition=n % partitions, timestamp=at_ms if isinstance(at_ms, int) else at_ms[n]
        )
        if n % QUEUED == 0:
            assert producer.flush(60) == 0
    assert producer.flush(60) == 0


def command(kafka: KafkaCluster, output: Path, topic: str, weights_topic: str, *more: str) -> list[str]:
    words = ["run", "--bootstrap", kafka.bootstrap, "--topic", topic, "--output", str(output), "--master", "local[2]"]
    return [
        sys.executable,
        "-m",
        "bellwether_kafka.pipeline",
        *words,
        "--weights-topic",
        weights_topic,
        "--once",
        *more,
    ]


class Victim(Enum):
    """What SIGKILL hits: Python alone (its JVM then ends by itself), the JVM alone (Spark's driver), or both."""

    PYTHON = "the driver's Python"
    JVM = "the driver's JVM"
    GROUP = "the whole process group"


def kill_within_a_batch(words: Sequence[str], output: Path, limit_s: float, victim: Victim = Victim.GROUP) -> set[str]:
    """Runs the jobs and kills them (SIGKILL) once a query has planned a batch further than any was before, at least
    its second; the queries that were within a batch, planned and not committed, at that moment."""
    before = max(0, _newest(output))
    log = output.parent / "killed.log"
    with log.open("w") as sink:
        driver = subprocess.Popen(words, cwd=ROOT, stdout=sink, stderr=sink, start_new_session=True)
    try:
        _wait(lambda: _newest(output) > before, driver, limit_s)
        if victim is Victim.JVM:
            for pid in children(driver.pid):
                os.kill(pid, signal.SIGKILL)
            code = driver.wait(limit_s * PATIENCE)
            assert code == 1, log.read_text()[-2000:]
            assert "Spark's JVM ended" in log.read_text(), log.read_text()[-2000:]
        else:
            jvms = children(driver.pid)
            (os.killpg if victim is Victim.GROUP else os.kill)(driver.pid, signal.SIGKILL)
            driver.wait(30)
            ended(jvms, limit_s)
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait(30)
    return {job for job, _ in _batches(output, "offsets") - _batches(output, "commits")}


def children(pid: int) -> list[int]:
    """Of the driver's Python: the JVM."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def alive(pid: int) -> bool:
    """Whether it runs; what is dead and not yet buried does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _batches(output: Path, kind: str) -> set[tuple[str, int]]:
    return {(p.parent.parent.name, int(p.name)) for p in output.glob(f"checkpoints/*/{kind}/[0-9]*")}


def _newest(output: Path) -> int:
    """The furthest batch that any query has planned; -1 if none has."""
    return max((number for _, number in _batches(output, "offsets")), default=-1)


def _wait(done: Callable[[], bool], driver: "subprocess.Popen[bytes]", limit_s: float) -> None:
    deadline = time.monotonic() + limit_s * PATIENCE
    while not done():
        assert driver.poll() is None, "the jobs ended before they could be killed"
        assert time.monotonic() < deadline, "no query got as far as its next batch"
        time.sleep(0.05)


def ended(pids: Sequence[int], limit_s: float) -> None:
    """Waits for the death of processes: two drivers must not work on one checkpoint."""
    deadline = time.monotonic() + limit_s * PATIENCE
    while any(map(alive, pids)):
        assert time.monotonic() < deadline, f"they live on: {pids}"
        time.sleep(0.1)


@dataclass(frozen=True, slots=True)
class Difference:
    """A table against its batch recomputation, as multisets of rows. `open_rows` are of windows that no stream may
    have written yet."""

    table: str
    rows: int
    missing: tuple[str, ...]
    extra: tuple[str, ...]
    open_rows: int = CLOSING_ROWS

    @property
    def equal(self) -> bool:
        return not self.missing and not self.extra and self.rows > 0 and self.open_rows == CLOSING_ROWS


def compared(
    spark: SparkSession, raw: DataFrame, output: Path, name: str, now_ms: int, table_format: str = "parquet"
) -> Difference:
    """What the jobs wrote under `output` against the same table of all records."""
    written = spark.read.format(table_format).load(f"{output}/tables/{name}")
    if name == "dead_letters":
        columns = ["reason", "event", "topic", "partition", "offset", "timestamp", "day"]
        return _difference(name, dead_letters(raw, SCHEMAS).select(*columns).cache(), written.select(*columns))
    table = TABLES[name](raw, SCHEMAS, Options()).cache()
    closed = F.col("window_end") <= F.timestamp_millis(F.lit(now_ms - WATERMARK_MS))
    open_rows = table.where(~closed).count()
    difference = _difference(name, table.where(closed), written.select(*table.columns), open_rows)
    table.unpersist()
    return difference


def weights_differ(
    spark: SparkSession, raw: DataFrame, kafka: KafkaCluster, weights_topic: str, now_ms: int
) -> dict[str, tuple[object, object]]:
    """By partition, the last weight in the topic and the one of a batch recomputation, where they are not the same."""
    table = TABLES["rates"](raw, SCHEMAS, Options())
    closed = table.where(F.col("window_end") <= F.timestamp_millis(F.lit(now_ms - WATERMARK_MS))).cache()
    wanted = {f"{row['topic']}-{row['partition']}": row.asDict() for row in weights(closed).collect()}
    sent = read_until(
        kafka, weights_topic, lambda messages: {m.key() for m in messages} >= {k.encode() for k in wanted}, 60
    )
    last = {bytes(m.key() or b"").decode(): _weight_in(m) for m in sent}
    pairs = {key: (last.get(key), wanted.get(key)) for key in wanted | last}
    return {key: pair for key, pair in pairs.items() if not _alike(*pair)}


def _weight_in(message: Message) -> dict[str, object]:
    """The fields of the record, with the error of its header, None if it has none."""
    error = dict(message.headers() or ()).get(ERROR_HEADER)
    return {**SCHEMAS.decode(bytes(message.value() or b""))[1], "error": None if error is None else float(error)}


def _alike(sent: dict[str, object] | None, wanted: dict[str, object] | None) -> bool:
    """Whether two weights are the same. Their errors are of sums, whose last bits depend on the order of rows."""
    if sent is None or wanted is None or None in (sent["error"], wanted["error"]):
        return sent == wanted
    own, other = ({name: value for name, value in weight.items() if name != "error"} for weight in (sent, wanted))
    return own == other and math.isclose(float(str(sent["error"])), float(str(wanted["error"])), rel_tol=1e-9)


def _difference(name: str, wanted: DataFrame, written: DataFrame, open_rows: int = CLOSING_ROWS) -> Difference:
    missing, extra = wanted.exceptAll(written), written.exceptAll(wanted)
    return Difference(name, written.count(), _shown(missing), _shown(extra), open_rows)


def _shown(rows: DataFrame) -> tuple[str, ...]:
    """The first rows, for people; none if there is none."""
    return tuple(str(row.asDict(recursive=True)) for row in rows.take(5))
