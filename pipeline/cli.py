"""The command line of the pipeline. A user's mistake is one sentence and exit code 2."""

import argparse
import sys
import time
from collections.abc import Sequence

from bellwether_kafka.coordinator import events
from bellwether_kafka.coordinator.names import without_secrets
from bellwether_kafka.coordinator.properties import is_secret, properties_in, shown_name
from bellwether_kafka.pipeline import PipelineError

EXIT_INPUT = 2
REGISTRY_HELP = "the Schema Registry, if events are in Confluent's framing"
KAFKA_HELP = "a Kafka property; NAME.file=PATH reads its value from a file, as secrets must be"
RETENTION_HELP = "how long tables in Parquet keep rows; 0 for ever"
RETENTION_DAYS_MAX = 36_500
FORMAT_HELP = "of the tables: parquet, or delta, which needs `make setup-delta`"


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a command. Raises SystemExit with the exit code."""
    asked = _parser().parse_args(arguments)
    try:
        code = asked.work(asked)
    except (PipelineError, events.RegistryError) as error:
        sys.stderr.write(f"{without_secrets(str(error))}\n")
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
    run.add_argument("--kafka", action="append", default=[], metavar="NAME=VALUE", help=KAFKA_HELP)
    run.add_argument("--per-trigger", type=int, help="records per batch at most")
    run.add_argument("--interval", default="10 seconds", help="between batches")
    run.add_argument("--once", action="store_true", help="take what is there, then end")
    run.add_argument("--stop-limit", type=float, default=20.0, metavar="SECONDS", help="then Spark is killed")
    run.add_argument("--price-per-gb", type=float, default=0.01)
    run.add_argument("--watermark", default="30 minutes", help="how long windows wait for late events")
    run.add_argument("--rate-window", default="5 minutes", help="the window of the tables rates and weights")
    run.add_argument("--retention-days", type=days, default=90, metavar="DAYS", help=RETENTION_HELP)
    run.add_argument("--format", default="parquet", help=FORMAT_HELP)
    run.add_argument("--registry-url", help=REGISTRY_HELP)
    run.set_defaults(work=_run)
    return parser


def days(text: str) -> int:
    """Reads a number of days, for argparse. Raises ValueError."""
    number = int(text)
    if not 0 <= number <= RETENTION_DAYS_MAX:
        raise ValueError
    return number


def kafka_properties(given: Sequence[str]) -> dict[str, str]:
    """Returns the properties of NAME=VALUE and NAME.file=PATH, of which the last wins, as every process reads them.
    Raises PipelineError for a file that cannot be read, for text that is none of these, and for a secret on the command
    line, which each user of the machine can see in the list of processes."""
    pairs = [pair.partition("=") for pair in given]
    wrong = []
    for name, separator, _ in pairs:
        if not (name and separator):
            wrong.append(f"--kafka takes NAME=VALUE or NAME.file=PATH, and {shown_name(name)} is neither.")
        elif is_secret(name):
            wrong.append(
                f"The property {shown_name(name)} is a secret, which a command line shows to all; write --kafka"
                f" {shown_name(name)}.file=PATH, with the value in that file."
            )
    if wrong:
        raise PipelineError(" ".join(wrong))
    try:
        return properties_in(*({name: value} for name, _, value in pairs))
    except ValueError as error:
        raise PipelineError(f"A value of --kafka cannot be used: {error}.") from None


def _ids(asked: argparse.Namespace) -> dict[int, events.EventSchema]:
    """Returns the schemas by their ids in the Schema Registry; {} without a registry."""
    url, schemas = asked.registry_url, events.SchemaSet.load()
    return events.registered(url, asked.topic, schemas) if url else {}


def _run(asked: argparse.Namespace) -> int:
    from bellwether_kafka.pipeline.jobs import JOBS, Pipeline, local_path, prune, start
    from bellwether_kafka.pipeline.running import follow
    from bellwether_kafka.pipeline.session import session
    from bellwether_kafka.pipeline.tables import Options

    every = [job for job in JOBS if asked.weights_topic or job != "weights"]
    pipeline = Pipeline(
        asked.bootstrap,
        asked.topic,
        local_path(asked.output),
        asked.weights_topic,
        kafka_properties(asked.kafka),
        Options(price_per_gb=asked.price_per_gb, watermark=asked.watermark, rate_window=asked.rate_window),
        asked.per_trigger,
        asked.interval,
        asked.once,
        asked.format,
        _ids(asked),
        asked.retention_days,
    )
    partitions = 4 if asked.master else None
    spark = session(
        "bellwether-pipeline", master=asked.master, shuffle_partitions=partitions, table_format=asked.format
    )
    spark.sparkContext.setLogLevel("ERROR")
    queries = start(spark, pipeline, asked.jobs.split(",") if asked.jobs else every)
    return follow(spark, queries, asked.stop_limit, lambda: prune(spark, pipeline, int(time.time() * 1000)))
