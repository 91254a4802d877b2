"""Rules of a membership that need no machine."""

import pytest

from bellwether_kafka.coordinator.membership import MembershipConfig, is_bellwether
from bellwether_kafka.coordinator.membership import events as e
from bellwether_kafka.coordinator.membership.lead_rules import (
    NOT_TO_BE_CONVERTED,
    empty_assignment,
    subscription,
    with_own,
)
from bellwether_kafka.protocol.messages import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    SubscriptionInfo,
)
from bellwether_kafka.protocol.primitives import ProcessId, TopicPartition
from tests.unit.coordinator.membership.playbook import ME


def test_bellwethers_own_empty_assignment_can_be_read_by_those_it_is_for() -> None:
    assert ConsumerProtocolAssignment.decode(empty_assignment()).user_data is None
    assert ConsumerProtocolAssignment.decode(empty_assignment(streams=True)).user_data


@pytest.mark.parametrize(("conversion", "marked"), [("allow", False), ("block", True)])
def test_only_where_conversion_is_blocked_bellwethers_assignment_carries_a_mark(conversion: str, marked: bool) -> None:
    config = MembershipConfig("orders", online_conversion=conversion)  # type: ignore[arg-type]  # one of its literals
    plan = dict(with_own((("a", b"plan"), (ME, b"nothing")), ME, config))
    assert plan["a"] == b"plan"
    data = ConsumerProtocolAssignment.decode(plan[ME]).user_data if marked else plan[ME]
    assert data == (NOT_TO_BE_CONVERTED if marked else b"nothing")


def test_an_instance_is_no_thread_of_an_application_and_what_cannot_be_read_may_be_one() -> None:
    thread = SubscriptionInfo(process_id=ProcessId(1, 2)).encode()
    people = (
        e.DescribedMember("us", None, subscription(("t",), streams=True)),
        e.DescribedMember("thread", None, ConsumerProtocolSubscription(3, ("t",), thread).encode()),
        e.DescribedMember("odd", None, b"\x00"),
    )
    left = [m for m in people if not is_bellwether(m, MembershipConfig("shop"))]
    assert [m.member_id for m in left] == ["thread", "odd"]


def test_among_consumers_an_instance_is_known_by_its_instance_id_and_by_having_no_work() -> None:
    config = MembershipConfig("orders", instance_id="bellwether")
    work = ConsumerProtocolAssignment(partitions=(TopicPartition("t", 0),)).encode()
    theirs = ConsumerProtocolSubscription(3, ("t",)).encode()
    people = (
        e.DescribedMember("led", "bellwether", subscription(("t",)), ConsumerProtocolAssignment().encode()),
        e.DescribedMember("rebalancing", "bellwether", b""),
        e.DescribedMember("other", "payments-1", subscription(("t",))),
        e.DescribedMember("idle", None, subscription(("t",))),
        e.DescribedMember("stranger", "bellwether", theirs, work),
    )
    assert [m.member_id for m in people if is_bellwether(m, config)] == ["led", "rebalancing"]


@pytest.mark.parametrize(
    ("other", "is_one"),
    [
        (e.DescribedMember("leads", "elsewhere", subscription(()), b""), True),
        (e.DescribedMember("leads", "elsewhere", subscription(("control",)), b""), True),
        (e.DescribedMember("without an id", None, subscription(()), b"", "bellwether"), True),
        (e.DescribedMember("alone", "elsewhere", subscription(("t",)), b"", "bellwether"), True),
        (e.DescribedMember("rebalancing", "elsewhere", b"", b"", "bellwether"), True),
        (e.DescribedMember("rebalancing", "payments-1", b"", b"", "payments"), False),
        (e.DescribedMember("matches no topic", None, subscription(()), b"", "kafka-python-2.3"), False),
        (e.DescribedMember("has no partition", "payments-1", subscription(("t",)), b"", "payments"), False),
    ],
)
def test_an_instance_with_another_instance_id_is_one_too(other: e.DescribedMember, *, is_one: bool) -> None:
    """Commands with another instance_id called the leader a member, and its group one that can be led."""
    assert is_bellwether(other, MembershipConfig("orders", instance_id="mine", topics=("control",))) is is_one
