"""Rules of a membership that need no machine."""

import pytest

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.membership import STREAMS_PROTOCOL, MembershipConfig, is_bellwether
from bellwether_kafka.protocol.messages import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    SubscriptionInfo,
)
from bellwether_kafka.protocol.primitives import ProcessId, TopicPartition
from tests.kit.membership import ME, Play, member, own_assignment, own_subscription


@pytest.mark.parametrize("streams", [False, True])
def test_bellwethers_own_assignment_can_be_read_by_those_it_is_for(*, streams: bool) -> None:
    settings = {"protocols": (STREAMS_PROTOCOL,)} if streams else {}
    sync = (
        Play(**settings).joining().joined(member(ME), protocol="stream" if streams else "range").sent(membership.Sync)
    )
    assert sync.assignments == ((ME, own_assignment(streams=streams)),)


@pytest.mark.parametrize(("conversion", "mark"), [("allow", None), ("block", b"bellwether")])
def test_only_where_conversion_is_blocked_bellwethers_assignment_carries_a_mark(conversion: str, mark: bytes) -> None:
    sync = Play(online_conversion=conversion).deciding().planned().sent(membership.Sync)
    plan = dict(sync.assignments)
    assert plan["a"] == b"plan of a"
    own = ConsumerProtocolAssignment(user_data=mark).encode() if mark else b"nothing"
    assert plan[ME] == own


def test_an_instance_is_no_thread_of_an_application_and_what_cannot_be_read_may_be_one() -> None:
    thread = SubscriptionInfo(process_id=ProcessId(1, 2)).encode()
    people = (
        membership.DescribedMember("us", None, own_subscription("t", streams=True)),
        membership.DescribedMember("thread", None, ConsumerProtocolSubscription(3, ("t",), thread).encode()),
        membership.DescribedMember("odd", None, b"\x00"),
    )
    left = [m for m in people if not is_bellwether(m, MembershipConfig("shop"))]
    assert [m.member_id for m in left] == ["thread", "odd"]


def test_among_consumers_an_instance_is_known_by_its_instance_id_and_by_having_no_work() -> None:
    config = MembershipConfig("orders", instance_id="bellwether")
    work = ConsumerProtocolAssignment(partitions=(TopicPartition("t", 0),)).encode()
    theirs = ConsumerProtocolSubscription(3, ("t",)).encode()
    people = (
        membership.DescribedMember("led", "bellwether", own_subscription("t"), ConsumerProtocolAssignment().encode()),
        membership.DescribedMember("rebalancing", "bellwether", b""),
        membership.DescribedMember("other", "payments-1", own_subscription("t")),
        membership.DescribedMember("idle", None, own_subscription("t")),
        membership.DescribedMember("stranger", "bellwether", theirs, work),
    )
    assert [m.member_id for m in people if is_bellwether(m, config)] == ["led", "rebalancing"]


@pytest.mark.parametrize(
    ("other", "is_one"),
    [
        (membership.DescribedMember("leads", "elsewhere", own_subscription(), b""), True),
        (membership.DescribedMember("leads", "elsewhere", own_subscription("control"), b""), True),
        (membership.DescribedMember("without an id", None, own_subscription(), b"", "bellwether"), True),
        (membership.DescribedMember("alone", "elsewhere", own_subscription("t"), b"", "bellwether"), True),
        (membership.DescribedMember("rebalancing", "elsewhere", b"", b"", "bellwether"), True),
        (membership.DescribedMember("rebalancing", "payments-1", b"", b"", "payments"), False),
        (membership.DescribedMember("matches no topic", None, own_subscription(), b"", "kafka-python-2.3"), False),
        (membership.DescribedMember("has no partition", "payments-1", own_subscription("t"), b"", "payments"), False),
    ],
)
def test_an_instance_with_another_instance_id_is_one_too(other: membership.DescribedMember, *, is_one: bool) -> None:
    """Commands with another instance_id called the leader a member, and its group one that can be led."""
    assert is_bellwether(other, MembershipConfig("orders", instance_id="mine", topics=("control",))) is is_one
