"""What a leader knows of its members: client ids from member ids, hosts from earlier descriptions."""

from itertools import pairwise

from bellwether_kafka.coordinator.membership import DescribedMember, JoinedMember
from bellwether_kafka.coordinator.planning.racks import MemberRacks
from tests.kit.plans import rack_rules

UUID = "0d6e1a3c-53a1-4a4f-9d3e-1b2c3d4e5f60"
BY_CLIENT = rack_rules(client_ids={"orders-a*": "az1"})
BY_HOST = rack_rules(hosts={"10.1.0.0/16": "az1", "10.2.0.0/16": "az2"})


def joined(member_id: str, instance_id: str | None = None) -> JoinedMember:
    return JoinedMember(member_id, instance_id, b"")


def shown(member_id: str, host: str, instance_id: str | None = None, client_id: str = "c") -> DescribedMember:
    return DescribedMember(member_id, instance_id, client_id=client_id, client_host=host)


def test_the_client_id_of_a_dynamic_member_is_in_its_member_id() -> None:
    racks = MemberRacks(BY_CLIENT)
    assert racks.of(joined(f"orders-a-1-{UUID}")).rack == "az1"
    assert racks.of(joined(f"orders-b-1-{UUID}")).rack is None
    assert not racks.lacks([joined(f"orders-a-1-{UUID}")])


def test_the_client_id_of_a_static_member_is_known_once_it_was_shown_and_outlives_a_restart() -> None:
    racks, member = MemberRacks(BY_CLIENT), joined(f"orders-a-{UUID}", "orders-a")
    assert (racks.of(member).rack, racks.lacks([member])) == (None, True), "this one has its instance id in it"
    racks.observe([shown(member.member_id, "/10.1.0.1", "orders-a", client_id="orders-a1")])
    assert racks.of(joined(f"orders-a-again-{UUID}", "orders-a")).rack == "az1"
    assert not racks.lacks([member])


def test_a_host_is_known_once_it_was_shown() -> None:
    racks = MemberRacks(BY_HOST)
    assert (racks.of(joined("a")).rack, racks.lacks([joined("a")])) == (None, True)
    racks.observe([shown("a", "/10.1.0.1"), shown("b", "/10.2.0.1")])
    assert [racks.of(joined(name)).rack for name in "abc"] == ["az1", "az2", None]
    assert [racks.lacks([joined(name)]) for name in "abc"] == [False, False, True]


def test_a_static_member_that_restarts_is_taken_to_be_on_its_last_host_until_it_is_shown() -> None:
    racks = MemberRacks(BY_HOST)
    racks.observe([shown("a-1", "/10.1.0.1", "a")])
    assert racks.of(joined("a-2", "a")).rack == "az1"
    racks.observe([shown("a-2", "/10.2.0.1", "a")])
    assert racks.of(joined("a-2", "a")).rack == "az2"


def test_members_that_are_gone_are_forgotten_but_an_empty_answer_is_no_description() -> None:
    racks = MemberRacks(BY_HOST)
    racks.observe([shown("a", "/10.1.0.1"), shown("b", "/10.2.0.1")])
    racks.observe([])
    racks.observe([shown("b", "/10.2.0.1")])
    assert [racks.of(joined(name)).rack for name in "ab"] == [None, "az2"]


def test_without_rules_nothing_is_kept_and_nothing_is_lacking() -> None:
    racks = MemberRacks()
    racks.observe([shown("a", "/10.1.0.1")])
    assert (racks.of(joined("a")).rack, racks.lacks([joined("a")])) == (None, False)


def test_the_version_changes_with_what_is_known_only() -> None:
    racks = MemberRacks(BY_HOST)
    versions = [racks.version]
    for host in ("/10.1.0.1", "/10.1.0.1", "/10.2.0.1"):
        racks.observe([shown("a", host)])
        versions.append(racks.version)
    assert [before != after for before, after in pairwise(versions)] == [True, False, True]
