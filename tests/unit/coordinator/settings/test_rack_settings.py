"""The table [racks]: its defaults, its patterns and networks, and the sentences for mistakes."""

from pathlib import Path

import pytest

from bellwether_kafka.coordinator.settings import Settings, SettingsError, load

KAFKA = """
groups = ["orders"]
[kafka]
"bootstrap.servers" = "b:9092"
"""


def settings(folder: Path, text: str) -> Settings:
    file = folder / "bellwether.toml"
    file.write_text(f"{KAFKA}{text}")
    return load(file, environ={})


def test_no_rules_by_default(tmp_path: Path) -> None:
    assert not settings(tmp_path, "").racks.rules()


def test_the_file_is_relative_to_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "racks.txt").write_text("10.0.0.0/8 az1")
    rules = settings(tmp_path, '[racks]\nfile = "racks.txt"').racks.rules()
    assert rules.rack_of("", "/10.0.0.1").rack == "az1"


def test_patterns_and_networks(tmp_path: Path) -> None:
    text = """
    [racks]
    fetch_from_followers = ["/^clicks/"]
    [racks.client_ids]
    "/-az1-/" = "az1"
    [racks.hosts]
    "10.2.0.0/16" = "az2"
    """
    rules = settings(tmp_path, text).racks.rules()
    assert rules.rack_of("orders-az1-7", "").rack == "az1"
    assert [rules.rack_of(name, "/10.2.0.1").leader_only for name in ("clicks-1", "orders-1")] == [False, True]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[racks.hosts]\n"10.0.0.1/8" = "az1"', "10.0.0.1/8 is neither an address nor a CIDR"),
        ('[racks.hosts]\n"10.0.0.1" = ""', "racks.hosts"),
        ('[racks.hosts]\n"10.0.0.1" = "az1"\n"10.0.0.1/32" = "az2"', "10.0.0.1/32 has two racks, az1 and az2"),
        ('[racks.client_ids]\n"/(/" = "az1"', "/(/ is not a regular expression"),
        ('[racks]\nfetch_from_followers = ["/(/"]', "/(/ is not a regular expression"),
        ('[racks]\nhost = "x"', "racks.host"),
        ('[racks]\nfetch_from_followers = ["a"]', "add client_ids, hosts or file, or remove it"),
    ],
)
def test_a_mistake_is_a_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(SettingsError) as caught:
        settings(tmp_path, text)
    assert sentence in str(caught.value)
