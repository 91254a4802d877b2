"""Jobs that cannot start say why in one sentence."""

import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the extra `pipeline` is not installed: make setup-pipeline")

from bellwether_kafka.pipeline import PipelineError, jobs
from bellwether_kafka.pipeline.cli import kafka_properties, main
from bellwether_kafka.pipeline.jobs import Pipeline, check_file_names, check_tables, start
from bellwether_kafka.pipeline.session import JARS
from tests.conftest import missing_tool
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import wait_until
from tests.pipeline.spark import local_spark

pytestmark = pytest.mark.timeout(600)


def test_a_checkpoint_of_another_version_is_refused_with_a_remedy(tmp_path: Path) -> None:
    pipeline = Pipeline("127.0.0.1:1", "events", tmp_path.as_uri())
    marked = tmp_path / "checkpoints" / "lag_trends"
    marked.mkdir(parents=True)
    (marked / "bellwether-version").write_text("0")
    with pytest.raises(PipelineError, match="is of version 0, this pipeline has version 1; move it"):
        start(local_spark(), pipeline, ["lag_trends"])
    (marked / "bellwether-version").rename(marked / "other")
    with pytest.raises(PipelineError, match="has no version"):
        start(local_spark(), pipeline, ["lag_trends"])


def test_a_job_that_is_not_there_is_named(tmp_path: Path) -> None:
    pipeline = Pipeline("127.0.0.1:1", "events", tmp_path.as_uri())
    with pytest.raises(PipelineError, match="no job lags"):
        start(local_spark(), pipeline, ["lags"])
    with pytest.raises(PipelineError, match="--weights-topic"):
        start(local_spark(), pipeline, ["weights"])


def test_a_table_in_another_format_is_refused_by_name(tmp_path: Path) -> None:
    pipeline = Pipeline("127.0.0.1:1", "events", tmp_path.as_uri())
    (tmp_path / "tables" / "culprits" / "_delta_log").mkdir(parents=True)
    with pytest.raises(PipelineError, match="culprits is in the format delta; ask for it with --format delta, or"):
        start(local_spark(), pipeline, ["culprits"])
    with pytest.raises(PipelineError, match="run `make setup-delta`"):
        start(local_spark(), replace(pipeline, table_format="delta"), ["culprits"])
    with pytest.raises(PipelineError, match="There is no format csv; known are parquet and delta"):
        start(local_spark(), replace(pipeline, table_format="csv"), ["culprits"])


def test_a_table_of_another_checkpoint_is_not_gone_on_with(tmp_path: Path) -> None:
    """Spark would leave out as many batches as the table has, and say so nowhere."""
    pipeline = Pipeline("127.0.0.1:1", "events", tmp_path.as_uri())
    (tmp_path / "tables" / "culprits" / "_spark_metadata").mkdir(parents=True)
    with pytest.raises(PipelineError, match="batches of the new one would be lost; move the table away, too, or bring"):
        start(local_spark(), pipeline, ["culprits"])
    (tmp_path / "checkpoints" / "culprits" / "offsets").mkdir(parents=True)
    check_tables(local_spark(), pipeline, "culprits")


def test_a_topic_that_was_created_again_is_not_gone_on_with(
    kafka: KafkaCluster, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if not JARS.is_dir():
        missing_tool(request.config, "Spark's jars are not there (make setup-pipeline): no streaming jobs")
    spark, topic = local_spark(), "recreated-events"
    pipeline = Pipeline(kafka.bootstrap, topic, tmp_path.as_uri(), available_now=True)
    kafka.create_topic(topic, 1)
    for _ in range(2):
        (query,) = start(spark, pipeline, ["dead_letters"])
        assert query.awaitTermination(300)
        assert query.exception() is None
    kafka.delete_topic(topic)
    wait_until(lambda: topic not in kafka.admin.list_topics(timeout=10).topics, 60, lambda: "the topic stays")
    with pytest.raises(PipelineError, match=r"cannot be described \(UnknownTopicOrPartitionException\); check --boot"):
        start(spark, pipeline, ["dead_letters"])
    kafka.create_topic(topic, 1)
    with pytest.raises(PipelineError, match="deleted and created again; move the checkpoint away, and its table"):
        start(spark, pipeline, ["dead_letters"])


RATES = "window_start timestamp, topic string, partition int, bytes_per_s double, sampled_at_ms long"


def test_weights_leave_the_batches_of_rates_that_are_older_than_they_use(tmp_path: Path) -> None:
    """They read the folders of all batches that ever were for their newest window."""
    spark, table = local_spark(), (tmp_path / "rates").as_uri()
    first = datetime(2026, 11, 1)  # noqa: DTZ001 - as Spark hands it over
    for number in range(12):
        rows = [(first + timedelta(days=number), "t", 0, float(number), 1)]
        recent = jobs.recent_rates(spark.createDataFrame(rows, RATES), number, table)
        days = sorted(row["window_start"].day for row in recent.select("window_start").collect())
        assert days == list(range(max(1, number - 6), number + 2))
    kept = sorted(int(path.name.removeprefix("batch=")) for path in (tmp_path / "rates").glob("batch=*"))
    assert kept == list(range(4, 12))
    again = jobs.recent_rates(spark.createDataFrame(rows, RATES), 11, table)
    assert again.count() == 8, "a repeated batch replaces itself"


def test_days_beyond_the_retention_are_removed_once_the_writers_list_has_dropped_them(tmp_path: Path) -> None:
    spark = local_spark()
    pipeline = Pipeline("b:9092", "events", tmp_path.as_uri(), retention_days=30)
    table = tmp_path / "tables" / "lag_trends"
    schema = "day string, value int"
    days = ["2026-09-01", "2026-10-30", "2026-11-01", "2026-11-28"]
    spark.createDataFrame([(day, 1) for day in days], schema).write.partitionBy("day").parquet(table.as_uri())
    now_ms = int(datetime(2026, 11, 30, tzinfo=UTC).timestamp() * 1000)
    for file in table.rglob("*.parquet"):
        written_at = datetime.fromisoformat(f"{file.parent.name.removeprefix('day=')}T12:00+00:00").timestamp()
        os.utime(file, (written_at, written_at))

    def left() -> list[str]:
        return sorted(path.name.removeprefix("day=") for path in table.glob("day=*"))

    assert jobs.prune(spark, pipeline, now_ms) == 0, "a reader would still look for them"
    spark_list = {"2026-10-30", "2026-11-01", "2026-11-28"}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(jobs, "_days_listed", lambda *_: frozenset(f"day={day}" for day in spark_list))
        assert jobs.prune(spark, replace(pipeline, retention_days=0), now_ms) == 0
        assert jobs.prune(spark, pipeline, now_ms) == 1
    assert left() == days[1:]


def test_an_old_day_that_a_batch_is_writing_now_is_not_removed(tmp_path: Path) -> None:
    """A first batch reads events that are older than the retention. Their files were removed before they were in the
    list, and no reader could read the table any more."""
    spark = local_spark()
    pipeline = Pipeline("b:9092", "events", tmp_path.as_uri(), retention_days=7)
    table = tmp_path / "tables" / "lag_trends"
    rows = spark.createDataFrame([("2026-01-01", "g", 1)], "day string, group string, value int")
    rows.write.partitionBy("day", "group").parquet(table.as_uri())
    (file,) = table.rglob("*.parquet")
    written_at = file.stat().st_mtime
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(jobs, "_days_listed", lambda *_: frozenset())
        assert jobs.prune(spark, pipeline, int((written_at + 60) * 1000)) == 0
        assert jobs.prune(spark, pipeline, int((written_at + 8 * 86_400) * 1000)) == 1


def test_groups_have_folders_in_any_locale() -> None:
    """In POSIX, one group with another letter than those of ASCII ended all jobs, at each start."""
    code = (
        "from bellwether_kafka.pipeline.session import session\n"
        "spark = session('x', master='local[1]')\n"
        "print(spark._jvm.java.lang.System.getProperty('sun.jnu.encoding'))"
    )
    posix = {"LC_ALL": "POSIX", "PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
    done = subprocess.run([sys.executable, "-c", code], env=posix, capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == "UTF-8"
    check_file_names("UTF-8", "file:///tables")
    check_file_names("ANSI_X3.4-1968", "hdfs://h/tables")
    with pytest.raises(PipelineError, match=r"LC_ALL=C\.UTF-8"):
        check_file_names("ANSI_X3.4-1968", "file:///tables")


def test_a_secret_of_kafka_comes_from_a_file(tmp_path: Path) -> None:
    """The command line of a process is shown to each user of the machine."""
    (tmp_path / "jaas").write_text("org.apache Login required;\n")
    given = [f"sasl.jaas.config.file={tmp_path / 'jaas'}", "security.protocol=SASL_SSL", "ssl.keystore.location=/k=s"]
    assert kafka_properties(given) == {
        "sasl.jaas.config": "org.apache Login required;",
        "security.protocol": "SASL_SSL",
        "ssl.keystore.location": "/k=s",
    }
    more = ("ssl.keystore.key", "sasl.oauthbearer.assertion.private.key.passphrase")
    for name in ("sasl.jaas.config", "ssl.keystore.password", "ssl.key.password", *more):
        with pytest.raises(PipelineError, match=rf"--kafka {name}\.file=PATH") as raised:
            kafka_properties([f"{name}=hunter2"])
        assert "hunter2" not in str(raised.value)
    with pytest.raises(PipelineError, match="correct the path"):
        kafka_properties(["sasl.jaas.config.file=/none"])


@pytest.mark.parametrize("given", ["hunter2", "=hunter2", "sasl.jaas.config.file=hunter2", "SASL.JAAS.CONFIG=hunter2"])
def test_no_message_about_a_property_shows_what_was_written(given: str) -> None:
    """The path of a file may be the secret itself; a name without a value was taken for a property."""
    with pytest.raises(PipelineError, match="--kafka") as raised:
        kafka_properties([given])
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("days", ["-1", "36501", "soon"])
def test_a_retention_that_is_no_number_of_days_ends_no_job_later(days: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", "--bootstrap", "b:9092", "--output", "x", "--retention-days", days])
    assert ended.value.code == 2
