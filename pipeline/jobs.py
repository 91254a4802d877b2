"""The streaming jobs: one query per table, each with its own checkpoint, and output in Parquet by day and group.

    python -m bellwether_kafka.pipeline run --bootstrap HOST:PORT --topic bellwether.events --output DIR  # here
    spark-submit --packages ... --py-files bellwether_kafka.zip pipeline/__main__.py run ...   # on a cluster

Exactly once: Spark's file sink lists the files of a batch in its own log, so files that a killed batch left behind are
not read; readers must read the table's directory as a whole. The weights query writes a window of rates to a directory
per batch, which a repeated batch overwrites, and weights to a compacted topic, where the last record counts.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it
from pyspark.sql.avro.functions import to_avro
from pyspark.sql.streaming import StreamingQuery

from bellwether_kafka.coordinator.events import ERROR_HEADER, EventSchema, SchemaSet
from bellwether_kafka.pipeline import PipelineError
from bellwether_kafka.pipeline.session import DELTA, PARQUET
from bellwether_kafka.pipeline.source import dead_letters, kafka_options, read_stream, single_objects
from bellwether_kafka.pipeline.tables import TABLES, Options, weights

CHECKPOINT_VERSION = 1
DESCRIBE_S = 30
RETENTION_DAYS = 90
WEIGHT_DAYS = 8  # of windows that weights are computed from
WEIGHTS, DEAD_LETTERS = "weights", "dead_letters"
JOBS = (*TABLES, DEAD_LETTERS, WEIGHTS)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Where the jobs read and write. `kafka` are Kafka properties besides bootstrap.servers. `ids` are the schemas by
    their ids in a schema registry, for topics in Confluent's framing. `retention_days`: how long tables in Parquet keep
    rows, 0 for ever."""

    bootstrap: str
    topic: str
    output: str
    weights_topic: str | None = None
    kafka: dict[str, str] = field(default_factory=dict)
    options: Options = field(default_factory=Options)
    per_trigger: int | None = None
    interval: str = "10 seconds"
    available_now: bool = False
    table_format: str = PARQUET
    ids: Mapping[int, EventSchema] = field(default_factory=dict)
    retention_days: int = RETENTION_DAYS

    @property
    def source(self) -> dict[str, str]:
        return kafka_options(self.bootstrap, self.topic, self.kafka)

    def table(self, name: str) -> str:
        return f"{self.output}/tables/{name}"

    def checkpoint(self, name: str) -> str:
        return f"{self.output}/checkpoints/{name}"


def start(
    spark: SparkSession, pipeline: Pipeline, jobs: Sequence[str] = JOBS, schemas: SchemaSet | None = None
) -> list[StreamingQuery]:
    """Starts the queries, with `schemas`, by default those of this package. Raises PipelineError for an unknown job, a
    topic that cannot be described, a format without its jars, and a checkpoint of another version, another format or a
    topic that was deleted and created again."""
    if unknown := sorted(set(jobs) - set(JOBS)):
        raise PipelineError(f"There is no job {unknown[0]}; known are {', '.join(JOBS)}.")
    if WEIGHTS in jobs and pipeline.weights_topic is None:
        raise PipelineError("The job weights needs a topic; name it with --weights-topic.")
    check_format(spark, pipeline.table_format)
    jvm = spark._jvm  # noqa: SLF001 - the only way to its properties
    check_file_names(str(jvm.java.lang.System.getProperty("sun.jnu.encoding")), pipeline.output)
    for job in jobs:
        check_tables(spark, pipeline, job)
        check_version(spark, pipeline.checkpoint(job))
    identity = topic_id(spark, pipeline)
    for job in jobs:
        check_topic(spark, pipeline, job, identity)
    schema_set = schemas or SchemaSet.load()
    return [_start(spark, pipeline, job, schema_set) for job in jobs]


def _start(spark: SparkSession, pipeline: Pipeline, job: str, schemas: SchemaSet) -> StreamingQuery:
    raw = single_objects(read_stream(spark, pipeline.source, pipeline.per_trigger), pipeline.ids)
    if job == WEIGHTS:
        table = TABLES["rates"](raw, schemas, pipeline.options)
        writer = table.writeStream.foreachBatch(lambda batch, number: _weigh(batch, number, pipeline, schemas))
    else:
        rows = dead_letters(raw, schemas) if job == DEAD_LETTERS else TABLES[job](raw, schemas, pipeline.options)
        columns = ("day",) if job == DEAD_LETTERS else ("day", "group")
        # One file for each folder and batch, instead of one for each task of the shuffle.
        writer = rows.repartition(*columns).writeStream.format(pipeline.table_format).partitionBy(*columns)
        writer = writer.option("path", pipeline.table(job)).outputMode("append")
        if pipeline.table_format == PARQUET and pipeline.retention_days:
            writer = writer.option("retention", f"{pipeline.retention_days}d")
    writer = writer.queryName(job).option("checkpointLocation", pipeline.checkpoint(job))
    when = {"availableNow": True} if pipeline.available_now else {"processingTime": pipeline.interval}
    return writer.trigger(**when).start()


def _weigh(batch: DataFrame, number: int, pipeline: Pipeline, schemas: SchemaSet) -> None:
    """Stores one batch of closed windows, and computes weights of every partition from these and the windows of the
    last days."""
    if batch.isEmpty():
        return
    write_weights(weights(recent_rates(batch, number, pipeline.table("rates_by_batch"))), pipeline, schemas)


def recent_rates(batch: DataFrame, number: int, table: str) -> DataFrame:
    """Stores one batch of rates, and returns those of the last days. Removes the batches that are older: weights never
    use them again, and otherwise each window would read the folders of all that ever were."""
    spark = batch.sparkSession
    batch.coalesce(1).write.mode("overwrite").parquet(f"{table}/batch={number}")
    kept = spark.read.parquet(table)
    ends = {
        row["batch"]: row["newest"]
        for row in kept.groupBy("batch").agg(F.max("window_start").alias("newest")).collect()
    }
    oldest = max(ends.values()) - timedelta(days=WEIGHT_DAYS)
    old = sorted(number for number, newest in ends.items() if newest <= oldest)
    for number in old:
        _Note(spark, f"{table}/batch={number}").remove()
    recent = spark.read.parquet(table) if old else kept
    return recent.where(F.col("window_start") > F.lit(oldest))


def write_weights(table: DataFrame, pipeline: Pipeline, schemas: SchemaSet) -> None:
    """Writes weights as Avro single objects, keyed by topic-partition, each with its error in a header if known."""
    schema = schemas.latest("weight")
    names = [field["name"] for field in json.loads(schema.text)["fields"]]
    value = F.concat(F.lit(bytearray(schema.header)), to_avro(F.struct(*names), schema.text))
    key = F.concat_ws("-", "topic", F.col("partition").cast("string")).cast("binary")
    sink = {"kafka.bootstrap.servers": pipeline.bootstrap, "topic": str(pipeline.weights_topic)}
    sink |= {f"kafka.{name}": text for name, text in pipeline.kafka.items()}
    columns = [F.col(name).cast(_SPARK_TYPES.get(name, "double")).alias(name) for name in names]
    error = F.struct(F.lit(ERROR_HEADER).alias("key"), F.col("error").cast("string").cast("binary").alias("value"))
    headers = F.when(F.col("error").isNotNull(), F.array(error)).alias("headers")
    whole = table.na.fill(0.0, subset=["bytes_per_s", "records_per_s"]).select(*columns, "error")
    whole.select(key.alias("key"), value.alias("value"), headers).write.format("kafka").options(**sink).save()


_SPARK_TYPES = {"topic": "string", "partition": "int", "estimated_at_ms": "long", "windows": "int"}


def check_format(spark: SparkSession, table_format: str) -> None:
    """Raises PipelineError for an unknown format, or one whose jars Spark does not have."""
    if table_format not in (PARQUET, DELTA):
        raise PipelineError(f"There is no format {table_format}; known are {PARQUET} and {DELTA}.")
    if table_format == DELTA:
        jvm = spark._jvm  # noqa: SLF001 - the only way to its class path
        try:
            jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass("io.delta.tables.DeltaTable")
        except Py4JJavaError:
            raise PipelineError(
                "Spark does not have the jars of the format delta; run `make setup-delta`, or give spark-submit"
                " --packages io.delta:delta-spark_2.13:4.0.0."
            ) from None


def check_file_names(encoding: str, output: str) -> None:
    """Raises PipelineError if Spark writes to this machine's files with a locale that cannot name all groups: the first
    group with another letter than those of ASCII would end all jobs, at each start."""
    if output.startswith("file:") and encoding.upper() != "UTF-8":
        raise PipelineError(
            f"Spark names files in {encoding}, in which not every group has a name; set LC_ALL=C.UTF-8 for the driver"
            " and the executors (spark.executorEnv.LC_ALL)."
        )


# The logs that the writers of each format keep in a table.
LOGS = {PARQUET: "_spark_metadata", DELTA: "_delta_log"}


def check_tables(spark: SparkSession, pipeline: Pipeline, job: str) -> None:
    """Raises PipelineError if the job has written its table in another format, because the new table would lack those
    rows, or with another checkpoint, because Spark's Parquet writer skips every batch whose number the table already
    has."""
    if other := _other_format(spark, pipeline.table(job), pipeline.table_format):
        raise PipelineError(
            f"The table {pipeline.table(job)} is in the format {other}; ask for it with --format {other}, or choose"
            " another --output."
        )
    log, offsets = f"{pipeline.table(job)}/{LOGS[PARQUET]}", f"{pipeline.checkpoint(job)}/offsets"
    if pipeline.table_format == PARQUET and _Note(spark, log).is_there() and not _Note(spark, offsets).is_there():
        raise PipelineError(
            f"The table {pipeline.table(job)} was written with another checkpoint than {pipeline.checkpoint(job)}, so"
            " that batches of the new one would be lost; move the table away, too, or bring its checkpoint back."
        )


def _other_format(spark: SparkSession, path: str, table_format: str) -> str | None:
    """Returns the format of the table at `path` if it is not this one, as its writer's log shows."""
    return next((f for f, log in LOGS.items() if f != table_format and _Note(spark, f"{path}/{log}").is_there()), None)


def check_version(spark: SparkSession, checkpoint: str) -> None:
    """Writes the version beside a new checkpoint. Raises PipelineError for a checkpoint of another version.

    A checkpoint holds the state of a query, and a query of another version must not continue from it.
    """
    note = _Note(spark, f"{checkpoint}/bellwether-version")
    version = note.read()
    if version is None and note.has_neighbours():
        raise PipelineError(
            f"The checkpoint {checkpoint} has no version, so it is none of this pipeline's; choose another --output."
        )
    if version is not None and version != str(CHECKPOINT_VERSION):
        raise PipelineError(
            f"The checkpoint {checkpoint} is of version {version}, this pipeline has version {CHECKPOINT_VERSION};"
            " move it and its table away, and the job computes the table anew."
        )
    note.write(str(CHECKPOINT_VERSION))


def check_topic(spark: SparkSession, pipeline: Pipeline, job: str, identity: str) -> None:
    """Writes the topic's id beside a new checkpoint. Raises PipelineError for a checkpoint of another topic.

    Offsets of a topic that was deleted and created again refer to other records: the job would silently skip some.
    """
    note = _Note(spark, f"{pipeline.checkpoint(job)}/bellwether-topic")
    named = f"{pipeline.topic} {identity}"
    if note.read() not in (None, named):
        raise PipelineError(
            f"The checkpoint {pipeline.checkpoint(job)} was made with another topic than the present {pipeline.topic},"
            " which may have been deleted and created again; move the checkpoint away, and its table"
            f" {pipeline.table(job)}, too: the job reads all of the topic."
        )
    note.write(named)


def topic_id(spark: SparkSession, pipeline: Pipeline) -> str:
    """Returns the broker's id of the topic, which changes if the topic is created again. Raises PipelineError."""
    jvm = spark._jvm  # noqa: SLF001 - the only way to the Kafka client that Spark reads with, and its properties
    properties = jvm.java.util.Properties()
    for name, value in {"bootstrap.servers": pipeline.bootstrap, **pipeline.kafka}.items():
        properties.setProperty(name, value)
    try:
        admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)
        try:
            asked = admin.describeTopics(jvm.java.util.Collections.singletonList(pipeline.topic))
            limit = jvm.java.util.concurrent.TimeUnit.SECONDS
            described = asked.allTopicNames().get(DESCRIBE_S, limit).get(pipeline.topic)
            return str(described.topicId().toString())
        finally:
            admin.close(jvm.java.time.Duration.ZERO)
    except Py4JJavaError as error:
        cause = (error.java_exception.getCause() or error.java_exception).getClass().getSimpleName()
        raise PipelineError(
            f"The topic {pipeline.topic} at {pipeline.bootstrap} cannot be described ({cause});"
            " check --bootstrap, --topic, --kafka and the ACL DESCRIBE."
        ) from None


def prune(spark: SparkSession, pipeline: Pipeline, now_ms: int, jobs: Sequence[str] = JOBS) -> int:
    """Removes the days of tables in Parquet that are older than the retention and that the writer's own list has
    dropped, so that no reader looks for them. A day with a newer file stays: a batch that reads old events writes files
    before they are in the list. Returns their number. A table in Delta has commands for that."""
    if not pipeline.retention_days or pipeline.table_format != PARQUET:
        return 0
    removed = 0
    oldest_at = datetime.fromtimestamp(now_ms / 1000, UTC) - timedelta(days=pipeline.retention_days)
    oldest, oldest_ms = oldest_at.date().isoformat(), int(oldest_at.timestamp() * 1000)
    for job in jobs:
        table = pipeline.table(job)
        old = [name for name in _Note(spark, table).children() if name.startswith("day=") and name < f"day={oldest}"]
        listed = _days_listed(spark, table) if old else frozenset()
        for folder in (_Note(spark, f"{table}/{name}") for name in sorted({*old} - listed)):
            if not folder.written_since(oldest_ms):
                folder.remove()
                removed += 1
    return removed


def _days_listed(spark: SparkSession, table: str) -> frozenset[str]:
    """Returns the folders of days of which the table's list has files."""
    try:
        files = spark.read.parquet(table).inputFiles()
    except AnalysisException:  # the list is empty
        return frozenset()
    return frozenset(part for file in files for part in file.split("/") if part.startswith("day="))


class _Note:
    """A line of text in a file beside a checkpoint, on any of Hadoop's file systems."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._path = spark._jvm.org.apache.hadoop.fs.Path(path)  # noqa: SLF001 - the only way to those file systems
        self._files = self._path.getFileSystem(spark._jsc.hadoopConfiguration())  # noqa: SLF001 - as above

    def is_there(self) -> bool:
        return bool(self._files.exists(self._path))

    def children(self) -> list[str]:
        """Returns the names of files and folders in this folder, none if it is not there."""
        return (
            [str(status.getPath().getName()) for status in self._files.listStatus(self._path)]
            if self.is_there()
            else []
        )

    def written_since(self, at_ms: int) -> bool:
        """Returns whether a file in this folder, or in one below it, was written then or later."""
        files = self._files.listFiles(self._path, True)
        while files.hasNext():
            if files.next().getModificationTime() >= at_ms:
                return True
        return False

    def remove(self) -> None:
        """Removes the folder with all that is in it."""
        self._files.delete(self._path, True)

    def read(self) -> str | None:
        """Returns the text, None if there is no file."""
        if not self.is_there():
            return None
        stream = self._files.open(self._path)
        try:
            return bytes(stream.readAllBytes()).decode().strip()
        finally:
            stream.close()

    def has_neighbours(self) -> bool:
        parent = self._path.getParent()
        return bool(self._files.exists(parent) and len(self._files.listStatus(parent)))

    def write(self, text: str) -> None:
        """Writes the text, unless the file already has it."""
        if self.read() == text:
            return
        out = self._files.create(self._path)
        try:
            out.write(bytearray(text.encode()))
        finally:
            out.close()


def progress(query: StreamingQuery) -> dict[str, object]:
    """Returns the last batch of a query in a few numbers; rows dropped by the watermark are summed over all recent
    batches."""
    last = query.lastProgress
    if last is None:
        return {"job": query.name, "batch": None}
    state = last["stateOperators"]
    operators = [operator for batch in query.recentProgress for operator in batch["stateOperators"]]
    return {
        "job": query.name,
        "batch": last["batchId"],
        "rows": last["numInputRows"],
        "rows_per_s": round(last.get("processedRowsPerSecond") or 0.0),
        "ms": last["durationMs"].get("triggerExecution"),
        "state_rows": sum(operator["numRowsTotal"] for operator in state),
        "dropped_by_watermark": sum(o.get("numRowsDroppedByWatermark", 0) for o in operators),
        "watermark": last.get("eventTime", {}).get("watermark"),
    }


def local_path(text: str) -> str:
    """Returns an output directory in Spark's form: paths of this machine become file: URIs."""
    return text if "://" in text else Path(text).absolute().as_uri()
