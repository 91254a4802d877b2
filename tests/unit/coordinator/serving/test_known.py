"""Groups are known by their members, whatever becomes of them."""

from bellwether_kafka.coordinator.serving import KnownGroups, KnownMember


def test_a_group_is_found_by_any_member_that_was_seen() -> None:
    groups = KnownGroups()
    groups.see("orders", dict.fromkeys(["a", "b"], KnownMember()))
    groups.see("clicks", dict.fromkeys(["c"], KnownMember()))
    assert groups.group_of(["new", "b"]) == "orders"
    assert groups.group_of(["new"]) == ""
    groups.see("orders", dict.fromkeys(["b", "d"], KnownMember()))
    assert [groups.group_of([member]) for member in "abcd"] == ["", "orders", "clicks", "orders"]


def test_a_group_that_is_gone_is_not_found() -> None:
    groups = KnownGroups()
    groups.see("orders", dict.fromkeys(["a"], KnownMember()))
    groups.forget("orders")
    groups.forget("never seen")
    assert groups.group_of(["a"]) == ""
