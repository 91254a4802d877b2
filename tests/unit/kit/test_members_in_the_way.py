"""Which members a take-over test restarts before it begins: never Bellwether's own."""

from tests.interop.support.bellwether import INSTANCE
from tests.interop.support.groups import in_the_way
from tests.interop.support.raw import GroupMember
from tests.kit.membership import spread_hash


def in_slot(slot: int, name: str, instance_id: str | None = None) -> GroupMember:
    """A member whose id is in this slot of a table of 16."""
    member_id = next(f"{name}-{i}" for i in range(10_000) if spread_hash(f"{name}-{i}") & 15 == slot)
    return GroupMember(member_id=member_id, instance_id=instance_id, client_id=name, metadata=b"", assignment=b"")


def test_bellwether_in_the_first_slot_is_in_nobodys_way() -> None:
    own, others = in_slot(0, INSTANCE, INSTANCE), [in_slot(slot, "m-java") for slot in (5, 9, 13)]
    assert in_the_way([own, *others], leader=own.member_id) == []
    assert in_the_way([own, *others], leader=own.member_id, leader_kind="java") == []


def test_another_member_in_the_first_slot_is_in_the_way() -> None:
    own, first, other = in_slot(2, INSTANCE, INSTANCE), in_slot(0, "a-java"), in_slot(7, "b-java")
    assert in_the_way([first, own, other], leader=own.member_id) == [first]


def test_a_leader_of_another_kind_is_in_the_way() -> None:
    leader, others = in_slot(5, "a-librdkafka"), [in_slot(slot, "b-java") for slot in (9, 13)]
    assert in_the_way([leader, *others], leader.member_id, "java") == [leader]
