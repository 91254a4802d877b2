"""Static members that have returned with other topics or another rack; an ordinary restart is none of that."""

import pytest

from bellwether_kafka.coordinator.membership import (
    DescribedMember,
    JoinedMember,
    ShownGroup,
    changed_members,
    may_change,
    sentence,
)
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import TopicPartition

OWN = "bellwether-1"


def message(topics: tuple[str, ...], rack: str | None = None, *, user_data: bytes = b"", generation: int = 5) -> bytes:
    owned = (TopicPartition("t", generation),)
    return ConsumerProtocolSubscription(3, topics, user_data, owned, generation, rack).encode()


PLANNED = (
    JoinedMember(OWN, "bellwether", message(())),
    JoinedMember("a-1", "a", message(("t", "u"), "az1")),
    JoinedMember("b-1", None, message(("t",))),
)


def after(metadata: bytes, *, member_id: str = "a-2", instance_id: str | None = "a") -> str:
    members = (DescribedMember(OWN, "bellwether", message(("x",))), DescribedMember(member_id, instance_id, metadata))
    return sentence(changed_members(PLANNED, ShownGroup("Stable", "range", members), OWN))


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        (message(("t", "u", "v"), "az1"), "subscribes to v, too"),
        (message(("t",), "az1"), "subscribes to u no more"),
        (message(("t", "u"), "az2"), "is in rack 'az2' instead of 'az1'"),
        (message(("t", "u")), "is in rack '' instead of 'az1'"),
        (message(("t", "w"), "az1"), "subscribes to w, too, subscribes to u no more"),
    ],
)
def test_other_topics_or_another_rack_are_noticed(metadata: bytes, expected: str) -> None:
    assert after(metadata) == f"static member a has returned and {expected}"


@pytest.mark.parametrize(
    "metadata",
    [
        message(("t", "u"), "az1"),
        message(("u", "t"), "az1"),
        message(("t", "u"), "az1", user_data=b"another", generation=-1),
        ConsumerProtocolSubscription(3, ("t", "u"), None, (), -1, "az1").encode(),
        b"",
        b"\x00",
    ],
)
def test_an_ordinary_restart_is_no_change(metadata: bytes) -> None:
    assert after(metadata) == ""


def test_only_static_members_change_without_a_rebalance() -> None:
    assert after(message(("z",)), member_id="b-1", instance_id=None) == ""
    assert may_change(PLANNED, OWN)
    assert not may_change(PLANNED[:1] + PLANNED[2:], OWN)
