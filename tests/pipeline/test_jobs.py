"""Jobs that cannot start say why in one sentence."""

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the extra `pipeline` is not installed: make setup-pipeline")

from bellwether_kafka.pipeline.jobs import Pipeline, PipelineError, check_tables, start
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
