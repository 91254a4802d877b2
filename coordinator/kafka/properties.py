"""librdkafka's properties as people write them: a table of a TOML file, and variables of the environment."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bellwether_kafka.coordinator.names import SECRETS, keep_secret

KAFKA_PREFIX = "BELLWETHER_KAFKA_"
FROM_FILE = ".file"
SECRET_BYTES_MAX = 65_536
NO_SECRETS = (".url", ".location", ".ms", ".mechanism", ".mechanisms", ".class", ".method", ".name")
# Settings of the process whose names are no properties: below [kafka] they were meant to stand above it.
TOP_LEVEL = {
    *("standby", "control_topic", "instance_id", "sidecar_id", "http_address", "log_format"),
    *("metrics_by_task", "lag_exporter_cluster_name"),
}


def properties_in(value: object) -> dict[str, str]:
    """Properties by name, each as text; `<name>.file` is read. Raises ValueError with the reason, which never holds a
    value."""
    if not isinstance(value, Mapping) or "" in value:
        raise ValueError('it must be a table of librdkafka properties, such as "bootstrap.servers" = "host:port"')
    found: dict[str, str] = {}
    for name, given in flattened(value).items():
        if isinstance(given, list) or given is None:
            raise ValueError(f"the property {name} is no plain value; write it as text")
        text = str(given).lower() if isinstance(given, bool) else str(given)
        target = str(name).removesuffix(FROM_FILE)
        if target in TOP_LEVEL:
            raise ValueError(f"{target} is a setting of the process and not of a client; move it above [kafka]")
        if target in found:
            raise ValueError(f"the property {target} is given twice, as a value and as a file; remove one")
        found[target] = _secret(name, text) if str(name).endswith(FROM_FILE) else text
        if _is_secret(target):
            keep_secret(found[target])
    return found


def environment_properties(environ: Mapping[str, str]) -> dict[str, str]:
    """BELLWETHER_KAFKA_A_B is the property a.b."""
    prefix = KAFKA_PREFIX.lower()
    lowered = {name.lower(): text for name, text in environ.items()}
    return {
        name.removeprefix(prefix).replace("_", "."): text for name, text in lowered.items() if name.startswith(prefix)
    }


def as_table(value: object) -> dict[str, Any]:
    """A property map as given: a table, or JSON in a variable. What is neither is left to `properties_in`, under a
    name that no property has, so that it survives merging with other sources."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {"": value}
    return dict(value) if isinstance(value, Mapping) else {"": value}


def flattened(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """TOML reads a name with dots and without quotes as tables inside tables."""
    found: dict[str, Any] = {}
    for name, value in table.items():
        found |= flattened(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return found


def _is_secret(name: str) -> bool:
    """Whether the value of the property is a secret, by its name."""
    lowered = name.lower()
    return any(word in lowered for word in SECRETS) and not lowered.endswith(NO_SECRETS)


def _secret(name: str, path: str) -> str:
    """The content of the file. An error does not show the path: it may be the secret itself, written in the wrong
    place."""
    try:
        with Path(path).open(encoding="utf-8") as source:
            return source.read(SECRET_BYTES_MAX).rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ValueError(f"the file named by {name} cannot be read ({reason}); correct the path") from None
