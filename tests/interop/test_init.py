"""`bellwether init` against brokers in three racks with two groups, by options and on a terminal. The brokers are
embedded and know no DescribeGroups, so what they say of the groups is given here; metadata and racks are theirs."""

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bellwether_kafka.coordinator.kafka import wire
from bellwether_kafka.coordinator.settings import Settings, load
from tests.interop.support.two_groups import TwoGroups
from tests.kit.brokers import EmbeddedCluster
from tests.kit.commands import bellwether
from tests.paths import ROOT

pytestmark = pytest.mark.embedded

ON_A_TERMINAL = """
from bellwether_kafka.coordinator.cli import main
from bellwether_kafka.coordinator.kafka import wire
from tests.interop.support.two_groups import TwoGroups

wire.Transport = TwoGroups
main()
"""
RACKS = ("az1", "az2", "az3")


@pytest.fixture(scope="module")
def brokers() -> Iterator[str]:
    with EmbeddedCluster(brokers=3, racks=RACKS) as cluster:
        cluster.create_topic("orders", 3)
        yield cluster.bootstrap


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(wire, "Transport", TwoGroups)


def written(name: str = "bellwether.toml") -> Settings:
    return load(Path(name), environ={})


def test_options_answer_every_question(brokers: str) -> None:
    login = ("--property", "security.protocol=PLAINTEXT")
    chosen = ("--observe", "team-*", "--lead", "billing", "--lead", "shop", "--rack", "az2", "--out", "two.toml")
    ended = bellwether("init", "--bootstrap", brokers, *login, *chosen)
    assert ended.returncode == 0, ended.stderr
    settings = written("two.toml")
    assert settings.properties["bootstrap.servers"] == brokers
    assert settings.properties["client.rack"] == "az2"
    assert [(group.called, group.mode, group.kind) for group in settings.groups] == [
        ("team-*", "observe", "consumer"),
        ("billing", "lead", "consumer"),
        ("shop", "lead", "streams"),
    ]
    text = Path("two.toml").read_text(encoding="utf-8")
    assert "# billing: classic, Stable, range, 3 members; can be led\n" in text
    assert "costs least of those compared" in text
    assert 'topology = "shop.yaml"  # write it with: bellwether topology learn shop > shop.yaml\n' in text
    assert ended.stderr == "The cluster has no group yet that team-* fits.\n"
    assert "bellwether doctor billing --config two.toml" in ended.stdout


def test_accepted_defaults_observe_every_group_and_nothing_is_overwritten(brokers: str) -> None:
    asked = ("init", "--bootstrap", brokers, "--yes")
    assert bellwether(*asked).returncode == 0
    assert [(group.match, group.mode) for group in written().groups] == [("*", "observe")]
    again = bellwether(*asked, "--lead", "billing")
    assert (again.returncode, again.stdout) == (2, "")
    assert "use --overwrite" in again.stderr
    assert [group.match for group in written().groups] == ["*"]
    assert bellwether(*asked, "--lead", "billing", "--overwrite").returncode == 0
    assert [group.called for group in written().groups] == ["billing"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "ask for the login; use --property, or --yes for none."),
        (("--property", "client.id=x"), "use --observe or --lead, or --yes for *."),
        (("--property", "client.id=x", "--lead", "billing"), "use --rack, or --yes for none."),
        (("--property", "client.id=x", "--lead", "billing", "--rack", "az1"), "use --out, or --yes for bellwether"),
        (("--yes", "--lead", "biling"), "perhaps billing is meant"),
        (("--yes", "--rack", "az9"), "use --rack with one of az1, az2, az3."),
        (("--yes", "--observe", "/(/"), "Nothing is written"),
    ],
)
def test_what_is_missing_or_wrong_is_one_sentence_and_no_file(
    options: tuple[str, ...], message: str, brokers: str
) -> None:
    ended = bellwether("init", "--bootstrap", brokers, *options)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert message in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    assert list(Path().iterdir()) == []


def test_on_a_terminal_it_shows_the_groups_and_asks(brokers: str) -> None:
    answers = [brokers, "none", "shop", "billing", "az1", "asked.toml"]
    own, theirs = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BELLWETHER_")}
    environment["PYTHONPATH"] = str(ROOT)
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", ON_A_TERMINAL, "init"],
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            text=True,
        )
        os.write(own, "".join(f"{answer}\n" for answer in answers).encode())
        printed, asked = process.communicate(timeout=60)
    finally:
        os.close(own)
        os.close(theirs)
    assert process.returncode == 0, asked
    for what in ("The brokers", "The login", "The groups to observe", "The groups to lead", "The rack", "The file"):
        assert what in asked
    assert "group    assigned by  protocol type  state" in printed
    assert [(group.called, group.mode) for group in written("asked.toml").groups] == [
        ("shop", "observe"),
        ("billing", "lead"),
    ]
    assert written("asked.toml").properties["client.rack"] == "az1"
