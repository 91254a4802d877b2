"""The command `bellwether run`: the service."""

import asyncio
from typing import Annotated

import typer

from bellwether_kafka.coordinator.cli.offline import installed_version
from bellwether_kafka.coordinator.cli.options import Bootstrap, Config, load_settings, read_settings
from bellwether_kafka.coordinator.runtime import SettingsFile, serve
from bellwether_kafka.coordinator.settings import named
from bellwether_kafka.coordinator.telemetry import configure_logs


def run(
    config: Config = None,
    bootstrap: Bootstrap = None,
    group: Annotated[
        list[str] | None, typer.Option(help="A group or a pattern such as 'team-*'; may be repeated.")
    ] = None,
    mode: Annotated[str, typer.Option(help="For --group: observe (joins nothing), assist or lead.")] = "observe",
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
) -> None:
    given: dict[str, object] = {"groups": [named(name, mode) for name in group]} if group else {}
    if log_level is not None:
        given["log_level"] = log_level
    settings = load_settings(bootstrap, config, given)
    configure_logs(settings.log_level, settings.log_format)
    file = SettingsFile(config, lambda: read_settings(bootstrap, config, given)) if config is not None else None
    outcome = asyncio.run(serve(settings, installed_version(), file))
    for message in outcome.messages:
        typer.echo(message, err=True)
    raise typer.Exit(outcome.exit_code)
