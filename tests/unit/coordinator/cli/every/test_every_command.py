"""Every command with `--output json`, on embedded brokers whose groups are in every condition."""

import json
from pathlib import Path

import pytest

from bellwether_kafka.coordinator.kafka import wire
from tests.kit.brokers import EmbeddedCluster
from tests.kit.commands import GROUPS, Described
from tests.unit.coordinator.cli.every_command import ARGUMENTS, PRINTING, WITH_A_DOCUMENT, judge, printed, write_files


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    write_files(folder)
    return folder


def test_every_command_of_the_table_is_run() -> None:
    assert sorted(ARGUMENTS) == PRINTING


@pytest.mark.embedded
@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("name", PRINTING)
def test_standard_output_is_a_document_or_empty(
    name: str,
    group: str,
    brokers: EmbeddedCluster,
    files: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    if "{group}" not in ARGUMENTS[name] and group != "stable":
        return
    monkeypatch.setattr(wire, "Transport", Described)
    monkeypatch.setattr("bellwether_kafka.coordinator.cli.topic_weights.TIMEOUT_S", 0.5)
    ended = printed(name, group, "orders", brokers.bootstrap, files)
    judge(name, ended, missing=group == "missing")
    assert capfd.readouterr().out == "", "written past sys.stdout"


@pytest.mark.embedded
@pytest.mark.parametrize("name", PRINTING)
def test_wide_output_is_for_people(
    name: str, brokers: EmbeddedCluster, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "Transport", Described)
    monkeypatch.setattr("bellwether_kafka.coordinator.cli.topic_weights.TIMEOUT_S", 0.5)
    ended = {form: printed(name, "stable", "orders", brokers.bootstrap, files, form) for form in ("json", "wide")}
    assert len({run.returncode for run in ended.values()}) == 1, ended
    if ended["json"].returncode not in WITH_A_DOCUMENT:
        return
    assert json.loads(ended["json"].stdout) is not None
    assert ended["wide"].stdout or ended["wide"].stderr, "nothing to list is said, but not where lines are counted"
