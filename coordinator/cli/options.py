"""Options that several commands have, and the settings that they make. What is wrong with those ends the process with a
sentence.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from bellwether_kafka.coordinator.cli.output import fail
from bellwether_kafka.coordinator.kafka import ClientConfigError, check_kerberos, client_config
from bellwether_kafka.coordinator.settings import GroupSettings, Settings, SettingsError, load
from bellwether_kafka.coordinator.telemetry import configure_logs

Group = Annotated[str, typer.Argument(help="The group id, of an application its application id.")]
Bootstrap = Annotated[str | None, typer.Option(help="bootstrap.servers: host:port, with commas between.")]
Config = Annotated[Path | None, typer.Option(help="A TOML file.", envvar="BELLWETHER_CONFIG", show_default=False)]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Show it again and again until Ctrl-C.")]
Interval = Annotated[float, typer.Option(help="Seconds between refreshes.", min=1.0)]
DEFAULT_TOPIC = "bellwether-control"  # operators' orders, where none is named
ANY_GROUP = "any"  # settings want a group, and most commands lead none


def load_settings(bootstrap: str | None, config: Path | None, given: Mapping[str, object]) -> Settings:
    """The file, the environment and the command line; `given` is what it says beside --bootstrap. From here on logs go
    to standard error: standard output is for what was asked.
    """
    configure_logs("error")
    try:
        return read_settings(bootstrap, config, given)
    except SettingsError as error:
        fail(str(error))


def read_settings(bootstrap: str | None, config: Path | None, given: Mapping[str, object]) -> Settings:
    """The same for a process that runs already. Raises SettingsError."""
    kafka = {"kafka": {"bootstrap.servers": bootstrap}} if bootstrap is not None else {}
    return load(config, {**kafka, **given})


def settings_for(bootstrap: str | None, config: Path | None, group: str) -> tuple[Settings, bool]:
    """The settings with this group in them, and whether they name it."""
    if config is not None:
        settings = load_settings(bootstrap, config, {})
        try:
            if settings.group(group) is not None:
                return settings, True
        except SettingsError as error:
            if group != ANY_GROUP:
                fail(str(error))
    return load_settings(bootstrap, config, {"groups": [{"name": group}]}), False


def settings_without_group(bootstrap: str | None, config: Path | None) -> Settings:
    """The settings for a command that looks at no group, checked for clients to connect with."""
    settings = load_settings(bootstrap, config, {} if config is not None else {"groups": [ANY_GROUP]})
    check_client(settings)
    return settings


def check_client(settings: Settings) -> None:
    """Ends the process where no client can connect with the properties."""
    try:
        check_kerberos(client_config(settings.properties))
    except ClientConfigError as error:
        fail(str(error))


def group_settings(settings: Settings, group: str) -> GroupSettings:
    """Of a group that `settings_for` was asked for."""
    return settings.group(group) or GroupSettings(name=group)
