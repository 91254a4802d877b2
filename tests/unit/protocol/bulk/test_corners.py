"""What the bulk readers do with the few that are not like the others: the same as the plain readers, whatever it is."""

import struct

import numpy as np
import pytest

from bellwether_kafka.protocol.bulk import read_assignments, read_infos, read_subscriptions
from bellwether_kafka.protocol.messages import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    SubscriptionInfo,
)
from bellwether_kafka.protocol.primitives import ProcessId, RemoteProtocolError, TaskId, TopicPartition
from tests.kit.consumers import subscription

GOOD = [subscription(3, ["orders", f"t{i}"], b"user data", [("orders", i)], 4, "az1") for i in range(40)]
BAD_RACK = subscription(3, ["orders"], None, (), 4, "RACK").replace(b"RACK", b"\xff\xfe\xfd\xfc")
NEGATIVE_COUNT = struct.pack(">hi", 1, -1) + b"\xff" * 8
NO_TOPICS = subscription(0, [])
ONE_LETTER = subscription(0, ["a"])


def test_a_rack_that_is_no_text_is_an_error_of_its_member() -> None:
    with pytest.raises(RemoteProtocolError):
        ConsumerProtocolSubscription.decode(BAD_RACK)
    assert read_subscriptions([*GOOD, BAD_RACK]).errors.keys() == {len(GOOD)}


def test_lists_of_topics_that_nobody_else_has_are_read_one_by_one() -> None:
    columns = read_subscriptions([*GOOD, NEGATIVE_COUNT, NO_TOPICS, ONE_LETTER, ONE_LETTER])
    assert columns.errors.keys() == {len(GOOD)}
    lists = [columns.topic_lists[i] for i in columns.topic_list.tolist()]
    assert lists[len(GOOD) + 1 :] == [(), ("a",), ("a",)]


def test_user_data_can_be_had_for_some_members_at_once() -> None:
    columns = read_subscriptions([*GOOD, ONE_LETTER])
    assert list(columns.user_data[38:]) == [b"user data", b"user data", None]
    assert columns.user_data[0] == b"user data"


def test_assignments_that_are_alike_in_being_broken_are_all_refused() -> None:
    """The pattern that is looked for in many alike is one that cannot be read itself."""
    good = ConsumerProtocolAssignment(partitions=(TopicPartition("orders", 1), TopicPartition("u", 2))).encode()
    broken = good[:6] + struct.pack(">i", 100) + good[10:]
    with pytest.raises(RemoteProtocolError):
        ConsumerProtocolAssignment.decode(broken)
    assert read_assignments([broken] * 60).errors.keys() == set(range(60))


def test_assignments_of_which_no_two_are_alike_are_read_as_well() -> None:
    each = [
        ConsumerProtocolAssignment(partitions=tuple(TopicPartition(f"t{n}-{'x' * n}", p) for p in range(n % 7 + 1)))
        for n in range(80)
    ]
    columns = read_assignments([part.encode() for part in each])
    assert not columns.errors
    assert len(columns.topic_names) == len(each)
    assert np.bincount(columns.member).tolist() == [len(part.partitions) for part in each]


# ---- Streams -------------------------------------------------------------------------------------------------------


def info(version: int) -> bytes:
    sums = ((TaskId(0, 1), -2), (TaskId(1, 2), 1_000))
    return SubscriptionInfo(version, 11, ProcessId(1, 2), "h:9", sums).encode()


def test_a_last_byte_that_is_missing_is_noticed() -> None:
    short = info(8)[:-1]
    with pytest.raises(RemoteProtocolError):
        SubscriptionInfo.decode(short)
    assert read_infos([short, info(8)]).errors.keys() == {0}


def test_a_negative_number_of_sums_is_an_error() -> None:
    blob = info(7)
    at = blob.index(struct.pack(">iii", 2, 0, 1))  # two subtopologies, the first one is 0 and has one partition
    negative = blob[: at + 8] + struct.pack(">i", -1) + blob[at + 12 :]
    with pytest.raises(RemoteProtocolError):
        SubscriptionInfo.decode(negative)
    assert read_infos([negative, info(7)]).errors.keys() == {0}


def test_members_can_be_taken_out_as_if_they_had_not_been_read() -> None:
    named = SubscriptionInfo(task_offset_sums=((TaskId(3, 4, "top"), 5),), error_code=7)
    blobs = [info(11), named.encode(), None, info(10), SubscriptionInfo(11, 12, error_code=4).encode()]
    whole = read_infos(blobs)
    assert (whole.named, list(whole.errors), whole.error_code.tolist()) == ({1}, [2], [0, 7, 0, 0, 4])
    columns = whole.without({0: "not to be used", 1: "nor this"})
    assert columns.version.tolist() == [0, 0, 0, 10, 11]
    assert columns.latest.tolist() == [0, 0, 0, 11, 12]
    assert columns.process == (None, None, None, ProcessId(1, 2), ProcessId(0, 0))
    assert columns.error_code.tolist() == [0, 0, 0, 0, 4]
    assert columns.errors == {0: "not to be used", 1: "nor this", 2: "userData is null"}
    assert columns.sum_first.tolist() == [0, 0, 0, 0, 2, 2]
    assert columns.sum_subtopology.tolist() == [0, 1]
    assert columns.sum_partition.tolist() == [1, 2]
    assert columns.sum_value.tolist() == [-2, 1_000]
    assert columns.named == frozenset()
