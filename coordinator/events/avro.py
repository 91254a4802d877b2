"""Encodes and decodes events: Avro schemas from `schemas/`, single-object encoding, and Confluent's framing.

A schema is a file `<event>.v<n>.avsc`. Old versions are kept, because topics still have records written with them;
tests check that a new version is compatible. Single-object encoding (Avro specification) consists of C3 01, the 8 bytes
of the schema's CRC-64-AVRO fingerprint, little endian, and the body, so that a reader finds the writer's schema without
a registry. Confluent's framing consists of 00, a 4 byte id of a registry, big endian, and the body.
"""

import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from importlib.resources.abc import Traversable
from types import MappingProxyType
from typing import Any

from fastavro import parse_schema, schemaless_reader, schemaless_writer
from fastavro.schema import fingerprint, to_parsing_canonical_form

from bellwether_kafka.bounded import VALUES_MAX, OutsideTextError

SCHEMAS = resources.files("bellwether_kafka.coordinator.events") / "schemas"  # works in a zip from --py-files, too
MARKER = b"\xc3\x01"
CONFLUENT_MARKER = b"\x00"
CONFLUENT_BYTES = 5
HEADER_BYTES = 10
_FILE = re.compile(r"(?P<event>[a-z]+)\.v(?P<version>\d+)\.avsc")

Record = Mapping[str, Any]


class EventError(ValueError):
    """Bytes that are not a valid event of Bellwether. `kind` is one of a few values, for counting; the message is the
    reason."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)  # no slots, which cached properties exclude
class EventSchema:
    """One version of one event. `text` is the schema as JSON."""

    event: str
    version: int
    text: str

    @cached_property
    def parsed(self) -> Any:
        return parse_schema(json.loads(self.text))

    @cached_property
    def fingerprint(self) -> bytes:
        """The 8 bytes in the header of a record: CRC-64-AVRO of the canonical form, little endian."""
        return bytes.fromhex(fingerprint(to_parsing_canonical_form(json.loads(self.text)), "CRC-64-AVRO"))

    @property
    def header(self) -> bytes:
        return MARKER + self.fingerprint

    def body(self, record: Record) -> bytes:
        out = io.BytesIO()
        schemaless_writer(out, self.parsed, dict(record), strict_allow_default=True)
        return out.getvalue()


@dataclass(frozen=True)
class SchemaSet:
    """All versions of all events, by event and version."""

    schemas: Mapping[tuple[str, int], EventSchema]

    @classmethod
    def load(cls, directory: Traversable = SCHEMAS) -> "SchemaSet":
        """Reads `<event>.v<n>.avsc` files. Raises ValueError for an event whose versions are not 1, 2, ..., n."""
        schemas: dict[tuple[str, int], EventSchema] = {}
        for path in sorted(directory.iterdir(), key=lambda path: path.name):
            if not path.name.endswith(".avsc"):
                continue
            hit = _FILE.fullmatch(path.name)
            if hit is None:
                raise ValueError(f"{path.name} is not <event>.v<n>.avsc; rename it")
            key = hit["event"], int(hit["version"])
            schemas[key] = EventSchema(*key, path.read_text(encoding="utf-8"))
        for event in {event for event, _ in schemas}:
            versions = sorted(v for e, v in schemas if e == event)
            if versions != list(range(1, len(versions) + 1)):
                raise ValueError(f"the versions of {event} are {versions}; they must be 1 to {len(versions)}")
        return cls(MappingProxyType(schemas))

    @cached_property
    def _by_event(self) -> dict[str, tuple[EventSchema, ...]]:
        ordered = sorted(self.schemas.items())
        return {event: tuple(s for (e, _), s in ordered if e == event) for event, _ in sorted(self.schemas)}

    def versions(self, event: str) -> tuple[EventSchema, ...]:
        """Returns all versions, the oldest first. Raises KeyError for an unknown event."""
        return self._by_event[event]

    def latest(self, event: str) -> EventSchema:
        return self.versions(event)[-1]

    @property
    def events(self) -> tuple[str, ...]:
        return tuple(self._by_event)

    @cached_property
    def _by_header(self) -> dict[bytes, EventSchema]:
        return {schema.header: schema for schema in self.schemas.values()}

    def encode(self, event: str, record: Record) -> bytes:
        """Returns a record in single-object encoding with the latest version. Raises fastavro's errors if it does not
        match the schema."""
        schema = self.latest(event)
        return schema.header + schema.body(record)

    def decode(self, data: bytes) -> tuple[str, dict[str, Any]]:
        """Returns (event, record), with the record converted to the latest version. Raises EventError."""
        if data[:2] != MARKER:
            raise EventError("not an event", f"{len(data)} bytes that do not begin with C3 01")
        schema = self._by_header.get(data[:HEADER_BYTES])
        if schema is None:
            raise EventError("unknown schema", f"no schema has the fingerprint {data[2:HEADER_BYTES].hex()}")
        source = _Counted(data[HEADER_BYTES:]) if len(data) > VALUES_MAX else io.BytesIO(data[HEADER_BYTES:])
        try:
            record = schemaless_reader(source, schema.parsed, self.latest(schema.event).parsed)
        except Exception as error:
            raise EventError("malformed", f"{schema.event} v{schema.version}: {error!r}") from error
        if source.read(1):
            raise EventError("malformed", f"{schema.event} v{schema.version}: bytes behind the record")
        if not isinstance(record, dict):
            raise EventError("malformed", f"{schema.event} v{schema.version} is no record")
        return schema.event, record


class _Counted(io.BytesIO):
    """Limits the number of values in a record by counting calls of `read`, of which each value needs at least one. An
    empty list is one byte in a record, but 60 bytes in memory. Records of at most VALUES_MAX bytes need no counting.
    Bellwether's schemas limit the depth."""

    left = VALUES_MAX

    def read(self, size: int | None = -1, /) -> bytes:
        self.left -= 1
        if self.left < 0:
            raise OutsideTextError(f"it has more than {VALUES_MAX:,} values")
        return super().read(size)


def confluent(schema_id: int, body: bytes) -> bytes:
    """Returns a body in the framing of Confluent's Schema Registry."""
    return CONFLUENT_MARKER + schema_id.to_bytes(4, "big") + body


def single_object(value: bytes, ids: Mapping[int, EventSchema]) -> bytes:
    """Converts a record in Confluent's framing to single-object encoding. Returns other bytes unchanged.

    An id that is not in `ids` becomes a fingerprint that no schema has, so that decoding finds an unknown schema.
    """
    if value[:1] != CONFLUENT_MARKER or len(value) < CONFLUENT_BYTES:
        return value
    schema = ids.get(int.from_bytes(value[1:CONFLUENT_BYTES], "big"))
    head = schema.header if schema is not None else MARKER + bytes(3) + value[:CONFLUENT_BYTES]
    return head + value[CONFLUENT_BYTES:]
