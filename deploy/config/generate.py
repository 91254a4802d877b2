"""Writes bellwether.toml beside it, with every setting: `python deploy/config/generate.py`.

A test compares, and loads the file with every line uncommented. Names, defaults and texts come from the settings. A
setting is commented out without a space behind the `#`; prose has one.
"""

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from bellwether_kafka.coordinator.settings import CostSettings, EventSettings, RackSettings, Settings, WeightSettings
from bellwether_kafka.coordinator.settings.group_settings import PATTERN_FIELDS, GroupSettings
from bellwether_kafka.coordinator.settings.streams import STREAMS_FIELDS

HERE = Path(__file__).parent
FILE = HERE / "bellwether.toml"
WIDTH = 120
HEAD = """\
# Every setting of Bellwether. Made by `python deploy/config/generate.py`.
#
# Copy what you need, or have `bellwether init` write a file for your cluster. A line `#name = value` shows a default;
# remove the `#` to set it. The lines without a `#` are enough to observe all groups of a cluster. The same
# settings are in docs/reference/configuration.md as tables.
"""
TABLES: Mapping[str, type[BaseModel]] = {
    "events": EventSettings,
    "weights": WeightSettings,
    "cost": CostSettings,
    "racks": RackSettings,
}
NO_DEFAULT = "Not set by default; this is an example."
# What a setting without a default is shown with.
EXAMPLES: Mapping[tuple[type[BaseModel], str], Any] = {
    (EventSettings, "topic"): "bellwether.events",
    (EventSettings, "registry_url"): "http://registry:8081",
    (WeightSettings, "topic"): "bellwether.weights",
    (CostSettings, "price_per_gb"): 0.02,
    (CostSettings, "follower_fetching"): True,
    (RackSettings, "client_ids"): {"orders-az1-*": "az1"},
    (RackSettings, "hosts"): {"10.1.0.0/16": "az1"},
    (RackSettings, "file"): "racks.txt",
    (RackSettings, "fetch_from_followers"): ("clicks-*",),
    (GroupSettings, "subscribes"): True,
    (GroupSettings, "ghosts"): True,
    (GroupSettings, "instance_id"): "bellwether-orders",
    (GroupSettings, "linger_ms"): 300_000,
    (GroupSettings, "topology"): "wordcount.yaml",
    (GroupSettings, "standby_lag_max"): 100_000,
    (GroupSettings, "stores"): "persistent",
    (GroupSettings, "rack_aware_traffic_cost"): 10,
    (GroupSettings, "rack_aware_non_overlap_cost"): 1,
    (GroupSettings, "topic_configs"): 1_048_576,
}
# Any config of a topic may follow the prefix, so that one has to be chosen.
WRITTEN_AS = {"topic_configs": "topic.segment.bytes"}


@dataclass(frozen=True, slots=True)
class Section:
    """A table of the file: `given` are settings that this example has and others have not, `fields` the rest."""

    title: str
    header: str
    model: type[BaseModel]
    fields: Iterable[str]
    given: Mapping[str, Any] = field(default_factory=dict)


def sample() -> str:
    """The whole file."""
    words = {name: str(field.description) for name, field in Settings.model_fields.items()}
    top = [name for name in Settings.model_fields if name not in {"kafka", "groups", *TABLES}]
    parts = [
        HEAD,
        _drawn(Section("", "", Settings, top)),
        _prose(words["kafka"]) + '[kafka]\n"bootstrap.servers" = "broker-1:9092"',
        _prose("`<name>.file` reads a value from a file; docs/guides/security.md has every way to log in")
        + '#"security.protocol" = "SASL_SSL"\n#"sasl.mechanism" = "SCRAM-SHA-512"\n#"sasl.username" = "bellwether"\n'
        '#"sasl.password.file" = "/run/secrets/kafka-password"\n#"ssl.ca.location" = "/etc/ssl/certs/ca.pem"\n',
        *(_drawn(Section(words[name], f"[{name}]", model, model.model_fields)) for name, model in TABLES.items()),
        _prose(words["groups"]) + '[[groups]]\nmatch = "*"\n',
        *(_drawn(section) for section in _groups()),
    ]
    return "\n".join(parts)


def _groups() -> Iterable[Section]:
    """An example of each kind, which together have every setting of a group."""
    pattern = {"match": "team-a-*", "exclude": ("*-test",), "mode": "observe"}
    consumers = {"name": "orders", "mode": "lead", "kind": "consumer"}
    streams = {"name": "wordcount", "mode": "lead", "kind": "streams", "policy": "streams-ha"}
    common = [name for name in GroupSettings.model_fields if name not in {*STREAMS_FIELDS, *PATTERN_FIELDS, *consumers}]
    own = [name for name in GroupSettings.model_fields if name in STREAMS_FIELDS]
    for title, given, fields in (
        ("groups that a pattern selects", pattern, []),
        ("a group of plain consumers; times are milliseconds", consumers, common),
        ("a Kafka Streams application, which may have the settings of a group above as well", streams, own),
    ):
        yield Section(title, "[[groups]]", GroupSettings, fields, given)


def _drawn(section: Section) -> str:
    lines = _prose(section.title) + f"#{section.header}\n" if section.header else ""
    for name in (*section.given, *section.fields):
        info = section.model.model_fields[name]
        shown = info.alias or name
        value, note = section.given.get(name), ""
        if name not in section.given:
            value, note = _shown(section.model, name, info)
        lines += _prose(str(info.description), note) + f"#{_key(WRITTEN_AS.get(name, shown))} = {toml(value)}\n"
    return lines


def _shown(model: type[BaseModel], name: str, info: FieldInfo) -> tuple[Any, str]:
    """The default of a setting; of one that has none an example, and what says so."""
    if (model, name) in EXAMPLES:
        note = NO_DEFAULT if not info.is_required() else "There is no default."
        return EXAMPLES[model, name], note
    default = info.get_default(call_default_factory=True, validated_data={})
    if default is None or default is PydanticUndefined:
        raise SystemExit(f"deploy/config/generate.py: EXAMPLES lacks {name} of {model.__name__}")
    return default, ""


def _prose(text: str, note: str = "") -> str:
    """Sentences as a comment, "" for none."""
    begun = text if text.startswith("librdkafka") else f"{text[:1].upper()}{text[1:]}"
    message = " ".join(filter(None, [text and f"{begun.rstrip('.')}.", note]))
    lines = textwrap.wrap(message, WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)
    return "".join(f"{line}\n" for line in lines)


def _key(name: str) -> str:
    return name if name.replace("_", "").isalnum() else toml(name)


def toml(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{toml(name)} = {toml(entry)}" for name, entry in value.items()) + "}"
    return f'"{value}"'


if __name__ == "__main__":
    FILE.write_text(sample(), encoding="utf-8")
