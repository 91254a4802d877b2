"""Converts the events topic to typed rows, and to dead letters for records that are no event, no valid row or out of
time.

Whether a record is late follows from the record alone: its own time compared with the broker's append time. So a
restart, other batch boundaries and a batch recomputation give the same result.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it
from pyspark.sql.avro.functions import from_avro

from bellwether_kafka.coordinator.events import (
    CONFLUENT_BYTES,
    CONFLUENT_MARKER,
    HEADER_BYTES,
    MARKER,
    EventSchema,
    SchemaSet,
    confluent,
)

LATE_MS_MAX = 15 * 60_000
AHEAD_MS_MAX = 5 * 60_000
EPOCH_MS_MAX = 10**14  # beyond it, arithmetic on times may overflow
AMOUNT_MAX = 1 << 46  # bytes, records or lag in one sample; larger values are absurd, and sums might overflow
# The field with the time of an event.
TIME_FIELDS: Mapping[str, str] = {
    "decision": "decided_at_ms",
    "assignment": "decided_at_ms",
    "lag": "sampled_at_ms",
    "traffic": "sampled_at_ms",
    "membership": "changed_at_ms",
    "snapshot": "decided_at_ms",
    "round": "decided_at_ms",
}

# Spark writes a group's rows below group=NAME, with each of these characters as %XX. A folder has 255 bytes at most.
_ESCAPED_IN_PATHS = r"[\x01-\x1f\x22#%'*/:=?\\\x7f{\[\]^]"
PATH_BYTES_MAX = 240
NO_NAME = "__HIVE_DEFAULT_PARTITION__"  # Spark's folder for the group without a name

_PLACE = ("topic", "partition", "offset", "timestamp")


def kafka_options(bootstrap: str, topic: str, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns options of Spark's Kafka source. `more` are Kafka properties such as security.protocol."""
    return {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "failOnDataLoss": "true",
        **{f"kafka.{name}": value for name, value in (more or {}).items()},
    }


def read_stream(spark: SparkSession, options: Mapping[str, str], per_trigger: int | None = None) -> DataFrame:
    reader = spark.readStream.format("kafka").options(**options)
    return (reader.option("maxOffsetsPerTrigger", per_trigger) if per_trigger else reader).load()


def single_objects(raw: DataFrame, ids: Mapping[int, EventSchema]) -> DataFrame:
    """Converts values in Confluent's framing to single objects (see `codec.single_object`); other values stay as they
    are."""
    if not ids:
        return raw
    size = CONFLUENT_BYTES
    marked = F.expr("substring(value, 1, 1)") == F.lit(bytearray(CONFLUENT_MARKER))
    framed = marked & (F.length("value") >= size)
    this, rest = F.expr(f"substring(value, 1, {size})"), F.expr(f"substring(value, {size + 1})")
    head: Any = F
    for number, schema in ids.items():
        head = head.when(this == F.lit(bytearray(confluent(number, b""))), F.lit(bytearray(schema.header)))
    head = head.otherwise(F.concat(F.lit(bytearray(MARKER + bytes(3))), this))
    return raw.withColumn("value", F.when(framed, F.concat(head, rest)).otherwise(F.col("value")))


def header() -> Column:
    return F.expr(f"substring(value, 1, {HEADER_BYTES})")


def decoded(raw: DataFrame, event: str, schemas: SchemaSet) -> DataFrame:
    """Returns the records of one event, in any of its versions, as rows of the latest version: `record` (null fields if
    the bytes are malformed), `at_ms` (its own time), and where and when it was appended."""
    mine = raw.where(header().isin([bytearray(s.header) for s in schemas.versions(event)]))
    rows = mine.select(_parsed(F, event, schemas, lambda record: record).alias("record"), *_PLACE)
    return rows.withColumn("at_ms", F.col(f"record.{TIME_FIELDS[event]}")).withColumn("group", F.col("record.group"))


def _parsed(chain: Any, event: str, schemas: SchemaSet, use: Callable[[Column], Column]) -> Column:
    """Extends a chain of `when` by the versions of one event."""
    options = {"mode": "PERMISSIVE", "avroSchema": schemas.latest(event).text}
    body = F.expr(f"substring(value, {HEADER_BYTES + 1})")
    for schema in schemas.versions(event):
        this = header() == F.lit(bytearray(schema.header))
        chain = chain.when(this, use(from_avro(body, schema.text, options)))
    return chain


def trouble() -> Column:
    """Returns why a decoded row is not a valid row of a table, null if it is."""
    appended = F.expr("unix_millis(timestamp)")
    return (
        F.when(F.col("group").isNull() | F.col("at_ms").isNull(), "malformed")
        .when(~_fits_a_path(F.col("group")), "group is no name of a folder")
        .when(~F.col("at_ms").between(0, EPOCH_MS_MAX), "malformed")
        .when(appended - F.col("at_ms") > LATE_MS_MAX, "late")
        .when(F.col("at_ms") - appended > AHEAD_MS_MAX, "from the future")
    )


def _fits_a_path(name: Column) -> Column:
    """Returns whether a folder can be named after this group. Kafka takes any text of up to 32,767 bytes, from anybody
    who may join some group, and a folder that cannot be made, or that is that of another group, would end the jobs for
    all groups, at each start."""
    written = F.octet_length(F.regexp_replace(name, _ESCAPED_IN_PATHS, "%XX"))
    own = F.is_valid_utf8(name) & (F.instr(name, "\0") == 0) & (name != NO_NAME)
    return own & (written <= PATH_BYTES_MAX)


def amount_of(amount: str) -> Column:
    """Returns an amount, -1 (unknown) if it is absurd."""
    return F.when(F.col(amount).between(0, AMOUNT_MAX), F.col(amount)).otherwise(F.lit(-1).cast("long"))


def events(raw: DataFrame, event: str, schemas: SchemaSet) -> DataFrame:
    """Returns the valid rows of one event: the record's fields and `at`, its own time."""
    good = decoded(raw, event, schemas).where(trouble().isNull())
    return good.select(F.expr("timestamp_millis(at_ms)").alias("at"), "record.*")


def dead_letters(raw: DataFrame, schemas: SchemaSet) -> DataFrame:
    """Returns a row for every record that is in no table: where it is, why, and which event it claims to be."""
    head, event = F, F
    for name, field in TIME_FIELDS.items():
        headers = [bytearray(s.header) for s in schemas.versions(name)]
        event = event.when(header().isin(headers), F.lit(name))
        head = _parsed(head, name, schemas, partial(_head, field))
    rows = raw.select(event.alias("event"), head.alias("head"), "value", *_PLACE)
    rows = rows.withColumn("group", F.col("head.group")).withColumn("at_ms", F.col("head.at_ms"))
    marked = F.expr("substring(value, 1, 2)") == F.lit(bytearray(MARKER))
    not_event = F.when(F.col("value").isNotNull() & marked, "unknown schema").otherwise("not an event")
    reason = F.when(F.col("event").isNull(), not_event).otherwise(trouble())
    letters = rows.withColumn("reason", reason).where(F.col("reason").isNotNull())
    return letters.select("reason", "event", *_PLACE, F.to_date("timestamp").alias("day"))


def _head(field: str, record: Column) -> Column:
    return F.struct(record["group"].alias("group"), record[field].alias("at_ms"))
