"""Blobs of every kind for the property tests: valid ones, and valid ones with something done to them."""

import struct

from hypothesis import strategies as st

from bellwether_kafka.protocol.messages import (
    LATEST_OFFSET,
    UNKNOWN_OFFSET_SUM,
    AssignmentInfo,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    SubscriptionInfo,
    encode_sticky_user_data,
)
from bellwether_kafka.protocol.primitives import HostInfo, ProcessId, TaskId, TopicPartition

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
TOPICS = st.one_of(
    st.sampled_from(["t", "u", "orders", "prod.team.orders-0001.events", "prod.team.orders-0002.events", "x" * 300]),
    TEXT,
)
PARTITIONS = st.builds(TopicPartition, TOPICS, st.one_of(st.integers(0, 9), INT32))
PARTITION_LISTS = st.lists(PARTITIONS, max_size=8).map(tuple)
GENERATIONS = st.one_of(st.integers(-1, 9), st.integers(0, (1 << 31) - 1))
USER_DATA = st.one_of(
    st.none(),
    st.binary(max_size=12),
    st.builds(encode_sticky_user_data, PARTITION_LISTS, INT32),
    st.builds(encode_sticky_user_data, PARTITION_LISTS, INT32).map(lambda data: b"\0\1" + data),
    st.builds(encode_sticky_user_data, PARTITION_LISTS, INT32).map(lambda data: data[:-4]),
)
SUBSCRIPTIONS = st.builds(
    ConsumerProtocolSubscription,
    st.integers(0, 3),
    st.lists(TOPICS, max_size=5).map(tuple),
    USER_DATA,
    PARTITION_LISTS,
    GENERATIONS,
    st.one_of(st.none(), st.sampled_from(["az1", "az2"]), TEXT),
)
ASSIGNMENTS = st.builds(ConsumerProtocolAssignment, st.integers(0, 3), PARTITION_LISTS, USER_DATA)


def tasks(version: int) -> st.SearchStrategy[TaskId]:
    names = st.one_of(st.none(), TEXT.filter(bool)) if version >= 10 else st.none()
    return st.builds(TaskId, INT32, INT32, names)


@st.composite
def subscription_infos(draw: st.DrawFn) -> SubscriptionInfo:
    """Infos are decoded as they were encoded: what a version cannot say has its default."""
    version = draw(st.integers(1, 11))
    sums = st.sampled_from([LATEST_OFFSET, UNKNOWN_OFFSET_SUM]) if version < 7 else INT64
    pairs = draw(st.lists(st.tuples(tasks(version), sums), max_size=5))
    if version < 7:
        pairs.sort(key=lambda pair: pair[1] != LATEST_OFFSET)
    elif version < 10:
        pairs.sort(key=lambda pair: pair[0].subtopology)
    return SubscriptionInfo(
        version,
        draw(st.integers(version, 99)) if version >= 3 else -1,
        ProcessId(draw(INT64), draw(INT64)),
        (draw(TEXT) or None) if version >= 2 else None,
        tuple(pairs),
        draw(st.integers(-128, 127)) if version >= 8 else 0,
        draw(INT32) if version >= 9 else 0,
        tuple(draw(st.lists(st.tuples(TEXT, TEXT), max_size=3))) if version >= 11 else (),
    )


@st.composite
def assignment_infos(draw: st.DrawFn) -> AssignmentInfo:
    version = draw(st.integers(1, 11))
    hosts = st.lists(st.tuples(st.builds(HostInfo, TEXT, INT32), PARTITION_LISTS), max_size=3).map(tuple)
    return AssignmentInfo(
        version,
        draw(INT32) if version >= 3 else -1,
        tuple(draw(st.lists(tasks(version), max_size=4))),
        tuple(draw(st.lists(st.tuples(tasks(version), PARTITION_LISTS), max_size=3))),
        draw(hosts) if version >= 2 else (),
        draw(hosts) if version >= 6 else (),
        draw(INT32) if version >= 4 else 0,
        draw(INT64) if version >= 7 else (1 << 63) - 1,
    )


@st.composite
def mutated(draw: st.DrawFn, blobs: st.SearchStrategy[bytes]) -> bytes:
    """A blob that was cut, had bytes replaced or inserted, or a number set to something absurd, up to three times."""
    data = draw(blobs)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        how = draw(st.sampled_from(["cut", "replace", "insert", "int16", "int32", "append"]))
        if how == "cut":
            data = data[:at]
        elif how == "replace":
            data = data[:at] + draw(st.binary(min_size=1, max_size=1)) + data[at + 1 :]
        elif how == "insert":
            data = data[:at] + draw(st.binary(max_size=6)) + data[at:]
        elif how == "int16":
            data = data[:at] + struct.pack(">h", draw(st.integers(-2, 9))) + data[at + 2 :]
        elif how == "int32":
            number = draw(st.one_of(st.integers(-2, 9), st.sampled_from([1 << 30, (1 << 31) - 1, -(1 << 31)])))
            data = data[:at] + struct.pack(">i", number) + data[at + 4 :]
        else:
            data += draw(st.binary(max_size=8))
    return data
