"""Options that several commands share, and the settings made from them. Wrong settings end the process with a
sentence."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from bellwether_kafka.coordinator.cli.output import echo, fail
from bellwether_kafka.coordinator.kafka.wire import ClientConfigError, check_kerberos, client_config
from bellwether_kafka.coordinator.settings import GroupSettings, Settings, SettingsError, load
from bellwether_kafka.coordinator.telemetry import configure_logs

Group = Annotated[str, typer.Argument(help="The group id, of an application its application id.")]
Bootstrap = Annotated[str | None, typer.Option(help="bootstrap.servers: host:port, with commas between.")]
Config = Annotated[Path | None, typer.Option(help="A TOML file.", envvar="BELLWETHER_CONFIG", show_default=False)]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Show it again and again until Ctrl-C.")]
WAIT_S_MAX = 604_800.0  # a week; nothing can be waited for "inf" seconds
Topic = Annotated[
    str | None,
    typer.Option(help="The control topic, else the file's, which is bellwether-control unless it says another."),
]
FOR_HELP = "How long, such as 30s, 10m, 12h or 7d"
WAIT_HELP = "Seconds to wait until it is so; exits 1 if it is not by then."
Wait = Annotated[float, typer.Option(help=WAIT_HELP, min=0.0, max=WAIT_S_MAX)]
Interval = Annotated[float, typer.Option(help="Seconds between refreshes.", min=1.0, max=WAIT_S_MAX)]
UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
ANY_NAME = "*"  # for the group without a name, which brokers list if a consumer commits without group.id
ANY_GROUP = "any"  # settings require a group, and most commands lead none


def load_settings(
    bootstrap: str | None, config: Path | None, given: Mapping[str, object], *, warns: bool = True
) -> Settings:
    """Loads the settings from the file, the environment and the command line; `given` is the command line without
    --bootstrap. From here on logs go to standard error, because standard output is for results. `warns`: say what has
    no effect any more."""
    configure_logs("error")
    try:
        settings = read_settings(bootstrap, config, given)
    except SettingsError as error:
        fail(str(error))
    if warns and settings.ignored:
        echo(" ".join(settings.ignored), err=True)
    return settings


def read_settings(bootstrap: str | None, config: Path | None, given: Mapping[str, object]) -> Settings:
    """Loads the settings as `load_settings` does, for a process that is already running. Raises SettingsError."""
    kafka = {"kafka": {"bootstrap.servers": bootstrap}} if bootstrap is not None else {}
    return load(config, {**kafka, **given})


def settings_for(bootstrap: str | None, config: Path | None, group: str) -> tuple[Settings, bool]:
    """Returns settings that include this group, and whether the configuration has it."""
    if config is not None:
        settings = load_settings(bootstrap, config, {})
        try:
            if settings.group(group) is not None:
                return settings, True
        except SettingsError as error:
            if group != ANY_GROUP:
                fail(str(error))
    entry = {"name": group} if group else {"match": ANY_NAME}
    return load_settings(bootstrap, config, {"groups": [entry]}), False


def settings_without_group(bootstrap: str | None, config: Path | None) -> Settings:
    """Returns the settings for a command that reads no group, after checking the client properties."""
    settings = load_settings(bootstrap, config, {} if config is not None else {"groups": [ANY_GROUP]})
    check_client(settings)
    return settings


def check_client(settings: Settings) -> None:
    """Ends the process if no client can connect with the properties."""
    try:
        check_kerberos(client_config(settings.properties))
    except ClientConfigError as error:
        fail(str(error))


def duration_ms(text: str) -> int:
    """Returns what --for says, such as "30m", in milliseconds, or ends the process with a sentence."""
    hit = re.fullmatch(r"(\d{1,6})(ms|[smhd])", text.strip())
    if hit is None or not int(hit[1]):
        fail(f"--for is '{text}', but must be a number and s, m, h or d, such as 30m.")
    return int(hit[1]) * UNITS_MS[hit[2]]


def group_settings(settings: Settings, group: str) -> GroupSettings:
    """Returns the settings of a group for which `settings_for` was called."""
    return settings.group(group) or (
        GroupSettings(name=group) if group else GroupSettings(match=ANY_NAME).of_group(group)
    )
