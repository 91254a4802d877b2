"""Jobs that cannot start say why in one sentence, and the backtest is the same on Spark and here."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the extra `pipeline` is not installed: make setup-pipeline")

from assignors.weights import Weights
from pipeline.backtest import BACKTEST_POLICIES, Outcome
from pipeline.history import read_history, replay_here, replay_on_spark, write_history
from pipeline.jobs import Pipeline, PipelineError, start
from tests.pipeline.spark import as_dicts, kafka_rows, local_spark
from tests.unit.pipeline.test_backtest import recorded

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


def test_the_backtest_on_spark_says_what_it_says_here(tmp_path: Path) -> None:
    """Its workers run the Python of the driver, whatever is on the PATH."""
    values = recorded([3, 4, 3])
    write_history(tmp_path / "history", values)
    here = replay_here(read_history(tmp_path / "history"), BACKTEST_POLICIES)
    rows = as_dicts(replay_on_spark(kafka_rows(local_spark(), [*values]), BACKTEST_POLICIES, Weights()))
    assert sorted(map(repr, (Outcome(**row) for row in rows))) == sorted(map(repr, here))
