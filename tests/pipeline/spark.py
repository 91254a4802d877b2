"""One Spark session per test run, and rows as Spark's Kafka source has them."""

import datetime as dt
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from bellwether_kafka.coordinator.events import SchemaSet
from bellwether_kafka.pipeline.session import session

COLUMNS = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp"
SCHEMAS = SchemaSet.load()
NOW_MS = 1_790_000_100_000


# A JVM that lives for seconds gains nothing from what takes long to compile, nor do plans that see ten rows.
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
QUICK = {
    "spark.driver.extraJavaOptions": QUICK_JVM,
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@cache
def local_spark(*, quick: bool = True, table_format: str = "parquet") -> SparkSession:
    """The session of this process; `quick` suits a few rows."""
    spark = session(
        "bellwether-tests",
        master="local[2]",
        shuffle_partitions=2,
        table_format=table_format,
        more=QUICK if quick else {},
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def read_batch(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    """Everything that is in the topic now."""
    return spark.read.format("kafka").options(**options).load()


def kafka_rows(spark: SparkSession, values: Sequence[bytes | None], *, appended_ms: int = NOW_MS) -> DataFrame:
    """These values as records of a topic, all appended at one moment."""
    at = dt.datetime.fromtimestamp(appended_ms / 1000, dt.UTC)
    rows = [
        (bytearray(b"g"), None if value is None else bytearray(value), "events", 0, offset, at)
        for offset, value in enumerate(values)
    ]
    return spark.createDataFrame(rows, COLUMNS)


def lag_event(at_ms: int, lag: int, **more: Any) -> bytes:
    entry = {"topic": "t", "partition": 0, "task": None, "role": "active", "member": "m", "committed": 1}
    entry |= {"end": 1 + max(0, lag), "lag": lag, **more}
    return SCHEMAS.encode("lag", {"group": "g", "sampled_at_ms": at_ms, "entries": [entry]})


def traffic_event(
    at_ms: int, size: int, *, partition: int = 0, rack: str = "a", replicas: Sequence[str] = ("b",)
) -> bytes:
    entry = {"topic": "t", "partition": partition, "member": "m", "rack": rack, "leader_rack": replicas[0]}
    entry |= {"replica_racks": list(replicas), "records": size if size < 0 else size // 100, "bytes": size}
    head = {"group": "g", "since_ms": at_ms - 10_000, "sampled_at_ms": at_ms}
    return SCHEMAS.encode("traffic", {**head, "entries": [entry]})


def membership_event(at_ms: int, member: str, change: str = "joined") -> bytes:
    names = {"member": member, "member_id": member, "instance_id": None, "rack": None}
    return SCHEMAS.encode(
        "membership", {"group": "g", "generation": 1, "changed_at_ms": at_ms, "change": change, **names}
    )


def decision_event(at_ms: int, generation: int, moved: int, cause: str = "members joined") -> bytes:
    record = {
        "group": "g",
        "kind": "consumer",
        "generation": generation,
        "decided_at_ms": at_ms,
        "protocol": "range",
        "policy": "kafka",
        "source": "plan",
        "cause_kind": cause,
        "cause": f"round {generation}",
        "members": 3,
        "owned": 12,
        "unowned": 0,
        "kept": 12 - moved,
        "moved": moved,
        "new": 0,
        "lost": 0,
        "withheld": 0,
        "cross_rack": 0,
        "spread": 0,
        "metadata_ms": 1.5,
        "plan_ms": 2.25,
        "sync_ms": 3.0,
        "followup": False,
        "warnings": [],
    }
    return SCHEMAS.encode("decision", record)


def as_dicts(table: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in table.collect()]
