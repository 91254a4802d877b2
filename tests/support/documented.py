"""Checks answers in JSON against the schemas that docs/reference/schemas publishes: of commands and of the page, with
and without brokers."""

import json
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any

from jsonschema import Draft202012Validator

from tests.paths import DOCS

SCHEMAS = DOCS / "reference" / "schemas"


@cache
def validator(name: str) -> Draft202012Validator:
    """Returns the validator of a schema, which besides refuses fields that the schema does not name. Raises
    FileNotFoundError if there is no such schema."""
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8"))
    return Draft202012Validator(closed(schema))


def closed(schema: Any) -> Any:
    """Returns the schema without fields that it does not name, at every depth."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {name: closed(part) for name, part in schema.items()}
    return parts | ({"additionalProperties": False} if isinstance(schema.get("properties"), dict) else {})


def undocumented(name: str, document: Any) -> list[str]:
    """Returns where the document differs from its schema, one sentence for each place."""
    return [f"{error.json_path}: {error.message[:300]}" for error in validator(name).iter_errors(document)]


def check_page(path: str, document: Any) -> None:
    """Raises AssertionError if an answer of the page differs from the schema of its address."""
    name = "-".join(("api", path.split("/")[2], *(["name"] if path.count("/") > 2 else [])))
    differences = undocumented(name, document)
    assert not differences, f"{path}: {differences}; see docs/generate_schemas.py"


def as_json(arguments: Sequence[str]) -> bool:
    """Returns whether these arguments ask for JSON."""
    pairs = pairwise(arguments)
    return any(option in ("-o", "--output") and value == "json" for option, value in pairs)


def documents(text: str) -> list[Any]:
    """Returns the documents in the output of a command: one of many lines, or one on each line."""
    decoder, at, parsed = json.JSONDecoder(), 0, []
    text = text.strip()
    while at < len(text):
        document, at = decoder.raw_decode(text, at)
        parsed.append(document)
        at += len(text[at:]) - len(text[at:].lstrip())
    return parsed


def check_answer(arguments: Sequence[str], printed: str) -> None:
    """Raises AssertionError if a command has printed JSON that differs from its schema, FileNotFoundError if it has
    none."""
    if not as_json(arguments):
        return
    name = "-".join(("command", *arguments[: 2 if arguments[0] == "topology" else 1]))
    for document in documents(printed):
        differences = undocumented(name, document)
        assert not differences, f"{name}: {differences}; see docs/generate_schemas.py"
