"""Commands around the data pipeline: record a history, replay it under other policies, show the weights in use."""

import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from bellwether_kafka.coordinator.cli.output import As, Output, as_json, fail, tell

if TYPE_CHECKING:
    from bellwether_kafka.assignors.shared import Weights
    from bellwether_kafka.coordinator.telemetry import WeightConfig, WeightReader

Found = TypeVar("Found")

TIMEOUT_S = 10.0
IDLE_S = 2.0

Config = Annotated[Path | None, typer.Option(help="A TOML file.", envvar="BELLWETHER_CONFIG", show_default=False)]


def add_commands(app: typer.Typer) -> None:
    """Puts the commands into the application."""
    app.command()(history)
    app.command()(weights)


def replay_history(history: Path, policies: Sequence[str], *, as_json: bool) -> None:
    """`bellwether simulate --history`: replays recorded groups and says what each policy would have cost."""
    from bellwether_kafka.assignors.consumer import POLICIES
    from bellwether_kafka.pipeline.records import HistoryError, read_history, recommendation, replay_here, summary

    wanted = tuple(policies or POLICIES)
    unknown = sorted(set(wanted) - set(POLICIES))
    if unknown:
        fail(f"The policy {unknown[0]} is not known; stock ones are {', '.join(POLICIES)}.")
    try:
        recorded = read_history(history)
    except HistoryError as error:
        fail(str(error))
    if not recorded.snapshots:
        fail(
            f"The history {history} holds no consumer group; `bellwether replay` decides rounds of applications again."
        )
    began = time.perf_counter()
    outcomes = replay_here(recorded, wanted)
    took_s = time.perf_counter() - began
    for reason, count in sorted(recorded.refused.items()):
        typer.echo(f"{count} records were left out: {reason}.", err=True)
    if as_json:
        for row in summary(outcomes):
            typer.echo(json.dumps(row))
        return
    typer.echo(recommendation(outcomes))
    typer.echo(f"Replayed {len(outcomes)} rounds in {took_s:.2f} s.")


def history(
    file: Annotated[Path, typer.Option(help="The file to write: Avro, or JSON if its name ends with .jsonl.")],
    config: Config = None,
    bootstrap: Annotated[str | None, typer.Option(help="bootstrap.servers: host:port, with commas between.")] = None,
    topic: Annotated[str, typer.Option(help="The events topic.")] = "bellwether.events",
    registry_url: Annotated[str | None, typer.Option(help="The Schema Registry, if events are framed for it.")] = None,
    output: As = Output.TABLE,
) -> None:
    """Copy rounds, plans and traffic from the events topic into a file, for `simulate --history` and `replay`."""
    from confluent_kafka import KafkaException

    from bellwether_kafka.coordinator.kafka import librdkafka_properties
    from bellwether_kafka.coordinator.telemetry import HistoryUnreadError, recorded
    from bellwether_kafka.pipeline.records import RegistryError, SchemaSet, registered, write_history, write_json_lines

    try:
        ids = registered(registry_url, topic, SchemaSet.load()) if registry_url else {}
        values = recorded(librdkafka_properties(_properties(config, bootstrap)), topic, TIMEOUT_S, ids)
        count = (write_json_lines if file.suffix == ".jsonl" else write_history)(file, values)
    except (HistoryUnreadError, RegistryError) as error:
        fail(str(error))
    except KafkaException as error:
        fail(f"The topic {topic} cannot be read: {error.args[0].str()}; check bootstrap.servers and the ACL READ.")
    except OSError as error:
        fail(f"The file {file} cannot be written ({error.strerror}); check --file.")
    tell(output, f"Wrote {count} records to {file}.", records=count, file=str(file))


def weights(
    topic: Annotated[str, typer.Option(help="The compacted topic of weights.")] = "bellwether.weights",
    config: Config = None,
    bootstrap: Annotated[str | None, typer.Option(help="bootstrap.servers: host:port, with commas between.")] = None,
    output: As = Output.TABLE,
) -> None:
    """Show the weights that `load-aware` would use now: how many, how old, the heaviest, what is refused."""
    from bellwether_kafka.coordinator.telemetry import WeightConfig

    found = known_weights(_properties(config, bootstrap), WeightConfig(topic, create_topic=False))
    if output is Output.JSON:
        as_json(found)
        return
    for line in weights_in_words(found):
        typer.echo(line)
    for one in found["heaviest"]:
        typer.echo(f"  {one['partition']}  {one['bytes_per_s']:,.1f} bytes/s")


def known_weights(
    properties: Mapping[str, str], config: "WeightConfig", topics: Collection[str] | None = None
) -> dict[str, Any]:
    """What a reader that begins now knows once nothing new comes for a while (see `WeightReader.describe`)."""
    return _settled(properties, config, lambda reader: reader.describe(topics=topics))


def group_weights(settings: Any, topics: Collection[str]) -> "tuple[dict[str, Any], Weights] | None":
    """For `describe` and `plan`: what is known of the weights of a group's partitions, and those that may be used; None
    where no topic of weights is named."""
    from bellwether_kafka.coordinator.telemetry import WeightConfig

    named = settings.weights
    if named is None:
        return None
    config = WeightConfig(named.topic, named.age_ms_max, create_topic=False)
    return _settled(settings.properties, config, lambda reader: (reader.describe(topics=topics), reader.usable()))


def _settled(properties: Mapping[str, str], config: "WeightConfig", look: "Callable[[WeightReader], Found]") -> "Found":
    from bellwether_kafka.coordinator.telemetry import WeightReader

    reader = WeightReader(properties, config)
    reader.start()
    deadline, known, since = time.monotonic() + TIMEOUT_S, -1, time.monotonic()
    while time.monotonic() < deadline and (known <= 0 or time.monotonic() - since < IDLE_S):
        now = reader.describe(0)["known"]
        if now != known:
            known, since = now, time.monotonic()
        time.sleep(0.1)
    found = look(reader)
    reader.close()
    return found


def weights_in_words(found: Mapping[str, Any]) -> list[str]:
    """One line on how many and how old, and one on each reason why some are not used as they are."""
    ages = (
        "" if found["age_ms_max"] is None else f", {found['age_ms_min'] // 1000} to {found['age_ms_max'] // 1000} s old"
    )
    lines = [f"weights from {found['topic']}: {found['used']} of {found['known']} are used{ages}"]
    if found["clamped"]:
        lines.append(
            f"  {found['clamped']} count as more or less than estimated: 1/1000 to 1000 times the median is taken"
        )
    lines += [f"  {count} not used: {reason}" for reason, count in sorted(found["refused"].items())]
    return lines


def _properties(config: Path | None, bootstrap: str | None) -> dict[str, str]:
    from bellwether_kafka.coordinator.kafka import ClientConfigError, check_kerberos, client_config
    from bellwether_kafka.coordinator.settings import SettingsError, load

    given = {"kafka": {"bootstrap.servers": bootstrap}} if bootstrap is not None else {}
    try:
        # No group is led here, but settings want one.
        properties = load(config, given if config is not None else given | {"groups": ["none"]}).properties
        check_kerberos(client_config(properties))
    except (SettingsError, ClientConfigError) as error:
        fail(str(error))
    return properties
