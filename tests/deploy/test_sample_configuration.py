"""deploy/config/bellwether.toml is what its generator writes, loads as it is and with every line uncommented, and names
every setting with its default."""

import re
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pydantic import BaseModel

from bellwether_kafka.coordinator.settings import (
    CostSettings,
    EventSettings,
    GroupSettings,
    Settings,
    WeightSettings,
    load,
)
from tests.module_files import module_at
from tests.paths import ROOT

FOLDER = ROOT / "deploy" / "config"
TEXT = (FOLDER / "bellwether.toml").read_text(encoding="utf-8")
COMMENTED = re.compile(r"^#(?=[^ \n])", re.MULTILINE)
PASSWORD_FILE = "/run/secrets/kafka-password"  # noqa: S105 - where one is
MODELS = (
    ("events", EventSettings),
    ("weights", WeightSettings),
    ("cost", CostSettings),
    ("racks", Settings.model_fields["racks"].annotation),
)


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    return module_at(FOLDER / "generate.py", "generate_config")


def whole(tmp_path: Path) -> Path:
    """The file with every line uncommented, and a password where it says that one is."""
    (tmp_path / "password").write_text("secret\n", encoding="utf-8")
    file = tmp_path / "bellwether.toml"
    file.write_text(COMMENTED.sub("", TEXT).replace(PASSWORD_FILE, str(tmp_path / "password")), encoding="utf-8")
    return file


def test_the_sample_is_what_the_settings_say(generator: ModuleType) -> None:
    assert generator.sample() == TEXT, "run python deploy/config/generate.py"


def test_the_sample_observes_all_groups_as_it_is() -> None:
    settings = load(FOLDER / "bellwether.toml", environ={})
    assert [(group.match, group.mode) for group in settings.groups] == [("*", "observe")]


def test_the_sample_loads_with_every_line_uncommented(tmp_path: Path) -> None:
    settings = load(whole(tmp_path), environ={})
    assert [group.called for group in settings.groups] == ["*", "team-a-*", "orders", "wordcount"]
    assert settings.properties["sasl.password"] == "secret"
    assert dict(settings.groups[3].topic_configs) == {"segment.bytes": "1048576"}
    assert None not in (settings.events, settings.weights, settings.cost)


def test_the_sample_names_every_setting_with_its_default(tmp_path: Path, generator: ModuleType) -> None:
    given = tomllib.loads(whole(tmp_path).read_text(encoding="utf-8"))
    groups = given["groups"]
    tables: list[tuple[type[BaseModel], list[dict[str, Any]]]] = [(Settings, [given]), (GroupSettings, groups)]
    tables += [(model, [given[name]]) for name, model in MODELS]
    for model, settings_of_model in tables:
        for name, info in model.model_fields.items():
            written = generator.WRITTEN_AS.get(name, info.alias or name)
            values = [table[written] for table in settings_of_model if written in table]
            assert values, f"{model.__name__}.{name} is missing"
            if (model, name) in generator.EXAMPLES or name in {"kafka", "groups", *dict(MODELS)}:
                continue
            default = info.get_default(call_default_factory=True, validated_data={})
            default = list(default) if isinstance(default, tuple) else default
            example = name in {"name", "match", "exclude", "mode", "kind", "policy"}  # what distinguishes the groups
            assert default in values or example, f"{model.__name__}.{name} is {values} and not {default}"


def test_an_example_is_only_where_there_is_no_default(generator: ModuleType) -> None:
    for model, name in generator.EXAMPLES:
        info = model.model_fields[name]
        default = info.get_default(call_default_factory=True, validated_data={})
        assert info.is_required() or default in (None, {}, ()), f"{model.__name__}.{name} has the default {default}"


def test_no_line_of_the_sample_is_longer_than_120_characters() -> None:
    assert [line for line in TEXT.splitlines() if len(line) > 120] == []
