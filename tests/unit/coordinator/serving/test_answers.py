"""What a broker is answered: the plan that `plan` shows, or a reason."""

import random
import time
from collections import Counter
from collections.abc import Iterable

import pytest

from bellwether_kafka.assignors.consumer import POLICIES, Policy, policy
from bellwether_kafka.assignors.shared import EVERYTHING, Rule
from bellwether_kafka.coordinator.serving import KnownMember, wire
from bellwether_kafka.coordinator.serving.request_views import id_text, views_of
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.plans import ObservedOwner, shown_plan
from tests.kit.serving import RACKS, TOPIC, Asking, World, lacked, owners, refusal, six, topic_id
from tests.seeds import seeds


def nameless(members: Iterable[str]) -> dict[str, KnownMember]:
    """Members of which nothing else is known."""
    return dict.fromkeys(members, KnownMember())


def test_each_member_has_what_is_in_its_rack() -> None:
    by_owner = owners(World().answer(six()))
    assert all(p % 3 == owner % 3 for p, owner in enumerate(by_owner))
    assert set(Counter(by_owner).values()) == {2}


def test_the_present_target_stays_where_that_costs_nothing() -> None:
    world, asking = World(), six()
    first = owners(world.answer(asking))
    members = {f"m{i}": (RACKS[i % 3], {0: [p for p, owner in enumerate(first) if owner == i]}) for i in range(6)}
    assert owners(world.answer(Asking([TOPIC], members))) == first
    del members["m5"]
    after = owners(world.answer(Asking([TOPIC], members)))
    assert all(after[p] == owner for p, owner in enumerate(first) if owner != 5)


def ordered(*rules: Rule) -> World:
    """A known group with these rules in force."""
    world = World()
    world.groups.see("orders", nameless(six().members))
    world.topics.learn({topic_id(0): "clicks"})
    world.rules["orders"] = rules
    return world


def test_an_evacuated_member_has_nothing_and_gets_nothing_at_the_next_change() -> None:
    world = ordered(Rule("ban", "*", "member:m0"))
    first = owners(world.answer(six()))
    assert set(first) == {1, 2, 3, 4, 5}
    present = {f"m{i}": (RACKS[i % 3], {0: [p for p, owner in enumerate(first) if owner == i]}) for i in range(6)}
    del present["m5"]
    assert set(owners(world.answer(Asking([TOPIC], present)))) == {1, 2, 3, 4}


def test_a_pinned_partition_has_the_member_of_the_pin() -> None:
    free = owners(ordered().answer(six()))
    pinned = (free[7] + 1) % 6
    assert owners(ordered(Rule("pin", "clicks-7", f"member:m{pinned}")).answer(six()))[7] == pinned


def test_a_plan_made_before_its_group_was_known_is_reported_once_it_is() -> None:
    world = World()
    world.topics.learn({topic_id(0): "clicks"})
    world.answer(six())
    assert (lacked(world.answers), world.answers.policies()) == ({}, {})
    world.groups.see("orders", nameless(["m1"]))
    assert world.answers.policies() == {"orders": "rack-first"}
    assert lacked(world.answers) == {"orders": ""}


def test_a_plan_after_all_members_were_replaced_is_reported_although_the_one_before_was_known() -> None:
    world = ordered()
    world.answer(six())
    replaced = Asking([TOPIC], {f"n{i}": (RACKS[i % 3], {}) for i in range(6)})
    world.answer(replaced)
    assert lacked(world.answers) == {}, "it is not known yet"
    world.groups.see("orders", nameless(replaced.members))
    assert lacked(world.answers) == {"orders": ""}
    world.answer(replaced)
    assert lacked(world.answers) == {}


def test_a_pin_by_the_name_of_an_unknown_topic_is_reported_once_the_name_is_known() -> None:
    world = World()
    world.groups.see("orders", nameless(six().members))
    world.rules["orders"] = (Rule("pin", "clicks-7", "member:m2"),)
    world.answer(six())
    assert lacked(world.answers) == {}, "its name is not known yet"
    world.topics.learn({topic_id(0): "clicks"})
    assert lacked(world.answers) == {"orders": ""}
    assert owners(world.answer(six()))[7] == 2
    assert lacked(world.answers) == {}


def test_a_group_that_is_forgotten_has_no_policy() -> None:
    world = ordered()
    world.answer(six())
    assert world.answers.policies() == {"orders": "rack-first"}
    world.answers.forget("orders")
    assert (world.answers.policies(), lacked(world.answers)) == ({}, {})


@pytest.mark.slow
def test_names_of_many_topics_are_found_in_time_while_one_was_made_again() -> None:
    count = 20_000
    request = wire.read_request(Asking([[["az1"]]] * count, {"m": ("az1", {})}).encode())
    began = time.process_time()
    views = views_of(request, ["t1", *(f"t{i}" for i in range(1, count))], "g", 0.0)
    assert time.process_time() - began < 2.0, "6 s where each name is counted"
    assert {id_text(topic_id(0)), id_text(topic_id(1)), "t2"} <= set(views.cluster.topics)


def test_rules_of_another_group_do_not_apply() -> None:
    world = ordered()
    world.rules["another"] = (Rule("ban", "*", "member:m0"),)
    assert 0 in owners(world.answer(six()))


def test_without_the_control_topic_there_is_no_plan_but_a_reason() -> None:
    world = ordered()
    world.rules["orders"] = None
    assert refusal(world.answer(six())) == "the control topic has not been read yet, so orders on placement are unknown"


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_serves(name: str) -> None:
    world = World()
    assert len(set(owners(world.answer(six(f"bellwether-{name}"))))) == 6
    assert world.served[-1].planned is not None
    assert world.served[-1].planned.decision.policy == name


def test_a_group_that_is_known_gets_its_configured_policy_and_one_that_is_not_the_default() -> None:
    world = World(policy("topic-balance"))
    world.answer(six("bellwether"))
    world.groups.see("orders", nameless(["m3", "other"]))
    world.answer(six("bellwether"))
    world.answer(six("bellwether-rack-first"))
    planned = [served.planned for served in world.served]
    decisions = [plan.decision for plan in planned if plan is not None]
    assert [(d.raw.group_id, d.policy) for d in decisions] == [
        ("", "kafka"),
        ("orders", "topic-balance"),
        ("orders", "rack-first"),
    ]
    assert [served.group for served in world.served] == ["", "orders", "orders"]


def test_the_cause_names_the_orders_that_came_or_ended_since_the_plan_before() -> None:
    """It was 'a member joined again, nothing changed' in the log, in events and on the page."""
    rule = Rule("ban", EVERYTHING, "rack:az1", "eve has ordered evacuate of rack:az1")
    world = ordered()
    causes = []
    for rules in ((), (rule,), (rule,), ()):
        world.rules["orders"] = rules
        world.answer(six())
        planned = world.served[-1].planned
        assert planned is not None
        causes.append((planned.cause.sentence, planned.cause.by_order))
    again = "a member joined again, nothing changed"
    assert causes[1:] == [(rule.order, True), (again, False), (f"{rule.order}: ended", True)]


def test_the_cause_names_who_came_since_the_plan_before() -> None:
    world = World()
    world.groups.see("orders", nameless(["m0"]))
    world.answer(six())
    world.answer(Asking([TOPIC], {f"m{i}": (RACKS[i % 3], {}) for i in range(7)}))
    planned = world.served[-1].planned
    assert planned is not None
    assert planned.cause.sentence == "m6 joined"
    assert not planned.decision.followup, "the broker waits for former owners itself"


def test_an_invented_group_is_planned_and_not_reported() -> None:
    world = World()
    assert len(owners(world.answer(six(kind=wire.PROBE)))) == 12
    assert not world.served


def test_an_invented_group_is_planned_while_the_orders_of_an_unknown_group_are_not_known() -> None:
    """A broker asks for no group until a plan of this one has come: known groups had none for 30 s after a restart."""
    world = World()
    world.rules[""] = None
    assert len(owners(world.answer(six(kind=wire.PROBE)))) == 12
    assert "no observed group has these members yet" in refusal(world.answer(six()))


def test_what_cannot_be_planned_is_refused_with_the_reason() -> None:
    class Mine:
        cooperative = False

        def assign(self) -> None: ...

    world = World(Policy("mine", {"mine": Mine()}))  # type: ignore[dict-item]
    assert "Bellwether has no policy named" in refusal(world.answer(six("bellwether-nonsense")))
    world.groups.see("orders", nameless(["m1"]))
    assert refusal(world.answer(six("bellwether"))) == "policy mine is a plug-in, which does not run for brokers"
    answer, done = world.answers.answer(b"GET / HTTP/1.1")
    done(True)
    assert "version 71" in refusal(answer)
    assert [served.planned for served in world.served] == [None, None, None]


def test_topics_have_their_names_once_they_are_known() -> None:
    world = World()
    world.answer(six())
    assert world.topics.take_missing() == ((topic_id(0),), ())
    world.topics.expect(["orders"])
    assert world.topics.take_missing() == ((), ("orders",))
    world.topics.learn({topic_id(0): "orders"})
    world.topics.expect(["orders"])
    world.answer(six())
    assert world.topics.take_missing() == ((), ())
    planned = [served.planned for served in world.served]
    assert [plan.topics.subscribed for plan in planned if plan is not None] == [(id_text(topic_id(0)),), ("orders",)]


def test_a_topic_that_was_made_again_is_not_taken_for_the_former_one() -> None:
    request = wire.read_request(Asking([TOPIC, TOPIC], {"m": ("az1", {})}).encode())
    views = views_of(request, ["orders", "orders"], "g", 0.0)
    assert views.cluster.topics == tuple(sorted(map(id_text, request.topics)))


def random_group(source: random.Random) -> Asking:
    topics = [[[source.choice(RACKS)] for _ in range(source.randint(1, 9))] for _ in range(source.randint(1, 4))]
    names = [f"m{i}" for i in range(source.randint(1, 8))]
    wanted = {name: sorted(source.sample(range(len(topics)), source.randint(1, len(topics)))) for name in names}
    owned: dict[str, dict[int, list[int]]] = {name: {} for name in names}
    for t, topic in enumerate(topics):
        able = [name for name in names if t in wanted[name]]
        for p in range(len(topic)):
            if able and source.random() < 0.8:
                owned[source.choice(able)].setdefault(t, []).append(p)
    used = sorted({t for topics in wanted.values() for t in topics})  # a broker sends subscribed topics only
    position = {t: i for i, t in enumerate(used)}
    members = {n: (source.choice([*RACKS, ""]), {position[t]: ps for t, ps in owned[n].items()}) for n in names}
    subscriptions = {n: [position[t] for t in wanted[n]] for n in names}
    chosen = source.choice([name for name in POLICIES if name != "load-aware"])
    return Asking([topics[t] for t in used], members, subscriptions, f"bellwether-{chosen}")


@pytest.mark.parametrize("seed", seeds(200))
def test_a_plan_is_the_one_that_an_observer_of_the_group_shows(seed: int) -> None:
    source = random.Random(seed)
    asking = random_group(source)
    name = {t: f"topic-{source.random():.6f}" for t in range(len(asking.topics))}
    world = World()
    world.groups.see("orders", nameless(asking.members))
    world.topics.learn({topic_id(t): called for t, called in name.items()})
    served = owners(world.answer(asking))
    shown = shown_plan(
        "orders",
        {name[t]: [rack for (rack,) in topic] for t, topic in enumerate(asking.topics)},
        [
            ObservedOwner(
                member_id=member,
                rack=rack or None,
                topics=tuple(sorted(name[t] for t in asking.subscriptions[member])),
                owned=tuple(TopicPartition(name[t], p) for t, partitions in owned.items() for p in partitions),
            )
            for member, (rack, owned) in sorted(asking.members.items())
        ],
        asking.assignor.removeprefix("bellwether-"),
        brokers=source.sample(RACKS, len(RACKS)),
    )
    position = {member: i for i, member in enumerate(asking.members)}
    assert [position[shown[name[t], p]] for t, topic in enumerate(asking.topics) for p in range(len(topic))] == served


def test_a_group_that_becomes_known_after_its_plan_counts_as_served() -> None:
    world = World()
    world.answer(six())
    assert world.answers.policies() == {}
    world.groups.see("orders", nameless(["m0", "m1"]))
    assert world.answers.policies() == {"orders": "rack-first"}
