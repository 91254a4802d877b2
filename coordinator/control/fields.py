"""Reads and checks the fields of a record of the control topic. For any bytes, memory and time are bounded, and the
result is either values of these types or a RecordError.
"""

from collections.abc import Mapping
from typing import Any

from bellwether_kafka.bounded import OutsideTextError, json_of

VALUE_BYTES_MAX = 1_000_000  # Kafka's default limit of a record
TEXT_LENGTH_MAX = 1_000
NAMES_MAX = 100_000
MS_MAX = 253_402_300_799_999  # the end of the year 9999, the last one that Python's dates support


class RecordError(ValueError):
    """A record that cannot be used. The message is the reason. The previous value of its key stays in force."""


def fields_of(value: bytes) -> dict[str, Any]:
    """Returns the JSON object of a record. Raises RecordError, and no other error for any bytes."""
    if len(value) > VALUE_BYTES_MAX:
        raise RecordError(f"its value has {len(value)} bytes, more than {VALUE_BYTES_MAX}")
    try:
        fields = json_of(value)
    except OutsideTextError as error:
        raise RecordError(f"its value cannot be used: {error}") from None
    if not isinstance(fields, dict):
        raise RecordError("its value is not a JSON object")
    return fields


def text(fields: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = fields.get(name, default)
    if not isinstance(value, str) or len(value) > TEXT_LENGTH_MAX or (default is None and not value):
        raise RecordError(f'"{name}" is not a text of at most {TEXT_LENGTH_MAX} characters')
    if not _is_unicode(value):
        raise RecordError(f'"{name}" is no Unicode text')
    return value


def _is_unicode(text: str) -> bool:
    """Returns whether the text can be encoded. JSON can contain half a surrogate pair, which is not possible in keys,
    logs and metrics."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def number(fields: Mapping[str, Any], name: str) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MS_MAX:
        raise RecordError(f'"{name}" is not a whole number of milliseconds before the year 10000')
    return value


def names(fields: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = fields.get(name, [])
    listed = isinstance(value, list) and len(value) <= NAMES_MAX
    if not listed or not all(isinstance(item, str) and _is_unicode(item) for item in value):
        raise RecordError(f'"{name}" is not a list of names')
    return tuple(value)


def lists(fields: Mapping[str, Any], name: str) -> Mapping[str, tuple[str, ...]]:
    value = fields.get(name, {})
    if not isinstance(value, dict) or len(value) > NAMES_MAX or not all(map(_is_unicode, value)):
        raise RecordError(f'"{name}" has no list of names for each name')
    return {key: names(value, key) for key in value}


def texts(fields: Mapping[str, Any], name: str) -> Mapping[str, str]:
    value = fields.get(name, {})
    listed = isinstance(value, dict) and len(value) <= NAMES_MAX
    if not listed or not all(isinstance(t, str) and _is_unicode(t) for pair in value.items() for t in pair):
        raise RecordError(f'"{name}" has no name for each group')
    return dict(value)
