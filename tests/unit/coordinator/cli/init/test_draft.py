"""The file that `bellwether init` writes: every draft loads, whatever names the cluster has."""

import tomllib
from pathlib import Path

import pytest

from bellwether_kafka.coordinator.cli.init import Draft, DraftedGroup, text_of
from bellwether_kafka.coordinator.settings import Settings, load

BROKER = {"bootstrap.servers": "b-1:9092"}
ORDERS = DraftedGroup(
    "orders: classic, Stable, range, 2 members; can be led", '[[groups]]\nname = "orders"\nmode = "lead"\n'
)


def loaded(draft: Draft, folder: Path) -> Settings:
    file = folder / "bellwether.toml"
    file.write_text(text_of(draft), encoding="utf-8")
    return load(file, environ={})


def test_a_draft_loads_and_says_what_was_chosen(tmp_path: Path) -> None:
    draft = Draft({**BROKER, "client.id": "bw"}, ("team-*", "billing"), (ORDERS,), ("az1", "az2"), "az2")
    settings = loaded(draft, tmp_path)
    assert settings.properties == {"bootstrap.servers": "b-1:9092", "client.id": "bw", "client.rack": "az2"}
    assert [(group.called, group.mode) for group in settings.groups] == [
        ("team-*", "observe"),
        ("billing", "observe"),
        ("orders", "lead"),
    ]


def test_a_rack_that_was_not_chosen_is_there_to_uncomment(tmp_path: Path) -> None:
    draft = Draft(BROKER, ("*",), (), ("az1", "az2"))
    assert "client.rack" not in loaded(draft, tmp_path).properties
    assert '#"client.rack" = "az1"\n' in text_of(draft)
    assert "client.rack" not in text_of(Draft(BROKER, ("*",), ())), "the brokers have none"


def test_properties_of_the_environment_are_named_and_not_written() -> None:
    text = text_of(Draft(BROKER, ("*",), (), environment=("sasl.password", "security.protocol")))
    assert "set it: sasl.password, security.protocol." in text
    assert tomllib.loads(text)["kafka"] == BROKER


@pytest.mark.parametrize("name", ['a "b" \\c', "two\nlines\n[x]", "emoji \U0001f600", "tab\there", "\U000e0001"])
def test_a_group_may_have_any_name(name: str, tmp_path: Path) -> None:
    settings = loaded(Draft(BROKER, (name,), (DraftedGroup(f"{name}: classic", ORDERS.configuration),)), tmp_path)
    assert [group.name for group in settings.groups] == [name, "orders"]
