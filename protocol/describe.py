"""Any blob of a group as JSON, for people who debug one. The keys are those of tests/vectors/protocol-vectors.jsonl."""

from collections.abc import Callable, Iterable
from typing import Any

from bellwether_kafka.protocol.messages import (
    AssignmentInfo,
    ByHost,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    SubscriptionInfo,
)
from bellwether_kafka.protocol.primitives import (
    LocalProtocolError,
    TaskId,
    TopicPartition,
    java_hash_ordered,
    java_string_hash,
)

Json = dict[str, Any]


def blob_to_json(kind: str, data: bytes) -> Json:
    """Decodes a blob of one of KINDS; bytes are shown as hex, fields that its version lacks are absent.

    Raises LocalProtocolError for an unknown kind, RemoteProtocolError for bytes that do not decode.
    """
    if kind not in _DESCRIBERS:
        raise LocalProtocolError(f"unknown kind {kind!r}: use one of {', '.join(KINDS)}")
    return {"kind": kind, **_DESCRIBERS[kind](data), "hex": data.hex()}


def _subscription(data: bytes) -> Json:
    message = ConsumerProtocolSubscription.decode(data)
    fields: Json = {
        "version": message.version,
        "topics": list(message.topics),
        "user_data": _hex(message.user_data),
        "owned_partitions": _partitions(message.owned_partitions),
    }
    if message.version >= 2:
        fields["generation_id"] = message.generation_id
    if message.version >= 3:
        fields["rack_id"] = message.rack_id
    return fields


def _assignment(data: bytes) -> Json:
    message = ConsumerProtocolAssignment.decode(data)
    return {
        "version": message.version,
        "partitions": _partitions(message.partitions),
        "user_data": _hex(message.user_data),
    }


def _subscription_info(data: bytes) -> Json:
    info = SubscriptionInfo.decode(data)
    fields: Json = {"version": info.version, "latest_supported_version": info.latest_supported_version}
    if info.future:
        return fields
    fields["process_id"] = str(info.process_id)
    fields["user_end_point"] = info.user_end_point
    # Listed as the map of the Java class lists them, so that the two outputs can be compared.
    sums = dict(info.task_offset_sums)
    fields["task_offset_sums"] = [
        _task(task) | {"offset_sum": sums[task]} for task in java_hash_ordered(sums, _task_hash)
    ]
    if info.version >= 8:
        fields["unique_field"] = info.unique_field
    if info.version >= 9:
        fields["error_code"] = info.error_code
    return fields | {"client_tags": dict(info.client_tags)}


def _assignment_info(data: bytes) -> Json:
    info = AssignmentInfo.decode(data)
    fields: Json = {
        "version": info.version,
        "commonly_supported_version": info.commonly_supported_version,
        "active_tasks": [_task(task) for task in info.active_tasks],
        "standby_tasks": [_task(task) | {"partitions": _partitions(held)} for task, held in info.standby_tasks],
        "partitions_by_host": _hosts(info.partitions_by_host),
        "standby_partitions_by_host": _hosts(info.standby_partitions_by_host),
        "error_code": info.error_code,
    }
    if info.version >= 7:
        fields["next_rebalance_ms"] = info.next_rebalance_ms
    return fields


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def _partitions(partitions: Iterable[TopicPartition]) -> list[list[str | int]]:
    return [[topic, partition] for topic, partition in partitions]


def _task(task: TaskId) -> Json:
    return {"subtopology": task.subtopology, "partition": task.partition, "topology": task.topology}


def _task_hash(task: TaskId) -> int:
    return 31 * (31 * (31 + task.subtopology) + task.partition) + java_string_hash(task.topology or "")


def _hosts(hosts: ByHost) -> list[Json]:
    return [{"host": host.host, "port": host.port, "partitions": _partitions(held)} for host, held in hosts]


_DESCRIBERS: dict[str, Callable[[bytes], Json]] = {
    "ConsumerProtocolSubscription": _subscription,
    "ConsumerProtocolAssignment": _assignment,
    "SubscriptionInfo": _subscription_info,
    "AssignmentInfo": _assignment_info,
}
KINDS = tuple(_DESCRIBERS)
