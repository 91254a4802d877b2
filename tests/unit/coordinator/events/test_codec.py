"""Events as bytes: single-object encoding by the Avro specification, bad bytes by name, and rules of evolution."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from bellwether_kafka.bounded import VALUES_MAX
from bellwether_kafka.coordinator.events import MARKER, EventError, EventSchema, SchemaSet, confluent
from tests.unit.coordinator.events.evolution import evolution_findings

LAG = {
    "group": "orders",
    "sampled_at_ms": 1_000,
    "entries": [
        {
            "topic": "t",
            "partition": 3,
            "task": None,
            "role": "active",
            "member": "m",
            "committed": 5,
            "end": 9,
            "lag": 4,
        }
    ],
}


def changed(schema: EventSchema, *, version: int = 2, **fields: Any) -> EventSchema:
    """The next version: `name=definition` adds or replaces a field, `name=None` removes it."""
    record = json.loads(schema.text)
    kept = [f for f in record["fields"] if f["name"] not in fields]
    record["fields"] = kept + [definition for definition in fields.values() if definition is not None]
    return EventSchema(schema.event, version, json.dumps(record))


def test_the_fingerprint_is_the_specification_s() -> None:
    # The Avro project's own vector: "null" has the fingerprint 7195948357588979594, little endian here.
    assert int.from_bytes(EventSchema("null", 1, '"null"').fingerprint, "little") == 7195948357588979594


def test_every_event_has_a_schema_and_goes_there_and_back() -> None:
    schemas = SchemaSet.load()
    assert schemas.events == ("assignment", "decision", "lag", "membership", "round", "snapshot", "traffic", "weight")
    assert len({s.fingerprint for s in schemas.schemas.values()}) == len(schemas.schemas)
    data = schemas.encode("lag", LAG)
    assert data.startswith(MARKER)
    assert schemas.decode(data) == ("lag", LAG)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", "not an event"),
        (b'{"json": true}', "not an event"),
        (confluent(7, b"body"), "not an event"),
        (MARKER + b"12345678" + b"body", "unknown schema"),
        (MARKER + b"123", "unknown schema"),
    ],
)
def test_bytes_that_are_no_event_are_named(data: bytes, kind: str) -> None:
    with pytest.raises(EventError) as error:
        SchemaSet.load().decode(data)
    assert error.value.kind == kind


def test_every_truncation_and_extra_bytes_are_malformed() -> None:
    schemas = SchemaSet.load()
    data = schemas.encode("lag", LAG)
    for length in range(10, len(data)):
        with pytest.raises(EventError, match="lag v1") as error:
            schemas.decode(data[:length])
        assert error.value.kind == "malformed"
    with pytest.raises(EventError, match="bytes behind"):
        schemas.decode(data + b"\x00")


def least_bytes(schema: Any, depth: int = 0) -> int:
    """Of any value; fails for a schema in which arrays may hold values without a byte, or values of any depth."""
    assert depth < 20
    if isinstance(schema, list):
        return 1 + min(least_bytes(branch, depth + 1) for branch in schema)
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind == "record":
        return sum(least_bytes(field["type"], depth + 1) for field in schema["fields"])
    if kind in ("array", "map"):
        assert kind == "map" or least_bytes(schema["items"], depth + 1) > 0
        return 1
    if isinstance(kind, dict | list):
        return least_bytes(kind, depth + 1)
    sizes = {"null": 0, "boolean": 1, "int": 1, "long": 1, "string": 1, "bytes": 1, "enum": 1, "float": 4, "double": 8}
    return sizes[kind]  # the name of another record would make values of any depth


@pytest.mark.parametrize(
    "schema", SchemaSet.load().schemas.values(), ids=lambda schema: f"{schema.event}.v{schema.version}"
)
def test_no_record_makes_more_values_than_it_has_bytes(schema: EventSchema) -> None:
    assert least_bytes(json.loads(schema.text)) > 0


@pytest.mark.slow
def test_a_record_of_millions_of_values_is_not_read_to_its_end() -> None:
    schemas, count = SchemaSet.load(), VALUES_MAX + 1
    head = schemas.encode("lag", LAG | {"entries": []})
    zigzag, varint = count << 1, b""
    while zigzag > 0x7F:
        varint += bytes([zigzag & 0x7F | 0x80])
        zigzag >>= 7
    bomb = head[:-1] + varint + bytes([zigzag]) + b"\0" * (8 * count)
    with pytest.raises(EventError, match="more than 5,000,000 values") as error:
        schemas.decode(bomb)
    assert error.value.kind == "malformed"


def test_a_record_that_lacks_a_field_is_not_written() -> None:
    with pytest.raises(ValueError, match="missing from the record"):
        SchemaSet.load().encode("lag", {"group": "orders"})


def test_readers_take_records_of_every_version() -> None:
    old = SchemaSet.load().latest("lag")
    new = changed(old, sampler={"name": "sampler", "type": "string", "default": "bellwether"})
    both = SchemaSet({("lag", 1): old, ("lag", 2): new})
    assert evolution_findings(old, new) == ()
    assert both.decode(old.header + old.body(LAG)) == ("lag", {**LAG, "sampler": "bellwether"})
    assert both.decode(both.encode("lag", {**LAG, "sampler": "me"})) == ("lag", {**LAG, "sampler": "me"})


def test_versions_in_the_package_follow_the_rules() -> None:
    schemas = SchemaSet.load()
    for event in schemas.events:
        versions = schemas.versions(event)
        for old, new in pairwise(versions):
            assert evolution_findings(old, new) == ()


@pytest.mark.parametrize(
    ("fields", "finding"),
    [
        ({"extra": {"name": "extra", "type": "string"}}, "lag.extra: added without a default"),
        ({"group": None}, "lag.group: removed though it had no default"),
        ({"group": {"name": "group", "type": "bytes"}}, "lag.group: the type changed from string to bytes"),
        ({"entries": {"name": "entries", "type": "string"}}, "lag.entries: an array became something else"),
    ],
)
def test_changes_that_break_a_member_are_found(fields: dict[str, Any], finding: str) -> None:
    old = SchemaSet.load().latest("lag")
    assert evolution_findings(old, changed(old, **fields)) == (finding,)


def test_a_change_inside_entries_is_found() -> None:
    old = SchemaSet.load().latest("lag")
    record = json.loads(old.text)
    record["fields"][2]["type"]["items"]["fields"].pop()
    new = EventSchema("lag", 2, json.dumps(record))
    assert evolution_findings(old, new) == ("lag.entries[].lag: removed though it had no default",)


def test_files_with_other_names_or_missing_versions_are_refused(tmp_path: Path) -> None:
    (tmp_path / "lag.v2.avsc").write_text("{}")
    with pytest.raises(ValueError, match="versions of lag"):
        SchemaSet.load(tmp_path)
    (tmp_path / "lag.avsc").write_text("{}")
    with pytest.raises(ValueError, match="rename it"):
        SchemaSet.load(tmp_path)
