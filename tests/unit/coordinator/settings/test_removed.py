"""Settings of the release before: what is gone is ignored with a sentence, and what is there still works."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from bellwether_kafka.coordinator.settings import GROUPS, PROCESS, REMOVED, SettingsError, load
from tests.kit.commands import BROKER, bellwether, from_toml
from tests.source_trees import modules_of, nodes_of

BEFORE = (Path(__file__).parent / "release_0_3_0.toml").read_text(encoding="utf-8")
SETTING = re.compile(r'^#(?=["a-z])')
GROUP = '[[groups]]\nname = "orders"\nmode = "lead"\n'
GONE = [(table, name) for table, names in REMOVED.items() for name in names]


def with_setting(table: str, line: str) -> str:
    """A configuration with this line in a table of the process, of a group, or another one."""
    parts = {PROCESS: "", "events": '[events]\ntopic = "e"\n', GROUPS: GROUP}
    parts[table] += f"{line}\n"
    return f"{parts[PROCESS]}{parts['events']}{parts[GROUPS]}"


@pytest.mark.parametrize(("table", "name"), GONE, ids=lambda word: word or "process")
def test_a_setting_that_is_gone_is_ignored_with_one_sentence(table: str, name: str, tmp_path: Path) -> None:
    plain = from_toml(tmp_path, with_setting(table, ""), BROKER)
    given = from_toml(tmp_path, with_setting(table, f"{name} = 1"), BROKER)
    assert (given.groups, given.events, plain.ignored) == (plain.groups, plain.events, ())
    (sentence,) = given.ignored
    assert sentence.startswith(f"The setting {name} is gone and has no effect (")


def test_it_is_one_sentence_for_many_groups_and_from_every_source(tmp_path: Path) -> None:
    twice = from_toml(tmp_path, f"{GROUP}followup_ms = 1\n{GROUP.replace('orders', 'b')}followup_ms = 2\n", BROKER)
    assert len(twice.ignored) == 1
    in_json = {"BELLWETHER_GROUPS": '[{"name": "orders", "mode": "lead", "followup_ms": 1}]'}
    variable = {"BELLWETHER_METADATA_INTERVAL_MS": "1000"}
    both = load(environ={**BROKER, **in_json, **variable})
    assert [sentence.split()[2] for sentence in both.ignored] == ["metadata_interval_ms", "followup_ms"]
    assert load(overrides={"groups": [{"name": "orders", "followup_ms": 1}]}, environ=BROKER).ignored


@pytest.mark.slow
def test_a_command_says_it_once_on_standard_error(tmp_path: Path) -> None:
    file = tmp_path / "b.toml"
    file.write_text(f'[kafka]\n"bootstrap.servers" = "127.0.0.1:1"\n{GROUP}followup_ms = 1\n')
    ended = bellwether("debug", "history", "--file", str(tmp_path / "h"), "--config", str(file))
    assert ended.stderr.count("The setting followup_ms is gone") == 1


@pytest.mark.slow
def test_every_line_of_the_sample_of_the_release_before_starts_or_says_why_not(tmp_path: Path) -> None:
    """Each is uncommented in turn, with the header of its table."""
    lines, header = BEFORE.splitlines(), 0
    judged = 0
    for at, line in enumerate(lines):
        if line.startswith(("[", "#[")):
            header = at
        if not SETTING.match(line):
            continue
        judged += 1
        once = [SETTING.sub("", text) if n == at else text for n, text in enumerate(lines)]
        once[header] = once[header].removeprefix("#")
        needed = {"[[groups]]": 'name = "g"\nmode = "lead"', "[events]": 'topic = "e"', "[weights]": 'topic = "w"'}
        beside = needed.get(once[header], "") if header else ""
        given = {text.partition(" ")[0] for text in (once[at],)}
        more = [text for text in beside.splitlines() if text.partition(" ")[0] not in given]
        once[header : header + 1] = [once[header], *more] if header else [once[header]]
        file = tmp_path / "b.toml"
        file.write_text("\n".join(once))
        try:
            load(file, environ={})
        except SettingsError as error:
            sentence = str(error)
            assert sentence.endswith("."), sentence
            assert "does not exist" not in sentence, (line, sentence)
            assert "\n" not in sentence, sentence
    assert judged > 70


def test_the_sample_of_the_release_before_starts_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("x")
    text = re.sub(r"^#(?=[^ \n])", "", BEFORE, flags=re.MULTILINE)
    file = tmp_path / "b.toml"
    file.write_text(text.replace("/run/secrets/kafka-password", str(tmp_path / "password")))
    settings = load(file, environ={})
    assert [sentence.split()[2] for sentence in settings.ignored] == [
        name for table in (PROCESS, "events", GROUPS) for name in REMOVED[table] if f"\n{name} = " in text
    ]


def sentences() -> Iterator[tuple[str, str]]:
    """Module and text of each string of several words, but for docstrings."""
    for path in modules_of("coordinator"):
        docstrings = {id(node.value) for node in nodes_of(path) if isinstance(node, ast.Expr)}
        for node in nodes_of(path):
            text = node.value if isinstance(node, ast.Constant) and id(node) not in docstrings else ""
            if isinstance(text, str) and " " in text.strip():
                yield path.name, text


@pytest.mark.slow
def test_no_sentence_names_a_setting_that_is_gone() -> None:
    """A remedy that names one sends its reader to a setting that has no effect."""
    gone = re.compile("|".join(rf"\b{name}\b" for _, name in GONE if name.endswith(("_ms", "_max"))))
    assert not [said for said in sentences() if gone.search(said[1])]
