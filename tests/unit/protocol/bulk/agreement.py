"""The oracle of the bulk readers: what the plain readers say of each blob."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from bellwether_kafka.protocol.bulk import (
    read_assignments,
    read_claims,
    read_subscriptions,
)
from bellwether_kafka.protocol.messages import (
    NO_GENERATION,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    read_generation,
)
from bellwether_kafka.protocol.primitives import Reader, RemoteProtocolError, TopicPartition

Message = TypeVar("Message")


@dataclass(frozen=True, slots=True)
class StickyUserData:
    """The partitions that a member says it had, and the one generation of them all (NO_GENERATION: unknown)."""

    partitions: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION


def read_partitions(reader: Reader) -> tuple[TopicPartition, ...]:
    listed = reader.array(6, lambda: (reader.string(), reader.int32_array()))
    return tuple(TopicPartition(topic, partition) for topic, numbers in listed for partition in numbers)


def read_sticky_user_data(data: bytes | None) -> StickyUserData:
    """The userData of the eager `sticky` protocol: V1, else V1 behind an int16 1 (kafka-python 3), else V0; each must
    fit exactly."""
    for start, dated in ((0, True), *([(2, True)] if (data or b"").startswith(b"\0\1") else []), (0, False)):
        reader = Reader(data or b"", start)
        try:
            partitions = read_partitions(reader)
            generation = reader.int32() if dated else NO_GENERATION
        except RemoteProtocolError:
            continue
        if not reader.remaining:
            return StickyUserData(partitions, max(generation, NO_GENERATION))
    return StickyUserData()


def rows(names: tuple[str, ...], size: int, *columns: Any) -> list[tuple[TopicPartition, ...]]:
    """The partitions of each member in order, from (member, topic, partition) columns."""
    by_row: list[list[TopicPartition]] = [[] for _ in range(size)]
    for member, topic, partition in zip(*(column.tolist() for column in columns), strict=True):
        by_row[member].append(TopicPartition(names[topic], partition))
    assert (np.diff(columns[0]) >= 0).all()
    return [tuple(partitions) for partitions in by_row]


def plain(decode: Callable[[bytes], Message], blobs: Sequence[bytes]) -> tuple[dict[int, Message], dict[int, str]]:
    """What the plain decoder makes of each blob, and what it says of the others."""
    by_index: dict[int, Message] = {}
    errors: dict[int, str] = {}
    for m, blob in enumerate(blobs):
        try:
            by_index[m] = decode(blob)
        except RemoteProtocolError as error:
            errors[m] = str(error)
    return by_index, errors


def subscriptions_agree(blobs: list[bytes]) -> None:
    columns = read_subscriptions(blobs)
    messages, errors = plain(ConsumerProtocolSubscription.decode, blobs)
    assert columns.errors == errors
    owned = rows(columns.topic_names, len(blobs), columns.owned_member, columns.owned_topic, columns.owned_partition)
    for m in range(len(blobs)):
        if m not in messages:
            assert (columns.topic_list[m], columns.version[m], columns.generation[m]) == (-1, -1, -1)
            assert (columns.user_data[m], columns.rack[m], owned[m]) == (None, None, ())
            continue
        assert messages[m] == ConsumerProtocolSubscription(
            int(columns.version[m]),
            columns.topic_lists[columns.topic_list[m]],
            columns.user_data[m],
            owned[m],
            int(columns.generation[m]),
            columns.rack[m],
        )
    names = {t for s in messages.values() for t in (*s.topics, *(tp.topic for tp in s.owned_partitions))}
    assert columns.topic_names == tuple(sorted(names))
    assert len(columns.topic_lists) == len(set(columns.topic_lists)) == len({s.topics for s in messages.values()})


def claims_agree(blobs: list[bytes], protocol: str) -> None:
    claims = read_claims(protocol, read_subscriptions(blobs))
    partitions = rows(claims.topic_names, len(blobs), claims.member, claims.topic, claims.partition)
    for m, message in plain(ConsumerProtocolSubscription.decode, blobs)[0].items():
        if protocol == "sticky":
            expected = read_sticky_user_data(message.user_data)
            assert (partitions[m], claims.generation[m]) == (expected.partitions, expected.generation)
            continue
        has_generation = message.generation_id >= 0
        assert partitions[m] == message.owned_partitions
        assert claims.generation[m] == (message.generation_id if has_generation else read_generation(message.user_data))


def assignments_agree(blobs: list[bytes]) -> None:
    columns = read_assignments(blobs)
    partitions = rows(columns.topic_names, len(blobs), columns.member, columns.topic, columns.partition)
    messages, errors = plain(ConsumerProtocolAssignment.decode, blobs)
    assert columns.errors == errors
    for m in errors:
        assert (columns.version[m], columns.user_data[m], partitions[m]) == (-1, None, ())
    for m, message in messages.items():
        assert message == ConsumerProtocolAssignment(int(columns.version[m]), partitions[m], columns.user_data[m])
