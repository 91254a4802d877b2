"""The commands that run until they are stopped: `bellwether run`, and `bellwether guard` for `--help`, completion and
the page of commands. When a guard is started, `coordinator.guard` parses the arguments, because it is smaller."""

import asyncio
import os
from pathlib import Path
from typing import Annotated

import structlog
import typer

from bellwether_kafka.coordinator.cli.offline import installed_version
from bellwether_kafka.coordinator.cli.options import Bootstrap, Config, Topic, load_settings, read_settings
from bellwether_kafka.coordinator.cli.output import echo
from bellwether_kafka.coordinator.guard import GRACE_S, GRACE_S_MAX, GuardArguments, run_guard
from bellwether_kafka.coordinator.properties import service_links
from bellwether_kafka.coordinator.runtime import SettingsFile, serve
from bellwether_kafka.coordinator.settings import PREFIX, named
from bellwether_kafka.coordinator.telemetry import configure_logs

log = structlog.get_logger(__name__)


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
    settings = load_settings(bootstrap, config, given, warns=False)
    configure_logs(settings.log_level, settings.log_format)
    if settings.ignored:
        log.warning("settings_ignored", reasons=settings.ignored)
    ignored = sorted(name for name in service_links(os.environ) if name.startswith(PREFIX))
    if ignored:
        log.info("service_links_ignored", variables=ignored, remedy="enableServiceLinks: false in the pod's template")
    file = SettingsFile(config, lambda: read_settings(bootstrap, config, given)) if config is not None else None
    outcome = asyncio.run(serve(settings, installed_version(), file))
    for message in outcome.messages:
        echo(message, err=True)
    raise typer.Exit(outcome.exit_code)


def guard(
    group: Annotated[str, typer.Option(help="The group id, of an application its application id.")],
    command: Annotated[
        list[str] | None, typer.Argument(help="The command that runs the process, behind --.", show_default=False)
    ] = None,
    pid: Annotated[int | None, typer.Option(help="Watch this process instead of running a command.")] = None,
    pid_file: Annotated[
        Path | None, typer.Option(help="The same by a file with its number, which is waited for.", show_default=False)
    ] = None,
    state_dir: Annotated[
        Path | None,
        typer.Option(help="Kafka Streams' state.dir, whose process id identifies its members."),
    ] = None,
    client_id: Annotated[
        list[str] | None, typer.Option(help="A client id that only this process has; may be repeated.")
    ] = None,
    grace: Annotated[
        float,
        typer.Option(
            help="On SIGTERM, seconds to empty the process before it gets the signal.", min=0.0, max=GRACE_S_MAX
        ),
    ] = GRACE_S,
    fence: Annotated[
        bool, typer.Option("--fence/--no-fence", help="End the transactions that it leaves open when it is gone.")
    ] = True,
    bootstrap: Bootstrap = None,
    config: Config = None,
    topic: Topic = None,
) -> None:
    named, ids = tuple(command or ()), tuple(client_id or ())
    given = GuardArguments(group, named, pid, pid_file, state_dir, ids, grace, fence, bootstrap, config, topic)
    raise typer.Exit(run_guard(given))
