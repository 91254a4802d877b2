"""Published schemas describe what commands print, and the check of them notices what they do not describe."""

import json
from pathlib import Path

import pytest
from fastavro.utils import generate_many

from bellwether_kafka.coordinator.events import SchemaSet
from bellwether_kafka.coordinator.replay import write_json_lines
from tests.kit.commands import ORDER_COMMANDS, SCHEMAS, check_answer, documents, undocumented
from tests.unit.coordinator.cli.every_command import PRINTING

COPIED = {"records": 2, "file": "copied", "message": "2 records are in copied."}
EXAMPLES = sorted((SCHEMAS / "examples").glob("*.json"))


def test_every_command_that_prints_has_a_schema() -> None:
    published = {path.name for path in SCHEMAS.glob("command-*.schema.json")}
    names = {"order" if words in ORDER_COMMANDS else words.replace(" ", "-") for words in PRINTING}
    assert published == {f"command-{name}.schema.json" for name in names}


def test_a_command_without_a_schema_is_noticed() -> None:
    with pytest.raises(FileNotFoundError):
        check_answer(["secret", "-o", "json"], "{}")


@pytest.mark.parametrize(
    ("document", "difference"),
    [
        (COPIED, []),
        ({"records": 2, "file": "copied"}, ["$: 'message' is a required property"]),
        (COPIED | {"file": 2}, ["$.file: 2 is not of type 'string'"]),
        (COPIED | {"build": "x"}, ["$: Additional properties are not allowed ('build' was unexpected)"]),
    ],
    ids=["as documented", "a field is missing", "another type", "a new field"],
)
def test_a_difference_from_a_schema_is_noticed(document: dict[str, object], difference: list[str]) -> None:
    assert undocumented("command-debug-history", document) == difference


def test_documents_of_many_lines_and_one_on_each_line_are_read() -> None:
    assert documents(json.dumps(COPIED, indent=2)) == [COPIED]
    assert documents("[1]\n[2]\n") == [[1], [2]]
    assert documents("") == []


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_agrees_with_its_schema(example: Path) -> None:
    document = json.loads(example.read_text(encoding="utf-8"))
    assert document
    assert not undocumented(example.stem, document)


@pytest.mark.slow
@pytest.mark.parametrize("event", SchemaSet.load().events)
def test_any_record_of_an_event_agrees_with_its_schema(event: str, tmp_path: Path) -> None:
    schemas = SchemaSet.load()
    records = generate_many(schemas.latest(event).parsed, 20)
    file = tmp_path / "events.jsonl"
    assert write_json_lines(file, [schemas.encode(event, record) for record in records]) == 20
    for line in file.read_text(encoding="utf-8").splitlines():
        assert not undocumented(f"event-{event}", json.loads(line))
