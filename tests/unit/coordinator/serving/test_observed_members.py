"""Rules by client id, and racks by configuration: a broker sends neither client ids nor hosts, observation does."""

from collections import Counter

from bellwether_kafka.assignors.consumer import Policy
from bellwether_kafka.assignors.shared import ClusterView, Rule, Weights
from bellwether_kafka.coordinator.serving import KnownMember
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.unit.coordinator.serving.requests import Asking, owners, topic_id
from tests.unit.coordinator.serving.test_answers import RACKS, TOPIC, World, six

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
    assert world.answers.planned_unaware() == set(), "the others are not known yet"
    named(world, m0="checkout-a", m1="checkout-b", m2="c", m3="d", m4="e", m5="f")
    assert [world.answers.planned_unaware() for _ in range(2)] == [{"orders"}, set()]
    assert 0 not in owners(world.answer(six()))
    assert world.answers.planned_unaware() == set()


def test_a_plan_without_rules_by_name_and_without_configured_racks_is_not_made_again() -> None:
    world = evacuating()
    world.rules["orders"] = (Rule("ban", "*", "rack:az1"),)
    named(world, m1="checkout-b")
    world.answer(six())
    named(world, **dict.fromkeys(six().members, "c"))
    assert world.answers.planned_unaware() == set()


def test_a_capacity_by_client_id_counts() -> None:
    world = World(Policy("load-aware").with_capacity({"large": 3.0}))
    world.topics.learn({topic_id(0): "clicks"})
    world.weights = Weights({TopicPartition("clicks", p): 1.0 for p in range(12)})
    named(world, m0="large", m1="small", m2="small")
    three = Asking([TOPIC], {f"m{i}": ("", {}) for i in range(3)}, assignor="bellwether")
    assert Counter(owners(world.answer(three)))[0] == 8, "8 / 3 is less than 3 / 1"


def test_members_that_send_no_rack_read_from_leaders_in_their_configured_rack() -> None:
    world = World()
    world.topics.learn({topic_id(0): "clicks"})
    known = {f"m{i}": KnownMember("c", RACKS[2 - i], leader_only=True) for i in range(3)}
    world.groups.see("orders", known, LEADERS)
    rackless = Asking([EVERYWHERE], {member: ("", {}) for member in known})
    assert [RACKS[2 - owner] for owner in owners(world.answer(rackless))] == list(RACKS * 4)


def test_a_rack_that_a_member_sends_wins() -> None:
    world = World()
    world.groups.see("orders", {f"m{i}": KnownMember("c", "az1") for i in range(6)})
    assert all(p % 3 == owner % 3 for p, owner in enumerate(owners(world.answer(six()))))
