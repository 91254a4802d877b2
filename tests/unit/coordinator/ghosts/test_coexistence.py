"""Can a group be converted, and is its rebalance wedged: from what DescribeGroups and Bellwether's own requests say."""

import struct
from dataclasses import replace

import pytest

from bellwether_kafka.coordinator.ghosts import Conversion, ConversionWatch, Rebalancing, conversion, troubles
from bellwether_kafka.coordinator.membership import DescribeAnswer, DescribedMember
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import TopicPartition

WEDGED_S = 4.0

SUBSCRIBED = ConsumerProtocolSubscription(topics=("orders",)).encode()


def member(name: str, user_data: bytes | None = None, metadata: bytes = SUBSCRIBED) -> DescribedMember:
    assignment = ConsumerProtocolAssignment(user_data=user_data).encode()
    return DescribedMember(name, None, metadata, assignment, client_id=name, client_host="/10.0.0.1")


def group(
    *members: DescribedMember, state: str = "Stable", kind: str = "consumer", protocol: str = "range", error: int = 0
) -> DescribeAnswer:
    return DescribeAnswer(0, error, state, kind, protocol, members)


def obstacles(conversion: Conversion | None) -> str:
    assert conversion is not None
    assert not conversion.ready
    return "; ".join(conversion.obstacles)


def test_plain_consumers_can_be_converted() -> None:
    assert conversion(group(member("a"), member("b", b""))) == Conversion(())


def test_who_carries_user_data_is_named() -> None:
    message = obstacles(conversion(group(member("a"), member("b", b"state"), member("c", b"state"))))
    assert "b (/10.0.0.1), c (/10.0.0.1)" in message
    assert "userData" in message


def test_many_are_counted() -> None:
    assert "and 2 more" in obstacles(conversion(group(*(member(f"m{n}", b"x") for n in range(7)))))


def test_what_does_not_parse_is_named() -> None:
    assert "broken" in obstacles(conversion(group(member("a"), member("broken", metadata=b"\0\1\x7f"))))


SUBSCRIBED_TO_T = struct.pack(">ihs", 1, 1, b"t") + struct.pack(">i", -1)  # topics, and no userData


@pytest.mark.parametrize(
    ("version", "rest", "taken"),
    [
        (0, b"", True),
        (0, b"bytes behind the last field", True),
        (1, b"", False),  # kafka-go writes version 1 without owned partitions
        (1, struct.pack(">i", 0), True),
        (2, struct.pack(">i", 0), False),
        (2, struct.pack(">ii", 0, -1), True),
        (3, struct.pack(">ii", 0, -1), False),
        (3, struct.pack(">iih", 0, -1, -1), True),
        (9, struct.pack(">ii", 0, -1), False),
        (9, struct.pack(">iih", 0, -1, -1), True),
    ],
)
def test_what_a_broker_cannot_read_prevents_a_conversion_though_bellwether_can(
    version: int, rest: bytes, *, taken: bool
) -> None:
    seen = conversion(
        group(member("a"), member("kafka-go", metadata=struct.pack(">h", version) + SUBSCRIBED_TO_T + rest))
    )
    assert seen is not None
    assert seen.ready == taken
    assert all("kafka-go (/10.0.0.1)" in obstacle for obstacle in seen.obstacles)


def test_a_partition_with_two_owners_prevents_a_conversion() -> None:
    """The broker ends it with an IllegalStateException."""
    shared, apart = TopicPartition("orders", 1), TopicPartition("orders", 0)
    members = [
        replace(member(name), assignment=ConsumerProtocolAssignment(partitions=has).encode())
        for name, has in (("a", (apart, shared)), ("b", (shared,)))
    ]
    assert obstacles(conversion(group(*members))) == (
        "partitions have several owners: orders-1 (a (/10.0.0.1), b (/10.0.0.1))"
    )


def test_groups_of_other_types_cannot_be_converted() -> None:
    assert "'connect'" in obstacles(conversion(group(member("a"), kind="connect")))


def test_streams_applications_are_named_as_what_they_are() -> None:
    assert "Streams" in obstacles(conversion(group(member("a", b"x"), protocol="stream")))


def test_an_unfinished_rebalance_says_nothing() -> None:
    assert conversion(group(member("a"), state="PreparingRebalance")) is None
    assert conversion(group(error=15)) is None


def test_only_changes_are_reported() -> None:
    reported: list[tuple[str, bool]] = []
    watch = ConversionWatch(lambda name, conversion: reported.append((name, conversion.ready)))
    for seen in (group(member("a")), group(member("a")), group(state="Dead"), group(member("a", b"x"))):
        watch.on_seen("orders", seen)
    assert reported == [("orders", True), ("orders", False)]


# ---- KAFKA-20570 -----------------------------------------------------------------------------------------------------


def preparing(*names: str) -> DescribeAnswer:
    return group(*(DescribedMember(n, None, client_host="/10.0.0.1") for n in names), state="PreparingRebalance")


class Wedge:
    """The descriptions of one group, in which Bellwether's requests fail without an explanation since 1 s."""

    def __init__(self, *at_rest: str, unclear_since: float | None = 1.0) -> None:
        self.state, self.unclear_since = Rebalancing(), unclear_since
        if at_rest:
            self.judge(group(*map(member, at_rest)), 0.0)

    def judge(self, seen: DescribeAnswer, now: float) -> tuple[str, str]:
        """The alert and the member to remove, "" for none."""
        since = self.unclear_since if now else None
        self.state, trouble = troubles(seen, self.state, now, unclear_since=since, evicts=True)
        return "".join(trouble.alerts), trouble.evict.member_id if trouble.evict is not None else ""


def test_a_wedge_names_who_came_since_the_group_rested() -> None:
    wedge = Wedge("a", "b")
    assert wedge.judge(preparing("a", "b", "bad"), 2.0) == ("", ""), "a broker may be starting"
    alert, evict = wedge.judge(preparing("a", "b", "bad"), 1.0 + WEDGED_S)
    assert evict == "bad"
    assert "KAFKA-20570" in alert
    assert "bad (/10.0.0.1)" in alert
    assert "b (" not in alert.replace("bad (", "")
    assert wedge.judge(preparing("a", "b", "bad"), 2.0 + WEDGED_S) == ("", ""), "it is named once"


def test_waiting_for_a_ghost_is_no_wedge() -> None:
    assert Wedge("a", unclear_since=None).judge(preparing("a", "b"), 100.0) == ("", "")


def test_without_a_newcomer_nobody_is_suspected() -> None:
    alert, evict = Wedge("a").judge(preparing("a"), 10.0)
    assert "changed its subscription" in alert
    assert evict == ""


def test_a_group_never_seen_at_rest_has_no_suspects() -> None:
    alert, evict = Wedge().judge(preparing("a", "bad"), 10.0)
    assert alert
    assert evict == ""


def test_suspects_are_evicted_one_at_a_time() -> None:
    wedge = Wedge("a")
    assert wedge.judge(preparing("a", "x", "y"), 10.0)[1] == "x"
    assert wedge.judge(preparing("a", "x", "y"), 10.5)[1] == ""
    assert wedge.judge(preparing("a", "x", "y"), 13.0)[1] == "x"
