"""The command `bellwether weights`, and the weights that other commands plan and price with."""

import time
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, TypeVar

import typer

from bellwether_kafka.assignors.shared import Weights
from bellwether_kafka.coordinator.cli.options import Bootstrap, Config, settings_without_group
from bellwether_kafka.coordinator.cli.output import As, Output, fail, print_document
from bellwether_kafka.coordinator.settings import Settings, WeightSettings
from bellwether_kafka.coordinator.telemetry import WeightReader

Found = TypeVar("Found")

TIMEOUT_S = 15.0  # longer than the reader waits for brokers that do not answer
IDLE_S = 2.0


class WeightsUnreadError(Exception):
    """The topic cannot be read; the text says why."""


def weights(
    topic: Annotated[str, typer.Option(help="The compacted topic of weights.")] = "bellwether.weights",
    config: Config = None,
    bootstrap: Bootstrap = None,
    output: As = Output.TABLE,
) -> None:
    asked = WeightSettings.model_construct(topic=topic, create_topic=False)  # brokers judge the name
    properties = settings_without_group(bootstrap, config).properties
    try:
        found = _settled(properties, asked, lambda reader: reader.describe())
    except WeightsUnreadError as error:
        fail(f"The topic {topic} cannot be read: {error}; check --topic and bootstrap.servers.")
    if output.is_document:
        print_document(found, output)
        return
    for line in weights_in_words(found):
        typer.echo(line)
    for one in found["heaviest"]:
        typer.echo(f"  {one['partition']}  {one['bytes_per_s']:,.1f} bytes/s")


def group_weights(settings: Settings, topics: Collection[str]) -> tuple[dict[str, Any], Weights] | None:
    """For `describe` and `plan`: what is known of the weights of a group's partitions, and those that may be used; None
    where no topic of weights is named, or it cannot be read, which is said on standard error."""
    if settings.weights is None:
        return None
    config = settings.weights.model_copy(update={"create_topic": False})
    try:
        return _settled(settings.properties, config, lambda reader: (reader.describe(topics=topics), reader.usable()))
    except WeightsUnreadError as error:
        typer.echo(f"Weights are left out: the topic {config.topic} cannot be read: {error}.", err=True)
        return None


def _settled(properties: Mapping[str, str], config: WeightSettings, look: Callable[[WeightReader], Found]) -> Found:
    """What a reader that begins now knows once nothing new comes for a while. Raises WeightsUnreadError."""
    reader = WeightReader(properties, config)
    reader.start()
    deadline, known, since = time.monotonic() + TIMEOUT_S, -1, time.monotonic()
    try:
        while time.monotonic() < deadline and (known <= 0 or time.monotonic() - since < IDLE_S):
            if reader.trouble:
                raise WeightsUnreadError(reader.trouble)
            now = reader.describe(0)["known"]
            if now != known:
                known, since = now, time.monotonic()
            time.sleep(0.1)
        return look(reader)
    finally:
        reader.close()


def weights_in_words(found: Mapping[str, Any]) -> list[str]:
    """One line on how many and how old, and one on each reason why some are not used as they are."""
    least, most = found["age_ms_min"], found["age_ms_max"]
    ages = "" if most is None else f", {least // 1000} to {most // 1000} s old"
    lines = [f"weights from {found['topic']}: {found['used']} of {found['known']} are used{ages}"]
    if found["clamped"]:
        said = "count as more or less than estimated: 1/1000 to 1000 times the median is taken"
        lines.append(f"  {found['clamped']} {said}")
    lines += [f"  {count} not used: {reason}" for reason, count in sorted(found["refused"].items())]
    return lines
