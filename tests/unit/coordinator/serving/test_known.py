"""Groups are known by their members, whatever becomes of them."""

from bellwether_kafka.coordinator.serving import KnownGroups


def test_a_group_is_found_by_any_member_that_was_seen() -> None:
    groups = KnownGroups()
    groups.see("orders", ["a", "b"])
    groups.see("clicks", ["c"])
    assert groups.group_of(["new", "b"]) == "orders"
    assert groups.group_of(["new"]) == ""
    groups.see("orders", ["b", "d"])
    assert [groups.group_of([member]) for member in "abcd"] == ["", "orders", "clicks", "orders"]


def test_a_group_that_is_gone_is_not_found() -> None:
    groups = KnownGroups()
    groups.see("orders", ["a"])
    groups.forget("orders")
    groups.forget("never seen")
    assert groups.group_of(["a"]) == ""
