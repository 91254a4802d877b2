"""The brokers and the control topic, from the file and the variables that all commands read. The service's own settings
check more, but are too large to import here."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bellwether_kafka.bounded import CONFIG_BYTES_MAX, OutsideTextError, read_file, toml_of
from bellwether_kafka.coordinator.control import CONTROL_TOPIC
from bellwether_kafka.coordinator.properties import process_properties

BOOTSTRAP = "bootstrap.servers"
CONTROL_VARIABLE = "BELLWETHER_CONTROL_TOPIC"


class GuardSettingsError(ValueError):
    """A setting is wrong; the message is a sentence with the remedy."""


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """librdkafka's properties, which contain secrets in clear text and must not be logged, and the control topic."""

    properties: Mapping[str, str]
    control_topic: str


def broker_settings(
    file: Path | None, bootstrap: str | None, topic: str | None, environ: Mapping[str, str]
) -> BrokerSettings:
    """Reads the file, the environment and the command line; the last wins. Raises GuardSettingsError."""
    table = _read(file) if file is not None else {}
    given = {BOOTSTRAP: bootstrap} if bootstrap is not None else {}
    try:
        properties = process_properties(table.get("kafka", {}), environ, given)
    except ValueError as error:
        raise GuardSettingsError(f"The setting kafka is wrong: {error}.") from None
    if not properties.get(BOOTSTRAP, "").strip():
        raise GuardSettingsError(
            f"{BOOTSTRAP} is not set; use --bootstrap, or name a file that has it by --config or BELLWETHER_CONFIG."
        )
    named = topic or (environ[CONTROL_VARIABLE] if CONTROL_VARIABLE in environ else table.get("control_topic"))
    return BrokerSettings(properties, str(named or CONTROL_TOPIC))


def _read(file: Path) -> dict[str, object]:
    try:
        return toml_of(read_file(file, CONFIG_BYTES_MAX))
    except OSError as error:
        raise GuardSettingsError(
            f"The configuration file {file} cannot be read ({error.strerror}); check --config."
        ) from None
    except OutsideTextError as error:
        raise GuardSettingsError(f"The configuration file {file} cannot be used: {error}; correct it.") from None
