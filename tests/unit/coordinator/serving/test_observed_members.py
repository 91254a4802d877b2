"""Rules by client id, and racks by configuration: a broker sends neither client ids nor hosts, observation does."""

from collections import Counter
from collections.abc import Mapping

import pytest

from bellwether_kafka.assignors.consumer import Policy
from bellwether_kafka.assignors.shared import ClusterView, Rule, Weights
from bellwether_kafka.coordinator.serving import KnownMember
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.serving import RACKS, TOPIC, Asking, World, lacked, owners, six, topic_id

EVACUATED = Rule("ban", "*", "member:checkout-a")
# All replicas are in all racks, and the leaders of one topic are in az1, az2, az3, az1 ...
EVERYWHERE = [list(RACKS)] * 12
LEADERS = ClusterView.of({"clicks": [[rack, *(other for other in RACKS if other != rack)] for rack in RACKS * 4]})


def named(world: World, **client_ids: str) -> None:
    world.groups.see("orders", {member: KnownMember(client_id) for member, client_id in client_ids.items()})


def evacuating(racks_configured: bool = False) -> World:
    world = World(racks_configured=racks_configured)
    world.topics.learn({topic_id(0): "clicks"})
    world.rules["orders"] = (EVACUATED,)
    return world


def test_an_evacuation_by_client_id_empties_every_member_that_has_it() -> None:
    world = evacuating()
    named(world, m0="checkout-a", m1="checkout-b", m2="checkout-a", m3="c", m4="d", m5="e")
    assert set(owners(world.answer(six()))) == {1, 3, 4, 5}


def test_a_plan_before_a_members_client_id_was_observed_is_made_again_once_it_is() -> None:
    world = evacuating()
    named(world, m1="checkout-b")
    assert 0 in owners(world.answer(six()))
    assert lacked(world.answers) == {}, "the others are not known yet"
    named(world, m0="checkout-a", m1="checkout-b", m2="c", m3="d", m4="e", m5="f")
    assert lacked(world.answers) == {"orders": ""}
    assert 0 not in owners(world.answer(six()))
    assert lacked(world.answers) == {}


def test_a_plan_without_rules_by_name_and_without_configured_racks_is_not_made_again() -> None:
    world = evacuating()
    world.rules["orders"] = (Rule("ban", "*", "rack:az1"),)
    named(world, m1="checkout-b")
    world.answer(six())
    named(world, **dict.fromkeys(six().members, "c"))
    assert lacked(world.answers) == {}


@pytest.mark.parametrize(("configured", "assignor"), [("load-aware", "bellwether"), ("kafka", "bellwether-load-aware")])
def test_a_capacity_by_client_id_counts(configured: str, assignor: str) -> None:
    """One that the assignor's name chose had none: the group's settings were left aside with its policy."""
    world = World(Policy(configured).with_capacity({"large": 3.0}))
    world.topics.learn({topic_id(0): "clicks"})
    world.weights = Weights({TopicPartition("clicks", p): 1.0 for p in range(12)})
    named(world, m0="large", m1="small", m2="small")
    three = Asking([TOPIC], {f"m{i}": ("", {}) for i in range(3)}, assignor=assignor)
    assert Counter(owners(world.answer(three)))[0] == 8, "8 / 3 is less than 3 / 1"


def joined(world: World, member: KnownMember, *, rack: str = "", instances: Mapping[str, str] | None = None) -> str:
    """What is reported of a plan for an observed member and a new one, once that was observed as `member`; "nothing"
    where no group is reported."""
    world.topics.learn({topic_id(0): "clicks"})
    named(world, m0="other")
    world.answer(
        Asking([TOPIC], {"m0": (rack, {}), "m1": (rack, {})}, instances=instances or {}, assignor="bellwether")
    )
    before = lacked(world.answers)
    world.groups.see("orders", {"m0": KnownMember("other"), "m1": member})
    assert before == {}, "a group is reported when all are known"
    return lacked(world.answers).get("orders", "nothing")


def test_a_plan_before_a_members_configured_rack_was_known_is_made_again() -> None:
    world = World(Policy("rack-first"), racks_configured=True)
    cause = "the plan was made before m1 was observed, which has rack az2 by [racks]"
    assert joined(world, KnownMember("new", "az2")) == cause


@pytest.mark.parametrize(
    ("name", "member", "rack", "reported"),
    [
        ("rack-first", KnownMember("new"), "", ""),
        ("rack-first", KnownMember("new", "az2"), "az2", "nothing"),
        ("sticky-min-churn", KnownMember("new", "az2"), "", ""),
        ("topic-balance", KnownMember("new", "az2"), "", ""),
    ],
    ids=["no rack is configured for it", "it sends its rack", "a policy without racks", "another one"],
)
def test_a_plan_for_which_configured_racks_do_not_matter_stays(
    name: str, member: KnownMember, rack: str, reported: str
) -> None:
    assert joined(World(Policy(name), racks_configured=True), member, rack=rack) == reported


def test_a_plan_before_a_members_capacity_was_known_is_made_again() -> None:
    world = World(Policy("load-aware").with_capacity({"large": 3.0}))
    cause = "the plan was made before m1 was observed, which has the capacity of large"
    assert joined(world, KnownMember("large")) == cause


@pytest.mark.parametrize(
    ("world", "instances", "reported"),
    [
        (World(Policy("load-aware").with_capacity({"large": 3.0})), {}, ""),
        (World(Policy("load-aware").with_capacity({"static-1": 3.0, "new": 2.0})), {"m1": "static-1"}, "nothing"),
        (World(Policy("rack-first").with_capacity({"new": 3.0})), {}, "nothing"),
    ],
    ids=["another client id", "its instance id has one", "a policy without capacities"],
)
def test_a_plan_for_which_capacities_do_not_matter_stays(
    world: World, instances: Mapping[str, str], reported: str
) -> None:
    assert joined(world, KnownMember("new"), instances=instances) == reported


@pytest.mark.parametrize(
    ("world", "member", "cause"),
    [
        (World(Policy("rack-first"), racks_configured=True), KnownMember("a", "az2"), "has rack az2 by [racks]"),
        (World(Policy("load-aware").with_capacity({"a": 3.0})), KnownMember("a"), "has the capacity of a"),
    ],
    ids=["racks", "capacities"],
)
def test_a_plan_before_its_group_was_known_is_made_again_for_its_members(
    world: World, member: KnownMember, cause: str
) -> None:
    world.topics.learn({topic_id(0): "clicks"})
    world.answer(Asking([TOPIC], {"m0": ("", {}), "m1": ("", {})}, assignor="bellwether"))
    world.groups.see("orders", {"m0": KnownMember("other"), "m1": member})
    assert lacked(world.answers) == {"orders": f"the plan was made before m1 was observed, which {cause}"}


def test_members_that_send_no_rack_read_from_leaders_in_their_configured_rack() -> None:
    world = World()
    world.topics.learn({topic_id(0): "clicks"})
    by_member = {f"m{i}": KnownMember("c", RACKS[2 - i], leader_only=True) for i in range(3)}
    world.groups.see("orders", by_member, LEADERS)
    rackless = Asking([EVERYWHERE], {member: ("", {}) for member in by_member})
    assert [RACKS[2 - owner] for owner in owners(world.answer(rackless))] == list(RACKS * 4)


def test_a_rack_that_a_member_sends_wins() -> None:
    world = World()
    world.groups.see("orders", {f"m{i}": KnownMember("c", "az1") for i in range(6)})
    assert all(p % 3 == owner % 3 for p, owner in enumerate(owners(world.answer(six()))))
