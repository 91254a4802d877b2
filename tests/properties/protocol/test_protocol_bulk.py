"""The columnar codec agrees with the plain one in every value and every error, on blobs of any quality."""

from collections.abc import Callable

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bellwether_kafka.protocol.bulk import SubscriptionColumns, owner_of, read_subscriptions, write_assignments
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.properties.protocol.protocol_strategies import ASSIGNMENTS, SUBSCRIPTIONS, TOPICS, mutated
from tests.unit.protocol.bulk.agreement import assignments_agree, claims_agree, read_many, subscriptions_agree

# Few lists are walked one by one, many in lock step: both ways are to be met.
COPIES = st.sampled_from([1, 40])
# Few bytes and equal ones have shorter ways, which must agree too.
READERS = st.sampled_from([read_subscriptions, read_many])
PROTOCOLS = st.sampled_from(["sticky", "cooperative-sticky"])
SUBSCRIPTION_BLOBS = st.lists(mutated(SUBSCRIPTIONS.map(ConsumerProtocolSubscription.encode)), max_size=6)
ASSIGNMENT_BLOBS = st.lists(mutated(ASSIGNMENTS.map(ConsumerProtocolAssignment.encode)), max_size=6)


@given(SUBSCRIPTION_BLOBS, COPIES, READERS)
def test_subscriptions(blobs: list[bytes], copies: int, reader: Callable[[list[bytes]], SubscriptionColumns]) -> None:
    subscriptions_agree(blobs * copies, reader)


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
        unexpected = data.draw(
            st.sampled_from(
                [
                    [(name, items + 1), *owned[1:]],
                    [(name[:-1] + "x", items), *owned[1:]],
                    owned[1:],
                    [*owned, ("last", 1)],
                ]
            )
        )
        blobs.append(member(unexpected))
    blobs += [blob[: data.draw(st.integers(0, len(blob)))] for blob in blobs[-3:]]
    seeded.shuffle(blobs)
    subscriptions_agree(blobs, read_many)


@given(SUBSCRIPTION_BLOBS, COPIES, PROTOCOLS, READERS)
def test_claims(
    blobs: list[bytes], copies: int, protocol: str, reader: Callable[[list[bytes]], SubscriptionColumns]
) -> None:
    claims_agree(blobs * copies, protocol, reader)


@given(ASSIGNMENT_BLOBS, COPIES)
def test_assignments(blobs: list[bytes], copies: int) -> None:
    assignments_agree(blobs * copies)


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
