"""The bytes of the control topic's records. A key is `kind/target`; a value is a JSON object with "v" (1), "kind",
"target", "owner", "at_ms" and "expires_ms" (wall clock, milliseconds since 1970) and "reason". Pure."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from bellwether_kafka.bounded import OutsideTextError, json_of
from bellwether_kafka.coordinator.control.applied_plan import AppliedPlan
from bellwether_kafka.coordinator.control.handed_back import HANDED_BACK, HandedBack
from bellwether_kafka.coordinator.control.order_kinds import ORDERS, VERSION, OrderKind, Takes
from bellwether_kafka.coordinator.control.records import (
    ABSENCE,
    HEARTBEAT,
    STOPPED,
    Absence,
    InstanceHeartbeat,
    Order,
    PlacementOrder,
    Record,
    Stage,
    Stopped,
    Until,
)

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


def encode(record: Record) -> tuple[bytes, bytes]:
    """Returns (key, value) for the topic."""
    return record.key.encode(), json.dumps(record.to_json(), separators=(",", ":")).encode()


def decode(key: bytes | None, value: bytes) -> Record | None:
    """Returns the record, or None if only a newer version knows its kind. Raises RecordError, and no other error for
    any bytes; memory and time are bounded by VALUE_BYTES_MAX."""
    fields = fields_of(value)
    version, kind = fields.get("v"), fields.get("kind")
    if not isinstance(version, int) or isinstance(version, bool) or not isinstance(kind, str):
        raise RecordError('it has no "v" or no "kind"')
    reader = _READERS.get(kind)
    if version > VERSION or reader is None:
        return None
    record = reader(fields)
    if (key or b"") != record.key.encode():
        raise RecordError(f"its key is not {record.key!r}")
    return record


def _order(fields: Mapping[str, Any]) -> Order:
    return Order(OrderKind(fields["kind"]), text(fields, "target"), **_given(fields))


def _placement(fields: Mapping[str, Any]) -> PlacementOrder:
    where = text(fields, "where")
    if not where.startswith(("rack:", "member:")):
        raise RecordError('"where" is neither rack:NAME nor member:NAME')
    target, item = text(fields, "target"), text(fields, "item")
    return PlacementOrder(OrderKind(fields["kind"]), target, item, where, **_given(fields), until=_until(fields))


def _until(fields: Mapping[str, Any]) -> Until:
    """Returns the event that ends the order, EXPIRY if it is missing (older versions) or unknown (newer ones)."""
    matching = [until for until in Until if until.value == fields.get("until")]
    return matching[0] if matching else Until.EXPIRY


def _applied_plan(fields: Mapping[str, Any]) -> AppliedPlan:
    return AppliedPlan(
        target=text(fields, "target"),
        digest=text(fields, "digest"),
        members=names(fields, "members"),
        items=lists(fields, "items"),
        **_given(fields),
    )


def _absence(fields: Mapping[str, Any]) -> Absence:
    stages = [stage for stage in Stage if stage.value == fields.get("stage")]
    if not stages:
        raise RecordError('"stage" is unknown')
    order_ms, expires_ms, since_ms = (number(fields, name) for name in ("order_ms", "expires_ms", "since_ms"))
    return Absence(
        text(fields, "target"),
        text(fields, "where"),
        order_ms,
        expires_ms,
        stages[0],
        since_ms,
        names(fields, "members"),
        names(fields, "names"),
    )


def _stopped(fields: Mapping[str, Any]) -> Stopped:
    return Stopped(text(fields, "target"), names(fields, "members"), names(fields, "static"), **_given(fields))


def _handed_back(fields: Mapping[str, Any]) -> HandedBack:
    at_ms, expires_ms = number(fields, "at_ms"), number(fields, "expires_ms")
    reason, topology = text(fields, "reason"), text(fields, "topology", "")
    waits = fields.get("waits") is not False
    return HandedBack(text(fields, "target"), at_ms, expires_ms, reason, topology, waits)


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields that all orders have."""
    owner = text(fields, "owner")
    at_ms, expires_ms = number(fields, "at_ms"), number(fields, "expires_ms")
    return {"owner": owner, "at_ms": at_ms, "expires_ms": expires_ms, "reason": text(fields, "reason", "")}


def _heartbeat(fields: Mapping[str, Any]) -> InstanceHeartbeat:
    return InstanceHeartbeat(
        instance=text(fields, "target"),
        leads=names(fields, "leads"),
        claims=names(fields, "claims"),
        standby_for=names(fields, "stands_by"),
        hands_over=names(fields, "hands_over"),
        at_ms=number(fields, "at_ms"),
        between=fields.get("between") is True,
        policies=texts(fields, "policies"),
        orders_for=names(fields, "orders_for"),
        serves=names(fields, "serves"),
    )


_OF_ORDERS: Mapping[Takes, Callable[[Mapping[str, Any]], Record]] = {
    Takes.ITEM_AND_PLACE: _placement,
    Takes.PLACE: _placement,
    Takes.PLAN: _applied_plan,
}
_READERS: Mapping[str, Callable[[Mapping[str, Any]], Record]] = {
    **{kind.value: _OF_ORDERS.get(traits.takes, _order) for kind, traits in ORDERS.items()},
    ABSENCE: _absence,
    STOPPED: _stopped,
    HANDED_BACK: _handed_back,
    HEARTBEAT: _heartbeat,
}
