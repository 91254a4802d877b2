"""Jobs that cannot start say why in one sentence: a checkpoint of another version, a job that is not there."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the extra `pipeline` is not installed: make setup-pipeline")

from pipeline.jobs import Pipeline, PipelineError, start
from tests.pipeline.spark import local_spark

pytestmark = pytest.mark.timeout(180)


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
