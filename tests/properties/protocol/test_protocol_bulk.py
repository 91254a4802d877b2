"""The columnar codec agrees with the plain one in every value and every error, on blobs of any quality."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bellwether_kafka.protocol.bulk import owner_of, write_assignments
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.properties.protocol.protocol_strategies import ASSIGNMENTS, SUBSCRIPTIONS, TOPICS, mutated
from tests.unit.protocol.bulk.agreement import assignments_agree, claims_agree, subscriptions_agree

COPIES = st.sampled_from([1, 40])
PROTOCOLS = st.sampled_from(["sticky", "cooperative-sticky"])
SUBSCRIPTION_BLOBS = st.lists(mutated(SUBSCRIPTIONS.map(ConsumerProtocolSubscription.encode)), max_size=6)
ASSIGNMENT_BLOBS = st.lists(mutated(ASSIGNMENTS.map(ConsumerProtocolAssignment.encode)), max_size=6)


@given(SUBSCRIPTION_BLOBS, COPIES)
def test_subscriptions(blobs: list[bytes], copies: int) -> None:
    subscriptions_agree(blobs * copies)


@given(SUBSCRIPTION_BLOBS, COPIES, PROTOCOLS)
def test_claims(blobs: list[bytes], copies: int, protocol: str) -> None:
    claims_agree(blobs * copies, protocol)


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
