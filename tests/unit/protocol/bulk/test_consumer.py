"""Named cases of the columnar codec; its agreement with the plain one is in tests/properties."""

import struct
import tracemalloc

import numpy as np
import pytest

from bellwether_kafka.protocol.bulk import (
    owner_of,
    read_assignments,
    read_claims,
    read_subscriptions,
    write_assignments,
)
from bellwether_kafka.protocol.messages import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    encode_sticky_user_data,
)
from bellwether_kafka.protocol.primitives import LocalProtocolError, TopicPartition

NAMES = ("a", "bb", "prod.team.orders-0001.events")
FIRST = np.array([0, 3, 4, 9], dtype=np.int64)
EMPTY = bytes.fromhex("0001 00000000 ffffffff")


def owners(*members: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array(members, dtype=np.int32)


def test_no_members() -> None:
    columns = read_subscriptions([])
    assert not columns.topic_names + columns.topic_lists + tuple(columns.user_data)
    assert len(columns.owned_member) == len(columns.version) == 0
    assert read_assignments([]).topic_names == ()
    assert len(read_claims("sticky", columns).member) == 0
    assert write_assignments((), np.zeros(1, dtype=np.int64), owners(), 0) == []
    assert len(owner_of([], (), np.zeros(1, dtype=np.int64))) == 0


def test_one_bad_member_harms_no_other() -> None:
    good = ConsumerProtocolSubscription(3, ("t",), b"x", (TopicPartition("u", 4),), 7, "az1")
    blobs = [good.encode(), b"", b"\xff\xff", good.encode()[:-1], good.encode()]
    columns = read_subscriptions(blobs)
    assert sorted(columns.errors) == [1, 2, 3]
    assert columns.errors[1] == "2 bytes needed at byte 0, 0 left"
    assert columns.topic_names == ("t", "u")
    assert columns.topic_lists == (("t",),)
    assert columns.topic_list.tolist() == [0, -1, -1, -1, 0]
    assert columns.version.tolist() == [3, -1, -1, -1, 3]
    assert columns.generation.tolist() == [7, -1, -1, -1, 7]
    assert tuple(columns.user_data) == (b"x", None, None, None, b"x")
    assert columns.rack == ("az1", None, None, None, "az1")
    assert columns.owned_member.tolist() == [0, 4]
    assert [columns.topic_names[t] for t in columns.owned_topic] == ["u", "u"]
    assert columns.owned_partition.tolist() == [4, 4]


def test_racks() -> None:
    blobs = [ConsumerProtocolSubscription(3, ("t",), rack_id=rack).encode() for rack in ("a", None, "", "b", "a", "c")]
    columns = read_subscriptions([*blobs[:-1], blobs[-1][:-1] + b"\xff"])
    assert columns.rack == ("a", None, None, "b", "a", None)
    assert list(columns.errors) == [5]


def test_names_and_lists_of_bad_members_leave_no_trace() -> None:
    bad = ConsumerProtocolSubscription(3, ("bad",), None, (TopicPartition("worse", 1),), 7, "az").encode()[:-1]
    good = ConsumerProtocolSubscription(0, ("good",)).encode()
    columns = read_subscriptions([bad, good, bad])
    assert columns.topic_names == ("good",)
    assert columns.topic_lists == (("good",),)
    assert columns.topic_list.tolist() == [-1, 0, -1]


def test_one_list_in_two_versions_is_one_list() -> None:
    columns = read_subscriptions([ConsumerProtocolSubscription(v, ("t", "u")).encode() for v in (0, 3, 1, 0)])
    assert columns.topic_lists == (("t", "u"),)
    assert columns.version.tolist() == [0, 3, 1, 0]


def test_long_lists_with_a_common_head() -> None:
    """Lists with the same first bytes are not mixed up."""
    common = tuple(f"topic-{i:03d}" for i in range(20))
    lists = [(*common, f"zz-{i}") for i in range(9)]
    order = [0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 8, 4, 4, 1]
    columns = read_subscriptions([ConsumerProtocolSubscription(0, lists[i]).encode() for i in order])
    assert [columns.topic_lists[i] for i in columns.topic_list] == [tuple(sorted(lists[i])) for i in order]
    assert len(columns.topic_lists) == 9


def test_a_topic_that_is_listed_without_partitions_is_not_owned() -> None:
    data = bytes.fromhex("0001 00000000 ffffffff 00000002 000174 00000000 000175 00000001 00000003")
    columns = read_subscriptions([data])
    assert columns.topic_names == ("u",)
    assert columns.owned_partition.tolist() == [3]


@pytest.mark.parametrize("members", [1, 40])
def test_names_that_differ_only_in_the_middle(members: int) -> None:
    names = [f"prefix-of-8-{i:05d}-suffix-of-8" for i in range(300)] + ["", "x", "x" * 300, "y" * 300, "é" * 200]
    owned = tuple(TopicPartition(name, i) for i, name in enumerate(names))
    columns = read_subscriptions([ConsumerProtocolSubscription(1, (), None, owned).encode()] * members)
    assert not columns.errors
    assert columns.topic_names == tuple(sorted(names))
    by_topic = {columns.topic_names[t]: p for t, p in zip(columns.owned_topic, columns.owned_partition, strict=True)}
    assert by_topic == dict(owned)
    assert len(columns.owned_member) == members * len(names)


@pytest.mark.parametrize("members", [1, 40])
def test_a_name_of_negative_size_is_refused_even_where_the_bytes_are_there(members: int) -> None:
    size = 40_000
    head = struct.pack(">hiiiH", 1, 0, -1, 1, size)
    blob = head + b"x" * size + struct.pack(">i", 0)
    columns = read_subscriptions([blob] * members)
    assert set(columns.errors) == set(range(members))
    assert columns.errors[0] == "negative length -25536 at byte 16"


@pytest.mark.parametrize("members", [1, 40])
@pytest.mark.parametrize("absurd", [0x7FFFFFFF, 0x10000000, -1])
def test_absurd_counts_allocate_nothing(absurd: int, members: int) -> None:
    blobs = [
        struct.pack(">hi", 0, absurd),
        struct.pack(">hii", 1, 0, 0x7FFFFFFF if absurd < 0 else absurd),
        struct.pack(">hiii", 1, 0, -1, absurd),
        struct.pack(">hiiih1si", 1, 0, -1, 1, 1, b"t", absurd),
    ]
    padded = [blob + bytes(50) for blob in blobs] * members
    read_subscriptions(padded)
    tracemalloc.start()
    try:
        assert len(read_subscriptions(padded).errors) == len(padded)
        assert tracemalloc.get_traced_memory()[1] < 2 * 1024 * 1024
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("version", range(4))
def test_assignments_are_those_of_the_plain_encoder(version: int) -> None:
    owner = owners(0, 2, 0, -1, 2, 2, 0, -1, 1)
    blobs = write_assignments(NAMES, FIRST, owner, 4, version=version, user_data={1: b"echo", 3: b""})
    plain = [
        ConsumerProtocolAssignment(
            version, (TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition(NAMES[2], 2))
        ),
        ConsumerProtocolAssignment(version, (TopicPartition(NAMES[2], 4),), b"echo"),
        ConsumerProtocolAssignment(
            version, (TopicPartition("a", 1), TopicPartition(NAMES[2], 0), TopicPartition(NAMES[2], 1))
        ),
        ConsumerProtocolAssignment(version, (), b""),
    ]
    assert blobs == [message.encode() for message in plain]
    assert owner_of(blobs, NAMES, FIRST).tolist() == owner.tolist()


def test_a_member_with_nothing_gets_ten_bytes() -> None:
    assert write_assignments(NAMES, FIRST, owners(*[-1] * 9), 2) == [EMPTY, EMPTY]
    assert write_assignments((), np.zeros(1, dtype=np.int64), owners(), 2) == [EMPTY, EMPTY]


def test_more_members_than_sixteen_bits() -> None:
    members = (1 << 16) + 2
    blobs = write_assignments(("t",), np.array([0, 2], dtype=np.int64), owners(members - 1, 1), members)
    assert blobs[0] == EMPTY
    assert ConsumerProtocolAssignment.decode(blobs[1]).partitions == (TopicPartition("t", 1),)
    assert ConsumerProtocolAssignment.decode(blobs[-1]).partitions == (TopicPartition("t", 0),)


def test_what_cannot_be_written() -> None:
    good = owners(*[0] * 9)
    for version in (4, -1):
        with pytest.raises(LocalProtocolError, match=f"version {version}"):
            write_assignments(NAMES, FIRST, good, 1, version=version)
    with pytest.raises(LocalProtocolError, match="userData"):
        write_assignments(NAMES, FIRST, good, 1, user_data={1: b""})
    with pytest.raises(LocalProtocolError, match="owners of 8"):
        write_assignments(NAMES, FIRST, good[:8], 1)
    for wrong in (1, -2):
        with pytest.raises(LocalProtocolError, match="1 members"):
            write_assignments(NAMES, FIRST, owners(*[0] * 8, wrong), 1)
    with pytest.raises(LocalProtocolError, match="32768"):
        write_assignments(("x" * 32768,), np.array([0, 9], dtype=np.int64), good, 1)


def test_the_last_check_refuses_what_is_wrong() -> None:
    def assignment(*partitions: tuple[str, int], version: int = 1) -> bytes:
        return ConsumerProtocolAssignment(version, tuple(TopicPartition(*p) for p in partitions)).encode()

    fine = assignment(("a", 0))
    assert owner_of([EMPTY, fine], NAMES, FIRST).tolist() == [1] + [-1] * 8
    for wrong, text in (
        ([fine, b""], "member 1 does not decode"),
        ([fine + b"\0", fine], "member 0 does not decode"),
        ([fine[:-1]], "member 0 does not decode"),
        ([b"\0\4" + fine[2:]], "member 0 does not decode"),
        ([b"\xff\xff" + fine[2:]], "member 0 does not decode"),
        ([fine, assignment(("zz", 0))], "unknown topic 'zz'"),
        ([fine, assignment(("bb", 1))], "member 1 gets bb-1"),
        ([fine, assignment(("bb", -1))], "member 1 gets bb--1"),
        ([fine, assignment(("bb", 0)), fine], "a-0 is given more than once"),
        ([assignment(("bb", 0), ("bb", 0))], "bb-0 is given more than once"),
    ):
        with pytest.raises(LocalProtocolError, match=text):
            owner_of(wrong, NAMES, FIRST)


def test_assignments_of_others_are_read() -> None:
    data = ConsumerProtocolAssignment(2, (TopicPartition("t", 1), TopicPartition("t", 0)), b"x").encode()
    columns = read_assignments([data + b"trailing", b"", b"\0\1", EMPTY])
    assert sorted(columns.errors) == [1, 2]
    assert columns.version.tolist() == [2, -1, -1, 1]
    assert tuple(columns.user_data) == (b"x", None, None, None)
    assert columns.topic_names == ("t",)
    assert columns.member.tolist() == [0, 0]
    assert columns.partition.tolist() == [1, 0]


def test_claims_in_user_data() -> None:
    mine = (TopicPartition("t", 1), TopicPartition("u", 0))
    v1 = encode_sticky_user_data(mine, 7)
    data = [v1, b"\0\1" + v1, v1[:-4], None, b"", b"\0\0\0\5", b"\0", b"\0\1", b"\0\1" + v1[:-4]]
    columns = read_subscriptions(
        [ConsumerProtocolSubscription(1, ("t",), d, (TopicPartition("w", 3),)).encode() for d in data]
    )
    sticky = read_claims("sticky", columns)
    assert sticky.generation.tolist() == [7, 7, -1, -1, -1, -1, -1, -1, -1]
    assert sticky.member.tolist() == [0, 0, 1, 1, 2, 2]
    assert [sticky.topic_names[t] for t in sticky.topic] == ["t", "u"] * 3
    assert sticky.partition.tolist() == [1, 0] * 3
    cooperative = read_claims("cooperative-sticky", columns)
    assert cooperative.generation.tolist() == [7, 7, -1, -1, -1, 5, -1, -1, -1]
    assert cooperative.topic_names == ("t", "w")
    assert cooperative.partition.tolist() == [3] * 9


def claimed(protocol: str, message: ConsumerProtocolSubscription) -> tuple[list[tuple[str, int]], int]:
    """(partitions, generation) of the only member."""
    claims = read_claims(protocol, read_subscriptions([message.encode()]))
    names = [claims.topic_names[topic] for topic in claims.topic]
    return [*zip(names, claims.partition.tolist(), strict=True)], int(claims.generation[0])


def test_sticky_members_claim_in_user_data_alone() -> None:
    both = [("t", 0), ("t", 1), ("u", 0)]
    v1 = encode_sticky_user_data([TopicPartition(*tp) for tp in both], 7)
    message = ConsumerProtocolSubscription(3, ("t", "u"), v1, (TopicPartition("t", 9),), 40)
    assert claimed("sticky", message) == (both, 7)
    assert claimed("sticky", ConsumerProtocolSubscription(3, ("t",), v1[:-4], (), 40)) == (both, -1)


@pytest.mark.parametrize("protocol", ["cooperative-sticky", "range", "roundrobin"])
def test_all_others_claim_in_their_owned_list(protocol: str) -> None:
    owned = (TopicPartition("t", 1),)
    v1 = encode_sticky_user_data([TopicPartition("u", 0)], 7)
    assert claimed(protocol, ConsumerProtocolSubscription(3, ("t",), v1, owned, 40)) == ([("t", 1)], 40)
    assert claimed(protocol, ConsumerProtocolSubscription(1, ("t",), b"\0\0\0\7", owned)) == ([("t", 1)], 7)
    assert claimed(protocol, ConsumerProtocolSubscription(1, ("t",), v1, owned)) == ([("t", 1)], 7)
    assert claimed(protocol, ConsumerProtocolSubscription(1, ("t",), None, owned)) == ([("t", 1)], -1)


def test_a_generation_in_the_subscription_goes_before_that_in_user_data() -> None:
    blob = ConsumerProtocolSubscription(2, ("t",), b"\0\0\0\5", (), 9).encode()
    columns = read_subscriptions([blob])
    assert read_claims("range", columns).generation.tolist() == [9]
    assert read_claims("sticky", columns).generation.tolist() == [-1]
    assert columns.generation.tolist() == [9]
