"""The sources of settings: a TOML file and the environment, read through pydantic-settings."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource, TomlConfigSettingsSource

from bellwether_kafka.bounded import CONFIG_BYTES_MAX, read_file, toml_of
from bellwether_kafka.coordinator.properties import KAFKA_PREFIX, process_properties, service_links
from bellwether_kafka.coordinator.settings.removed import PROCESS, REMOVED
from bellwether_kafka.coordinator.settings.settings_errors import RENAMED, SettingsError, suggestion

PREFIX = "BELLWETHER_"
CONFIG_VARIABLE = "BELLWETHER_CONFIG"
PROPERTIES = "kafka"  # the setting that holds librdkafka's properties
OF_FILE, OF_ENVIRONMENT, GIVEN = "file", "environment", "given"  # its sources
GROUPS, TOPOLOGY = "groups", "topology"
RACKS, FILE = "racks", "file"


class TomlFile(TomlConfigSettingsSource):
    """The configuration file, if one is named. The base class would read an unreadable file as an empty one."""

    def _read_files(self, files: Any, deep_merge: bool = False) -> dict[str, Any]:  # noqa: ARG002 - of the base class
        table = _beside(files, toml_of(read_file(files, CONFIG_BYTES_MAX))) if files is not None else {}
        return {**table, PROPERTIES: {OF_FILE: table.get(PROPERTIES, {})}}


def _beside(file: Path, table: dict[str, Any]) -> dict[str, Any]:
    """Returns the table with the rack file and the groups' topology files relative to the configuration file instead of
    the working directory. Invalid tables are unchanged and checked later."""
    racks = table.get(RACKS)
    if isinstance(racks, dict) and isinstance(racks.get(FILE), str):
        table = {**table, RACKS: {**racks, FILE: str(file.parent / racks[FILE])}}
    groups = table.get(GROUPS)
    if not isinstance(groups, list):
        return table
    resolved = [
        {**group, TOPOLOGY: str(file.parent / group[TOPOLOGY])}
        if isinstance(group, dict) and isinstance(group.get(TOPOLOGY), str)
        else group
        for group in groups
    ]
    return {**table, GROUPS: resolved}


class Environment(EnvSettingsSource):
    """The environment: BELLWETHER_X is the setting x; BELLWETHER_KAFKA_A_B is the property a.b.

    Properties are passed on unread, because the base class would turn their dotted names into nested tables.
    """

    def __init__(self, settings_cls: type[BaseSettings], environ: Mapping[str, str]) -> None:
        _refuse_unknown(settings_cls, environ)
        super().__init__(settings_cls)
        self.env_vars = {name.lower(): value for name, value in environ.items() if name.startswith(PREFIX)}
        self._environ = environ

    def __call__(self) -> dict[str, Any]:
        gone = {name for name in REMOVED[PROCESS] if (PREFIX + name).lower() in self.env_vars}
        return {**super().__call__(), **{name: self.env_vars[(PREFIX + name).lower()] for name in gone}}

    def prepare_field_value(self, field_name: str, field: FieldInfo, value: Any, value_is_complex: bool) -> Any:
        if field_name != PROPERTIES:
            return super().prepare_field_value(field_name, field, value, value_is_complex)
        return {OF_ENVIRONMENT: self._environ}


def _refuse_unknown(settings_cls: type[BaseSettings], environ: Mapping[str, str]) -> None:
    variables = [*(PREFIX + name.upper() for name in settings_cls.model_fields), CONFIG_VARIABLE]
    gone = {PREFIX + name.upper() for name in REMOVED[PROCESS]}
    for name in sorted(environ.keys() - service_links(environ) - gone):
        if name.startswith(PREFIX) and not name.startswith(KAFKA_PREFIX) and name not in variables:
            new = RENAMED.get(name.removeprefix(PREFIX).lower())
            if new is not None:
                raise SettingsError(f"The variable {name} is called {PREFIX}{new.upper()} now; rename it.")
            raise SettingsError(f"The variable {name} is no setting; {suggestion(name, variables)}.")


def read_properties(sources: Mapping[str, Any]) -> dict[str, SecretStr]:
    """Returns the properties of all sources, which are kept apart until here: one function decides which wins."""
    read = process_properties(sources[OF_FILE], sources[OF_ENVIRONMENT], sources[GIVEN])
    return {name: SecretStr(text) for name, text in read.items()}
