"""The backtest of recorded snapshots on Spark."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from bellwether_kafka.assignors.shared import Weights
from bellwether_kafka.pipeline.records import OUTCOME_SCHEMA, History, SchemaSet, replay_here
from bellwether_kafka.pipeline.source import header


def replay_on_spark(raw: DataFrame, policies: Sequence[str], weights: Weights) -> DataFrame:
    """The backtest on Spark: one task per group and policy. `raw` are Kafka records; a DataFrame of outcomes."""
    headers = [bytearray(schema.header) for schema in SchemaSet.load().versions("snapshot")]
    names = raw.sparkSession.createDataFrame([(policy,) for policy in policies], "policy string")
    recorded = raw.where(header().isin(headers)).select(F.col("key").cast("string").alias("group"), "value")

    def run(frame: Any) -> Any:
        import pandas as pd

        history, schemas = History(), SchemaSet.load()
        for value in frame["value"]:
            history.take(schemas, bytes(value))
        policy = str(frame["policy"].iloc[0])
        names = [column.split()[0] for column in OUTCOME_SCHEMA.split(", ")]
        return pd.DataFrame([asdict(o) for o in replay_here(history, [policy], weights)], columns=names)

    return recorded.crossJoin(F.broadcast(names)).groupBy("group", "policy").applyInPandas(run, OUTCOME_SCHEMA)
