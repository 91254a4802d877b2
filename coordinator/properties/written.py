"""librdkafka's properties as users write them: in a table of a TOML file, in environment variables, or as options."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bellwether_kafka.bounded import json_of, read_file
from bellwether_kafka.coordinator.names import HIDDEN, SECRETS, keep_secret

KAFKA_PREFIX = "BELLWETHER_KAFKA_"
CONTROL_TOPIC = "bellwether-control"  # the name of the control topic, unless settings say another
FROM_FILE = ".file"
SECRET_BYTES_MAX = 65_536
NO_SECRETS = (FROM_FILE, ".url", ".location", ".ms", ".mechanism", ".mechanisms", ".class", ".method", ".name", ".id")
# Words of Kafka's property names: a name with one of them, and letters only, is taken for a name and not for a secret.
WORDS = frozenset(
    re.findall(
        "[a-z]+",
        "acks api auto batch bellwether bootstrap bytes cert certificate check client commit compression config"
        " consumer enable fetch file group id idempotence interceptor isolation jaas key keystore linger location"
        " log max mechanism metadata metrics min ms name password pem plugin producer protocol queue rack receive"
        " reconnect request retries retry sasl secret security send servers session socket ssl timeout token topic"
        " transactional truststore type url username",
    )
)
# Variables that Kubernetes sets for each Service of the namespace, unless a pod has enableServiceLinks: false.
_OF_A_PORT = r"PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?"
_LINK = re.compile(rf"(?P<service>\w+?)_(SERVICE_HOST|SERVICE_PORT(_\w+)?|{_OF_A_PORT})", re.IGNORECASE)
_LINKED = re.compile(r"(tcp|udp|sctp)://[0-9a-fA-F.:\[\]]+:\d+")
# Settings of the process, not of a client. A user who wrote one below [kafka] meant it to be above.
TOP_LEVEL = {
    *("standby", "control_topic", "instance_id", "instance_name", "http_address", "log_format"),
    *("metrics_by_task", "lag_exporter_cluster_name"),
}


def process_properties(file: object, environ: Mapping[str, str], given: object) -> dict[str, str]:
    """Returns the properties of a process, as `properties_in` does: of the file's table, of the environment, and of the
    command line; the last wins. Every process reads them by this function."""
    return properties_in(as_table(file), *environment_tables(environ), as_table(given))


def properties_in(*tables: object) -> dict[str, str]:
    """Returns the properties of these tables as text, by name. A later table replaces what an earlier one says of a
    property, as a value or as `<name>.file`, which is read from that file; only the file in force is read. Raises
    ValueError with the reason, which never contains a value."""
    in_force: dict[str, tuple[str, str]] = {}
    for table in tables:
        in_force |= _by_property(table)
    properties = {
        target: _secret(name, text) if name.endswith(FROM_FILE) else text for target, (name, text) in in_force.items()
    }
    for target, text in properties.items():
        if is_secret(target):
            keep_secret(text)
    return properties


def _by_property(table: object) -> dict[str, tuple[str, str]]:
    """Returns, for each property of one table, the name that was written, perhaps with `.file`, and its text."""
    if not isinstance(table, Mapping) or "" in table:
        raise ValueError('it must be a table of librdkafka properties, such as "bootstrap.servers" = "host:port"')
    properties: dict[str, tuple[str, str]] = {}
    for name, given in flattened(table).items():
        if isinstance(given, list) or given is None:
            raise ValueError(f"the property {shown_name(name)} is no plain value; write it as text")
        target = name.removesuffix(FROM_FILE)
        if target in TOP_LEVEL:
            raise ValueError(f"{target} is a setting of the process and not of a client; move it above [kafka]")
        if target in properties:
            raise ValueError(f"the property {shown_name(target)} is given twice, as a value and as a file; remove one")
        properties[target] = name, str(given).lower() if isinstance(given, bool) else str(given)
    return properties


def environment_tables(environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """Returns the environment's properties, the last to win: the JSON of BELLWETHER_KAFKA, and of variables, where
    BELLWETHER_KAFKA_A_B is a.b. Service links are ignored."""
    links = service_links(environ)
    single = {
        name.removeprefix(KAFKA_PREFIX).lower().replace("_", "."): text
        for name, text in environ.items()
        if name.startswith(KAFKA_PREFIX) and name not in links
    }
    return [as_table(environ.get(KAFKA_PREFIX.removesuffix("_"), {})), single]


def shown_name(name: str) -> str:
    """Returns the name of a property for a message. HIDDEN in place of one that is not made of words as Kafka's are:
    a secret may have been written in the wrong place."""
    words = re.split(r"[._]", name)
    is_name = all(re.fullmatch("[a-z]{1,20}", word) for word in words) and not WORDS.isdisjoint(words)
    return name if is_name else HIDDEN


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


def is_secret(name: str) -> bool:
    """Returns whether the property's name means that its value is a secret."""
    lowered = name.lower()
    return any(word in lowered for word in SECRETS) and not lowered.endswith(NO_SECRETS)


def _secret(name: str, path: str) -> str:
    """Returns the content of the file. Errors hide the path: it may be the secret itself, in the wrong place."""
    try:
        return read_file(Path(path), SECRET_BYTES_MAX).decode().rstrip("\r\n")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ValueError(f"the file named by {shown_name(name)} cannot be read ({reason}); correct the path") from None
