"""Shows any blob of a group as JSON, for debugging. The keys are those of tests/vectors/protocol-vectors.jsonl."""

from dataclasses import fields
from typing import Any

from bellwether_kafka.protocol import messages
from bellwether_kafka.protocol.primitives import LocalProtocolError, hash_map_order, task_hash

KINDS = ("ConsumerProtocolSubscription", "ConsumerProtocolAssignment", "SubscriptionInfo", "AssignmentInfo")
# The version that added a field; other fields are always shown.
_SINCE = {
    ("ConsumerProtocolSubscription", "generation_id"): 2,
    ("ConsumerProtocolSubscription", "rack_id"): 3,
    ("SubscriptionInfo", "unique_field"): 8,
    ("SubscriptionInfo", "error_code"): 9,
    ("AssignmentInfo", "next_rebalance_ms"): 7,
}


def blob_to_json(kind: str, data: bytes) -> dict[str, Any]:
    """Decodes a blob of one of KINDS. Bytes are shown as hex; fields that its version lacks are absent.

    Raises LocalProtocolError for an unknown kind, RemoteProtocolError for bytes that do not decode.
    """
    if kind not in KINDS:
        raise LocalProtocolError(f"unknown kind {kind!r}: use one of {', '.join(KINDS)}")
    message = getattr(messages, kind).decode(data)
    names = [field.name for field in fields(message) if message.version >= _SINCE.get((kind, field.name), 0)]
    if kind == "SubscriptionInfo" and message.future:
        names = ["version", "latest_supported_version"]
    return {"kind": kind, **{name: _json(name, getattr(message, name)) for name in names}, "hex": data.hex()}


def _json(name: str, value: Any) -> Any:
    match name:
        case "process_id":
            return str(value)
        case "client_tags":
            return dict(value)
        case "task_offset_sums":  # in the order of Java's map, so that outputs can be compared
            sums = list(dict(value).items())
            order = hash_map_order([task_hash(*task) for task, _ in sums])
            return [sums[at][0]._asdict() | {"offset_sum": sums[at][1]} for at in order]
        case "active_tasks":
            return [task._asdict() for task in value]
        case "standby_tasks" | "partitions_by_host" | "standby_partitions_by_host":
            return [key._asdict() | {"partitions": [*map(list, partitions)]} for key, partitions in value]
        case "partitions" | "owned_partitions":
            return [*map(list, value)]
        case "topics":
            return list(value)
    return value.hex() if isinstance(value, bytes) else value
