"""The columnar codec agrees with the plain one in every value and every error, on blobs of any quality."""

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bellwether_kafka.protocol.bulk.columns import IntArray
from bellwether_kafka.protocol.bulk.consumer import (
    SubscriptionColumns,
    owner_of,
    read_assignments,
    read_claims,
    read_many,
    read_subscriptions,
    write_assignments,
)
from bellwether_kafka.protocol.messages.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from bellwether_kafka.protocol.messages.sticky import read_generation, read_sticky_user_data
from bellwether_kafka.protocol.primitives.errors import RemoteProtocolError
from bellwether_kafka.protocol.primitives.types import TopicPartition
from tests.properties.protocol_strategies import ASSIGNMENTS, SUBSCRIPTIONS, TOPICS, mutated

Message = TypeVar("Message")
# Few lists are walked one by one, many in lock step: both ways are to be met.
COPIES = st.sampled_from([1, 40])
# Few bytes and equal ones have shorter ways, which must agree too.
READERS = st.sampled_from([read_subscriptions, read_many])
PROTOCOLS = st.sampled_from(["sticky", "cooperative-sticky"])
SUBSCRIPTION_BLOBS = st.lists(mutated(SUBSCRIPTIONS.map(ConsumerProtocolSubscription.encode)), max_size=6)
ASSIGNMENT_BLOBS = st.lists(mutated(ASSIGNMENTS.map(ConsumerProtocolAssignment.encode)), max_size=6)


def rows(names: tuple[str, ...], size: int, *columns: IntArray) -> list[tuple[TopicPartition, ...]]:
    """The partitions of each member in order, from (member, topic, partition) columns."""
    found: list[list[TopicPartition]] = [[] for _ in range(size)]
    for member, topic, partition in zip(*(column.tolist() for column in columns), strict=True):
        found[member].append(TopicPartition(names[topic], partition))
    assert (np.diff(columns[0]) >= 0).all()
    return [tuple(partitions) for partitions in found]


def plain(decode: Callable[[bytes], Message], blobs: list[bytes]) -> tuple[dict[int, Message], dict[int, str]]:
    """What the plain decoder makes of each blob, and what it says of the others."""
    found: dict[int, Message] = {}
    errors: dict[int, str] = {}
    for m, blob in enumerate(blobs):
        try:
            found[m] = decode(blob)
        except RemoteProtocolError as error:
            errors[m] = str(error)
    return found, errors


@given(SUBSCRIPTION_BLOBS, COPIES, READERS)
def test_subscriptions(blobs: list[bytes], copies: int, reader: Callable[[list[bytes]], SubscriptionColumns]) -> None:
    agrees(blobs * copies, reader)


@given(st.data(), st.lists(st.tuples(TOPICS, st.integers(0, 3)), min_size=1, max_size=4), st.integers(0, 4))
def test_lists_that_differ_in_partitions_only_and_some_that_do_not(
    data: st.DataObject, owned: list[tuple[str, int]], others: int
) -> None:
    """The stencil: alike, nearly alike, and cut short in the middle."""
    seeded = data.draw(st.randoms(use_true_random=False))

    def member(shape: list[tuple[str, int]]) -> bytes:
        partitions = [TopicPartition(t, seeded.randrange(-(1 << 31), 1 << 31)) for t, n in shape for _ in range(n)]
        return ConsumerProtocolSubscription(
            version=3, topics=("t",), owned_partitions=tuple(partitions), generation_id=seeded.randrange(9), rack_id="r"
        ).encode()

    blobs = [member(owned) for _ in range(30)]
    for _ in range(others):
        name, items = owned[0]
        strange = data.draw(
            st.sampled_from(
                [
                    [(name, items + 1), *owned[1:]],
                    [(name[:-1] + "x", items), *owned[1:]],
                    owned[1:],
                    [*owned, ("last", 1)],
                ]
            )
        )
        blobs.append(member(strange))
    blobs += [blob[: data.draw(st.integers(0, len(blob)))] for blob in blobs[-3:]]
    seeded.shuffle(blobs)
    agrees(blobs, read_many)


def agrees(blobs: list[bytes], reader: Callable[[list[bytes]], SubscriptionColumns]) -> None:
    """The columns say what the plain decoder says of each blob."""
    columns = reader(blobs)
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


@given(SUBSCRIPTION_BLOBS, COPIES, PROTOCOLS, READERS)
def test_claims(
    blobs: list[bytes], copies: int, protocol: str, reader: Callable[[list[bytes]], SubscriptionColumns]
) -> None:
    blobs = blobs * copies
    claims = read_claims(protocol, reader(blobs))
    partitions = rows(claims.topic_names, len(blobs), claims.member, claims.topic, claims.partition)
    for m, message in plain(ConsumerProtocolSubscription.decode, blobs)[0].items():
        if protocol == "sticky":
            expected = read_sticky_user_data(message.user_data)
            assert (partitions[m], claims.generation[m]) == (expected.partitions, expected.generation)
            continue
        known = message.generation_id >= 0
        assert partitions[m] == message.owned_partitions
        assert claims.generation[m] == (message.generation_id if known else read_generation(message.user_data))


@given(ASSIGNMENT_BLOBS, COPIES)
def test_assignments(blobs: list[bytes], copies: int) -> None:
    blobs = blobs * copies
    columns = read_assignments(blobs)
    partitions = rows(columns.topic_names, len(blobs), columns.member, columns.topic, columns.partition)
    messages, errors = plain(ConsumerProtocolAssignment.decode, blobs)
    assert columns.errors == errors
    for m in errors:
        assert (columns.version[m], columns.user_data[m], partitions[m]) == (-1, None, ())
    for m, message in messages.items():
        assert message == ConsumerProtocolAssignment(int(columns.version[m]), partitions[m], columns.user_data[m])


@given(st.data(), st.lists(TOPICS, unique=True, max_size=6), st.integers(1, 40), st.integers(0, 3))
def test_written_assignments(data: st.DataObject, topics: list[str], members: int, version: int) -> None:
    topics.sort()
    counts = data.draw(st.lists(st.integers(0, 6), min_size=len(topics), max_size=len(topics)))
    first = np.array([0, *np.cumsum(counts)], dtype=np.int64)
    total = int(first[-1])
    owner = np.array(data.draw(st.lists(st.integers(-1, members - 1), min_size=total, max_size=total)), dtype=np.int32)
    user_data = data.draw(st.dictionaries(st.integers(0, members - 1), st.binary(max_size=9), max_size=3))
    flat = [TopicPartition(topic, p) for topic, count in zip(topics, counts, strict=True) for p in range(count)]

    blobs = write_assignments(topics, first, owner, members, version=version, user_data=user_data)
    for m in range(members):
        mine = tuple(tp for tp, o in zip(flat, owner.tolist(), strict=True) if o == m)
        assert blobs[m] == ConsumerProtocolAssignment(version, mine, user_data.get(m)).encode()
    assert owner_of(blobs, topics, first).tolist() == owner.tolist()
