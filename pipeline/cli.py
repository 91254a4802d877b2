"""The command line of the pipeline. A user's mistake is one sentence and exit code 2."""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bellwether_kafka.pipeline import PipelineError, records

EXIT_INPUT = 2
REGISTRY_HELP = "the Schema Registry, if events are in Confluent's framing"
FORMAT_HELP = "of the tables: parquet, or delta, which needs `make setup-delta`"


def main(arguments: Sequence[str] | None = None) -> None:
    """Raises SystemExit with the exit code."""
    asked = _parser().parse_args(arguments)
    try:
        code = asked.work(asked)
    except (PipelineError, records.HistoryError, records.RegistryError) as error:
        sys.stderr.write(f"{error}\n")
        code = EXIT_INPUT
    raise SystemExit(code)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bellwether_kafka.pipeline", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="the streaming jobs, until SIGTERM")
    run.add_argument("--bootstrap", required=True, metavar="HOST:PORT")
    run.add_argument("--topic", default="bellwether.events")
    run.add_argument("--weights-topic")
    run.add_argument("--output", required=True, metavar="DIR", help="tables and checkpoints")
    run.add_argument("--jobs", help="names with commas between; all by default")
    run.add_argument("--master", help="such as local[2]; leave it out under spark-submit")
    run.add_argument("--kafka", action="append", default=[], metavar="NAME=VALUE", help="a Kafka property")
    run.add_argument("--per-trigger", type=int, help="records per batch at most")
    run.add_argument("--interval", default="10 seconds", help="between batches")
    run.add_argument("--once", action="store_true", help="take what is there, then end")
    run.add_argument("--stop-limit", type=float, default=20.0, metavar="SECONDS", help="then Spark is killed")
    run.add_argument("--price-per-gb", type=float, default=records.PRICE_PER_GB)
    run.add_argument("--watermark", default="30 minutes", help="how long windows wait for late events")
    run.add_argument("--rate-window", default="5 minutes", help="the window of the tables rates and weights")
    run.add_argument("--format", default="parquet", help=FORMAT_HELP)
    run.add_argument("--registry-url", help=REGISTRY_HELP)
    run.set_defaults(work=_run)
    report = commands.add_parser("report", help="the tables as an HTML page with plots")
    report.add_argument("--output", required=True, metavar="DIR", help="of `run`")
    report.add_argument("--html", required=True, metavar="FILE")
    report.add_argument("--history", metavar="FILE", help="of `bellwether history`: policies are compared")
    report.add_argument("--format", default="parquet", help=FORMAT_HELP)
    report.add_argument("--master", default="local[2]")
    report.set_defaults(work=_report)
    backtest = commands.add_parser("backtest", help="replay the topic's snapshots under every policy, on Spark")
    backtest.add_argument("--bootstrap", required=True, metavar="HOST:PORT")
    backtest.add_argument("--topic", default="bellwether.events")
    backtest.add_argument("--policy", action="append", metavar="NAME", help="may be repeated; all by default")
    backtest.add_argument("--rates", metavar="DIR", help="the table `rates`, for weights")
    backtest.add_argument("--format", default="parquet", help=FORMAT_HELP)
    backtest.add_argument("--kafka", action="append", default=[], metavar="NAME=VALUE", help="a Kafka property")
    backtest.add_argument("--registry-url", help=REGISTRY_HELP)
    backtest.add_argument("--price-per-gb", type=float, default=records.PRICE_PER_GB)
    backtest.add_argument("--master")
    backtest.set_defaults(work=_backtest)
    return parser


def _report(asked: argparse.Namespace) -> int:
    from bellwether_kafka.pipeline.jobs import read_tables
    from bellwether_kafka.pipeline.report import render

    history = records.read_history(Path(asked.history)) if asked.history else records.History()
    outcomes = records.replay_here(history, records.BACKTEST_POLICIES)
    spark = _session("report", asked, 4)
    try:
        tables = read_tables(spark, asked.output, asked.format)
    finally:
        spark.stop()
    page = render(tables, records.summary(outcomes), records.recommendation(outcomes))
    Path(asked.html).write_text(page, encoding="utf-8")
    return 0


def _backtest(asked: argparse.Namespace) -> int:
    from bellwether_kafka.assignors.shared import Weights
    from bellwether_kafka.pipeline.backtest import replay_on_spark
    from bellwether_kafka.pipeline.jobs import check_format, local_path, read_table
    from bellwether_kafka.pipeline.source import kafka_options, read_batch, single_objects
    from bellwether_kafka.pipeline.tables import weights
    from bellwether_kafka.protocol.primitives import TopicPartition

    ids = _ids(asked)
    spark = _session("backtest", asked, 8 if asked.master else None)
    known = {}
    if asked.rates:
        check_format(spark, asked.format)
        rows = weights(read_table(spark, local_path(asked.rates), asked.format)).collect()
        known = {TopicPartition(row["topic"], row["partition"]): float(row["bytes_per_s"]) for row in rows}
    raw = single_objects(read_batch(spark, kafka_options(asked.bootstrap, asked.topic, _pairs(asked.kafka))), ids)
    began = time.perf_counter()
    rows = replay_on_spark(raw, asked.policy or records.BACKTEST_POLICIES, Weights(known)).collect()
    took_s = time.perf_counter() - began
    outcomes = [records.BacktestOutcome(**row.asDict()) for row in rows]
    advice = records.recommendation(outcomes, asked.price_per_gb)
    sys.stdout.write(f"{advice}\nReplayed {len(outcomes)} rebalances in {took_s:.2f} s.\n")
    spark.stop()
    return 0


def _pairs(properties: Sequence[str]) -> dict[str, str]:
    return dict(pair.partition("=")[::2] for pair in properties)


def _ids(asked: argparse.Namespace) -> dict[int, records.EventSchema]:
    """What the schema registry calls the schemas; nothing without a registry."""
    url, schemas = asked.registry_url, records.SchemaSet.load()
    return records.registered(url, asked.topic, schemas) if url else {}


def _session(command: str, asked: argparse.Namespace, shuffle_partitions: int | None) -> Any:
    from bellwether_kafka.pipeline.session import session

    name = f"bellwether-{command}"
    spark = session(name, master=asked.master, shuffle_partitions=shuffle_partitions, table_format=asked.format)
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _run(asked: argparse.Namespace) -> int:
    from bellwether_kafka.pipeline.jobs import JOBS, Pipeline, local_path, start
    from bellwether_kafka.pipeline.running import follow
    from bellwether_kafka.pipeline.tables import Options

    every = [job for job in JOBS if asked.weights_topic or job != "weights"]
    pipeline = Pipeline(
        asked.bootstrap,
        asked.topic,
        local_path(asked.output),
        asked.weights_topic,
        _pairs(asked.kafka),
        Options(price_per_gb=asked.price_per_gb, watermark=asked.watermark, rate_window=asked.rate_window),
        asked.per_trigger,
        asked.interval,
        asked.once,
        asked.format,
        _ids(asked),
    )
    spark = _session("pipeline", asked, 4 if asked.master else None)
    queries = start(spark, pipeline, asked.jobs.split(",") if asked.jobs else every)
    return follow(spark, queries, asked.stop_limit)
