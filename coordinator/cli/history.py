"""The command `bellwether history`, and what `simulate --history` says of the file that it writes."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from confluent_kafka import KafkaException

from bellwether_kafka.assignors.consumer import POLICIES
from bellwether_kafka.coordinator.cli.options import Bootstrap, Config, settings_without_group
from bellwether_kafka.coordinator.cli.output import As, Output, as_json, fail, tell
from bellwether_kafka.coordinator.kafka import librdkafka_properties
from bellwether_kafka.coordinator.telemetry import HistoryUnreadError, recorded
from bellwether_kafka.pipeline import records

TIMEOUT_S = 10.0


def history(
    file: Annotated[Path, typer.Option(help="The file to write: Avro, or JSON if its name ends with .jsonl.")],
    config: Config = None,
    bootstrap: Bootstrap = None,
    topic: Annotated[str, typer.Option(help="The events topic.")] = "bellwether.events",
    registry_url: Annotated[str | None, typer.Option(help="The Schema Registry, if events are framed for it.")] = None,
    output: As = Output.TABLE,
) -> None:
    try:
        ids = records.registered(registry_url, topic, records.SchemaSet.load()) if registry_url else {}
        properties = settings_without_group(bootstrap, config).properties
        values = recorded(librdkafka_properties(properties), topic, TIMEOUT_S, ids)
        count = (records.write_json_lines if file.suffix == ".jsonl" else records.write_history)(file, values)
    except (HistoryUnreadError, records.RegistryError) as error:
        fail(str(error))
    except KafkaException as error:
        fail(f"The topic {topic} cannot be read: {error.args[0].str()}; check bootstrap.servers and the ACL READ.")
    except OSError as error:
        fail(f"The file {file} cannot be written ({error.strerror}); check --file.")
    tell(output, f"Wrote {count} records to {file}.", records=count, file=str(file))


def replay_history(history: Path, policies: Sequence[str], output: Output) -> None:
    """`bellwether simulate --history`: replays recorded groups and says what each policy would have cost."""
    wanted = tuple(policies or POLICIES)
    unknown = sorted(set(wanted) - set(POLICIES))
    if unknown:
        fail(f"The policy {unknown[0]} is not known; stock ones are {', '.join(POLICIES)}.")
    try:
        found = records.read_history(history)
    except records.HistoryError as error:
        fail(str(error))
    if not found.snapshots:
        fail(
            f"The history {history} holds no consumer group; `bellwether replay` decides rounds of applications again."
        )
    began = time.perf_counter()
    outcomes = records.replay_here(found, wanted)
    took_s = time.perf_counter() - began
    for reason, count in sorted(found.refused.items()):
        typer.echo(f"{count} records were left out: {reason}.", err=True)
    if output is Output.JSON:
        as_json(records.summary(outcomes))
        return
    typer.echo(records.recommendation(outcomes))
    typer.echo(f"Replayed {len(outcomes)} rounds in {took_s:.2f} s.")
