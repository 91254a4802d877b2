"""Rules of racks as the configuration file gives them."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from bellwether_kafka.coordinator.planning import RackRules
from bellwether_kafka.coordinator.settings import load


def rack_rules(**racks: Mapping[str, str] | Sequence[str] | Path) -> RackRules:
    """The rules that follow from these settings under [racks]. Raises SettingsError."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bellwether.toml"
        lines = "".join(f"{name} = {_toml(value)}\n" for name, value in racks.items())
        file.write_text(f'[kafka]\n"bootstrap.servers" = "b:9092"\n[[groups]]\nname = "g"\n[racks]\n{lines}')
        return load(file, environ={}).racks.rules()


def _toml(value: Mapping[str, str] | Sequence[str] | Path) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(key)} = {json.dumps(rack)}" for key, rack in value.items()) + " }"
    return json.dumps(str(value) if isinstance(value, Path) else value)
