"""Where settings come from: a TOML file and the environment, as pydantic-settings reads them, and what it cannot."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource, TomlConfigSettingsSource

from bellwether_kafka.coordinator.settings.errors import SettingsError, suggestion
from bellwether_kafka.coordinator.settings.streams import flattened

PREFIX = "BELLWETHER_"
KAFKA_PREFIX = "BELLWETHER_KAFKA_"
CONFIG_VARIABLE = "BELLWETHER_CONFIG"
PROPERTIES = "kafka"  # the setting that holds librdkafka's properties
FROM_FILE = ".file"
SECRET_BYTES_MAX = 65_536
# Settings of the process that no property is called: whoever writes them below [kafka] meant them above it.
TOP_LEVEL = {"standby", "control_topic", "instance_id", "sidecar_id", "http_address", "log_format", "metrics_by_task"}


class TomlFile(TomlConfigSettingsSource):
    """The configuration file, if one is named. The base class takes one that cannot be read for an empty one."""

    def _read_files(self, files: Any, deep_merge: bool = False) -> dict[str, Any]:  # noqa: ARG002 - of the base class
        table = self._read_file(files) if files is not None else {}
        return table | ({PROPERTIES: as_table(table[PROPERTIES])} if PROPERTIES in table else {})


class Environment(EnvSettingsSource):
    """BELLWETHER_X is the setting x; BELLWETHER_KAFKA_A_B is the property a.b.

    Properties are read here, because the base class would make nested tables of them: names of properties have dots.
    """

    def __init__(self, settings_cls: type[BaseSettings], environ: Mapping[str, str]) -> None:
        _refuse_unknown(settings_cls, environ)
        super().__init__(settings_cls)
        self.env_vars = {name.lower(): value for name, value in environ.items() if name.startswith(PREFIX)}

    def prepare_field_value(self, field_name: str, field: FieldInfo, value: Any, value_is_complex: bool) -> Any:
        if field_name != PROPERTIES:
            return super().prepare_field_value(field_name, field, value, value_is_complex)
        prefix = KAFKA_PREFIX.lower()
        properties = {
            name.removeprefix(prefix).replace("_", "."): text
            for name, text in self.env_vars.items()
            if name.startswith(prefix)
        }
        return {**(as_table(value) if value is not None else {}), **properties} or None


def _refuse_unknown(settings_cls: type[BaseSettings], environ: Mapping[str, str]) -> None:
    known = [*(PREFIX + name.upper() for name in settings_cls.model_fields), CONFIG_VARIABLE]
    for name in sorted(environ):
        if name.startswith(PREFIX) and not name.startswith(KAFKA_PREFIX) and name not in known:
            raise SettingsError(f"The variable {name} is no setting; {suggestion(name, known)}.")


def as_table(value: object) -> dict[str, Any]:
    """A property map as given: a table, or JSON in a variable. What is neither is left to `read_properties`, under a
    name that no property has, so that it survives merging with other sources."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {"": value}
    return dict(value) if isinstance(value, Mapping) else {"": value}


def read_properties(value: object) -> dict[str, SecretStr]:
    if not isinstance(value, Mapping) or "" in value:
        raise ValueError('it must be a table of librdkafka properties, such as "bootstrap.servers" = "host:port"')
    found: dict[str, SecretStr] = {}
    for name, given in flattened(value).items():
        if isinstance(given, list) or given is None:
            raise ValueError(f"the property {name} is no plain value; write it as text")
        text = str(given).lower() if isinstance(given, bool) else str(given)
        target = str(name).removesuffix(FROM_FILE)
        if target in TOP_LEVEL:
            raise ValueError(f"{target} is a setting of the process and not of a client; move it above [kafka]")
        if target in found:
            raise ValueError(f"the property {target} is given twice, as a value and as a file; remove one")
        found[target] = SecretStr(_secret(name, text) if str(name).endswith(FROM_FILE) else text)
    return found


def _secret(name: str, path: str) -> str:
    try:
        with Path(path).open(encoding="utf-8") as source:
            return source.read(SECRET_BYTES_MAX).rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ValueError(f"the file {path} named by {name} cannot be read ({reason}); correct the path") from None
