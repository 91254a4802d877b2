"""librdkafka's properties as users write them: in a table of a TOML file, or in environment variables."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bellwether_kafka.bounded import json_of, read_file
from bellwether_kafka.coordinator.names import SECRETS, keep_secret

KAFKA_PREFIX = "BELLWETHER_KAFKA_"
FROM_FILE = ".file"
SECRET_BYTES_MAX = 65_536
NO_SECRETS = (".url", ".location", ".ms", ".mechanism", ".mechanisms", ".class", ".method", ".name")
# Variables that Kubernetes sets for each Service of the namespace, unless a pod has enableServiceLinks: false.
_OF_A_PORT = r"PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?"
_LINK = re.compile(rf"(?P<service>\w+?)_(SERVICE_HOST|SERVICE_PORT(_\w+)?|{_OF_A_PORT})", re.IGNORECASE)
_LINKED = re.compile(r"(tcp|udp|sctp)://[0-9a-fA-F.:\[\]]+:\d+")
# Settings of the process, not of a client. A user who wrote one below [kafka] meant it to be above.
TOP_LEVEL = {
    *("standby", "control_topic", "instance_id", "instance_name", "http_address", "log_format"),
    *("metrics_by_task", "lag_exporter_cluster_name"),
}


def properties_in(value: object) -> dict[str, str]:
    """Returns the properties as text, by name. A property `<name>.file` is read from that file. Raises ValueError with
    the reason, which never contains a value."""
    if not isinstance(value, Mapping) or "" in value:
        raise ValueError('it must be a table of librdkafka properties, such as "bootstrap.servers" = "host:port"')
    properties: dict[str, str] = {}
    for name, given in flattened(value).items():
        if isinstance(given, list) or given is None:
            raise ValueError(f"the property {name} is no plain value; write it as text")
        text = str(given).lower() if isinstance(given, bool) else str(given)
        target = str(name).removesuffix(FROM_FILE)
        if target in TOP_LEVEL:
            raise ValueError(f"{target} is a setting of the process and not of a client; move it above [kafka]")
        if target in properties:
            raise ValueError(f"the property {target} is given twice, as a value and as a file; remove one")
        properties[target] = _secret(name, text) if str(name).endswith(FROM_FILE) else text
        if _is_secret(target):
            keep_secret(properties[target])
    return properties


def environment_properties(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment's properties: BELLWETHER_KAFKA_A_B is a.b. Service links are ignored."""
    prefix = KAFKA_PREFIX.lower()
    links = service_links(environ)
    lowered = {name.lower(): text for name, text in environ.items() if name not in links}
    return {
        name.removeprefix(prefix).replace("_", "."): text for name, text in lowered.items() if name.startswith(prefix)
    }


def service_links(environ: Mapping[str, str]) -> frozenset[str]:
    """Returns the variables that Kubernetes sets for the Services of a pod's namespace, such as
    BELLWETHER_METRICS_PORT=tcp://10.0.0.7:9790 for a Service called bellwether-metrics."""
    hits = (_LINK.fullmatch(name) for name, text in environ.items() if _LINKED.fullmatch(text))
    services = {hit["service"].lower() for hit in hits if hit}
    named = ((name, _LINK.fullmatch(name)) for name in environ)
    return frozenset(name for name, hit in named if hit and hit["service"].lower() in services)


def as_table(value: object) -> dict[str, Any]:
    """Returns a property map that was given as a table or as JSON. Any other value gets a name that no property has, so
    that it survives merging with other sources and `properties_in` refuses it."""
    if isinstance(value, str):
        try:
            value = json_of(value)
        except ValueError:
            return {"": value}
    return dict(value) if isinstance(value, Mapping) else {"": value}


def flattened(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Joins nested tables into dotted names, because TOML reads an unquoted dotted name as nested tables."""
    joined: dict[str, Any] = {}
    for name, value in table.items():
        joined |= flattened(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return joined


def _is_secret(name: str) -> bool:
    """Returns whether the property's name means that its value is a secret."""
    lowered = name.lower()
    return any(word in lowered for word in SECRETS) and not lowered.endswith(NO_SECRETS)


def _secret(name: str, path: str) -> str:
    """Returns the content of the file. Errors hide the path: it may be the secret itself, in the wrong place."""
    try:
        return read_file(Path(path), SECRET_BYTES_MAX).decode().rstrip("\r\n")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ValueError(f"the file named by {name} cannot be read ({reason}); correct the path") from None
