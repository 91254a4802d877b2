"""JSON Schema of Python types and of Avro schemas, for docs/generate_schemas.py.

An object of a schema may have fields that the schema does not name, because fields are only ever added. A field is
required unless its TypedDict says NotRequired.
"""

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Literal, NotRequired, TypedDict, get_args, get_origin

Schema = dict[str, Any]
DIALECT = "https://json-schema.org/draft/2020-12/schema"
PLAIN: Mapping[object, Schema] = {
    type(None): {"type": "null"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    Any: {},
    object: {},
}
AVRO: Mapping[str, Schema] = {
    "null": {"type": "null"},
    "boolean": {"type": "boolean"},
    "int": {"type": "integer"},
    "long": {"type": "integer"},
    "float": {"type": "number"},
    "double": {"type": "number"},
    "string": {"type": "string"},
    "bytes": {"type": "string", "description": "hex digits"},
}


def extended(name: str, base: type, without: Sequence[str] = (), **fields: object) -> Any:
    """Returns a TypedDict with the fields of a dataclass or TypedDict but those `without`, and with these fields."""
    own = {field: kind for field, kind in fields_of(base).items() if field not in without}
    return TypedDict(name, own | fields)


def fields_of(kind: type) -> dict[str, Any]:
    """Returns the types of the fields of a dataclass or TypedDict by name."""
    hints = typing.get_type_hints(kind, include_extras=True)
    if not dataclasses.is_dataclass(kind):
        return hints
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def schema_of(kind: object, title: str, description: str) -> Schema:
    """Returns the schema of a type as a document of its own. Raises TypeError for a type without a JSON form."""
    definitions: dict[str, Schema] = {}
    root = _schema(kind, definitions)
    return {"$schema": DIALECT, "title": title, "description": description, **root} | (
        {"$defs": dict(sorted(definitions.items()))} if definitions else {}
    )


def _schema(kind: Any, definitions: dict[str, Schema]) -> Schema:
    if kind in PLAIN:
        return dict(PLAIN[kind])
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [_schema(argument, definitions) for argument in arguments]}
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _schema(arguments[1], definitions)}
    if origin is tuple and arguments[-1] is not Ellipsis:
        return _array_of(arguments, definitions)
    if origin is not None:
        return {"type": "array", "items": _schema(arguments[0], definitions)}
    if issubclass(kind, Enum):
        return {"enum": [member.value for member in kind]}
    if issubclass(kind, tuple):
        return _array_of(tuple(typing.get_type_hints(kind).values()), definitions)
    return _reference(kind, definitions)


def _array_of(kinds: Sequence[Any], definitions: dict[str, Schema]) -> Schema:
    """Returns the schema of an array with one value of each type."""
    values = [_schema(kind, definitions) for kind in kinds]
    return {"type": "array", "prefixItems": values, "minItems": len(kinds), "maxItems": len(kinds)}


def _reference(kind: type, definitions: dict[str, Schema]) -> Schema:
    """Defines a dataclass or TypedDict once, and returns a reference to it."""
    if not (dataclasses.is_dataclass(kind) or typing.is_typeddict(kind)):
        raise TypeError(f"{kind} has no JSON form")
    name = kind.__name__
    if name not in definitions:
        definitions[name] = {}  # a type that contains itself finds its name
        fields = fields_of(kind)
        optional = {field for field, of in fields.items() if get_origin(of) is NotRequired}
        values = {
            field: _schema(get_args(of)[0] if field in optional else of, definitions) for field, of in fields.items()
        }
        definitions[name] = {
            "type": "object",
            "properties": values,
            "required": [field for field in fields if field not in optional],
        }
    return {"$ref": f"#/$defs/{name}"}


def schema_of_record(record: Mapping[str, Any], title: str) -> Schema:
    """Returns the schema of an Avro record as JSON Lines have it: with its name as `event`."""
    root = _avro(record)
    event = title.removeprefix("event ")
    root["properties"] = {"event": {"const": event}} | root["properties"]
    root["required"] = ["event", *root["required"]]
    return {"$schema": DIALECT, "title": title, "description": record.get("doc", ""), **root}


def _avro(kind: Any) -> Schema:
    if isinstance(kind, str):
        return dict(AVRO[kind])
    if isinstance(kind, list):
        return {"anyOf": [_avro(each) for each in kind]}
    match kind["type"]:
        case "array":
            return {"type": "array", "items": _avro(kind["items"])}
        case "map":
            return {"type": "object", "additionalProperties": _avro(kind["values"])}
        case "enum":
            return {"enum": kind["symbols"]}
        case "record":
            fields = {field["name"]: _described(_avro(field["type"]), field) for field in kind["fields"]}
            return {"type": "object", "properties": fields, "required": list(fields)}
    return _avro(kind["type"])


def _described(schema: Schema, field: Mapping[str, Any]) -> Schema:
    return schema | ({"description": field["doc"]} if "doc" in field else {})
