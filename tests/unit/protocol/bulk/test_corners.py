"""What the bulk readers do with the few that are not like the others: the same as the plain readers, whatever it is."""

import struct

import pytest

from bellwether_kafka.protocol.bulk import read_infos, read_subscriptions
from bellwether_kafka.protocol.messages import (
    ConsumerProtocolSubscription,
    SubscriptionInfo,
)
from bellwether_kafka.protocol.primitives import ProcessId, RemoteProtocolError, TaskId
from tests.kit.consumers import subscription

GOOD = [subscription(3, ["orders", f"t{i}"], b"user data", [("orders", i)], 4, "az1") for i in range(40)]
BAD_RACK = subscription(3, ["orders"], None, (), 4, "RACK").replace(b"RACK", b"\xff\xfe\xfd\xfc")


def test_a_rack_that_is_no_text_is_an_error_of_its_member() -> None:
    with pytest.raises(RemoteProtocolError):
        ConsumerProtocolSubscription.decode(BAD_RACK)
    assert read_subscriptions([*GOOD, BAD_RACK]).errors.keys() == {len(GOOD)}


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
