"""When a broker is made to ask again: it had no plan in time, orders have changed, its plan lacks something, or another
one would be better. More and more rarely while that changes nothing."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from bellwether_kafka.assignors.consumer import PartitionPlan, Policy
from bellwether_kafka.assignors.shared import NOBODY, Decision, Moves, Rule, Weights
from bellwether_kafka.coordinator.membership import STREAMS_PROTOCOL
from bellwether_kafka.coordinator.observation import Observation, ObservedMember, Shadow
from bellwether_kafka.coordinator.runtime import Asking, ServedGroup
from bellwether_kafka.coordinator.serving import Answers, Incomplete, KnownGroups, KnownMember, NewestPlan, TopicNames
from tests.kit.consumers import EVEN_LOADS as EVEN
from tests.kit.consumers import decided_by_load as loaded
from tests.kit.observed import SKEWED
from tests.kit.serving import Asking as Asked
from tests.kit.serving import owners, topic_id
from tests.kit.streams import SHOP, Thread, group, led

ATTEMPTS_MAX = 3
DISREGARDED = "an order is not followed"
LATE = "the newest plan did not reach the broker in time"
PLAN_AGE_S_MAX = 300.0
WAIT_S = 60.0

PARTITIONS = 6
IDLE = "c has no partition although others have several"
EVACUATED = (Rule("ban", "orders", "member:b-1"),)


def seen(
    owned: Mapping[str, Sequence[int]], *, epoch: int = 5, static: Mapping[str, str] | None = None, **fields: object
) -> Observation:
    members = tuple(
        ObservedMember(
            name,
            (static or {}).get(name),
            "client",
            "/h",
            topics=("t",),
            owned=tuple(("t", p) for p in partitions),  # type: ignore[misc]  # equal to the named tuple
        )
        for name, partitions in owned.items()
    )
    assignor = "bellwether-rack-first"
    values = {"kind": "consumer", "state": "Stable", "protocol": assignor, "assignor": assignor, **fields}
    return Observation("g", seen_at_ms=0, members=members, epoch=epoch, **values)  # type: ignore[arg-type]  # a few


def served(*, named: bool = True) -> tuple[NewestPlan, dict[str, list[int]]]:
    """The newest plan of a group of three, and what each member has by it."""
    groups, topics = KnownGroups(), TopicNames()
    groups.see("g", {name: KnownMember("client") for name in "abc"})
    if named:
        topics.learn({topic_id(0): "t"})
    answers = Answers(groups, topics, lambda _: None, lambda _: None)
    answer, done = answers.answer(Asked([[["az1"]] * PARTITIONS], {name: ("az1", {}) for name in "abc"}).encode())
    done(True)
    newest = answers.newest("g")
    assert newest is not None
    owned: dict[str, list[int]] = {name: [] for name in "abc"}
    for partition, owner in enumerate(owners(answer)):
        owned["abc"[owner]].append(partition)
    return newest, owned


NEWEST, PLANNED = served()
STARVED = {"a": (0, 1, 2), "b": (3, 4, 5), "c": ()}
NOW = NEWEST.made_at + 10


def cause(
    asking: Asking,
    group: Observation,
    newest: NewestPlan | None = NEWEST,
    now: float = NOW,
    rules: tuple[Rule, ...] | None = (),
) -> str:
    """What the second of two equal observations says."""
    step(asking, group, newest, rules, now)
    return step(asking, group, newest, rules, now)


def step(
    asking: Asking, group: Observation, newest: NewestPlan | None, rules: tuple[Rule, ...] | None, now: float
) -> str:
    return asking.step("g", ServedGroup(seen=group, newest=newest, rules=rules), now)


def begun(asking: Asking, group: Observation, newest: NewestPlan | None, seconds: int = 7_200) -> list[float]:
    """When rebalances are begun, with an observation every ten seconds."""
    times = [NOW + second for second in range(0, seconds, 10)]
    return [now - NOW for now in times if step(asking, group, newest, (), now)]


def test_a_group_with_its_newest_plan_is_left_alone() -> None:
    assert cause(Asking(), seen(PLANNED)) == ""


def test_a_plan_that_came_too_late_is_made_again() -> None:
    assert cause(Asking(), seen(STARVED)) == LATE


def test_a_broker_asks_again_at_once_for_a_plan_that_it_did_not_wait_for_but_not_for_ever() -> None:
    asking, late = Asking(), ServedGroup(newest=NEWEST, late=True)
    times = [second for second in range(7_200) if asking.step("g", late, NOW + second)]
    assert times == [0, WAIT_S, 3 * WAIT_S], "twice as long after each"
    assert asking.step("another", late, NOW) == LATE
    asking.forget("another")
    assert asking.step("another", late, NOW) == LATE


def test_of_an_application_whose_tasks_are_unknown_no_plan_is_late() -> None:
    decided = led(group(Thread("a", 1), Thread("b", 2)))
    members = tuple(ObservedMember(name, None, "c", "/h", topics=SHOP.source_topics) for name in "ab")
    shown = Observation("shop", "streams", "Stable", STREAMS_PROTOCOL, 0, members, epoch=5, assignor="bellwether")
    newest = NewestPlan(decided.plan, NOW)
    assert cause(Asking(), shown, newest) == ""
    nothing = np.full_like(decided.plan.owner, NOBODY)
    tasks_shown = replace(shown, shadow=Shadow.of(decided, nothing))
    assert cause(Asking(), tasks_shown, newest) == LATE
    assert cause(Asking(), replace(tasks_shown, assignor="sticky"), newest) == "", "it is set back"


def test_one_observation_is_not_enough_because_the_plan_may_be_on_its_way() -> None:
    asking = Asking()
    assert step(asking, seen(STARVED), NEWEST, (), NOW) == ""
    assert step(asking, seen(STARVED, epoch=6), NEWEST, (), NOW) == ""
    assert step(asking, seen(STARVED, epoch=6), NEWEST, (), NOW) == LATE


def test_a_member_that_joined_while_bellwether_was_away_gets_its_share() -> None:
    assert cause(Asking(), seen(STARVED), None) == IDLE
    assert cause(Asking(), seen({"a": (0, 1), "b": (2, 3), "c": (4, 5)}), None) == ""
    assert cause(Asking(), seen({"a": (0,), "b": (1,), "c": ()}), None) == "", "more members than partitions"


def test_an_old_plan_may_have_been_followed_by_one_of_another_process() -> None:
    other = {"a": PLANNED["b"], "b": PLANNED["a"], "c": PLANNED["c"]}
    old = NEWEST.made_at + PLAN_AGE_S_MAX + 1.0
    assert cause(Asking(), seen(other), now=old) == ""
    assert cause(Asking(), seen(STARVED), now=old) == IDLE


def test_a_plan_that_was_asking_is_not_late_when_another_process_makes_the_next_one() -> None:
    asking = Asking()
    other = {"a": PLANNED["b"], "b": PLANNED["a"], "c": PLANNED["c"]}
    assert cause(asking, seen(PLANNED)) == ""
    assert cause(asking, seen(other, epoch=6)) == ""


def test_a_static_member_that_restarts_has_its_partitions_under_another_member_id() -> None:
    again = {f"{name}2": partitions for name, partitions in PLANNED.items()}
    assert cause(Asking(), seen(again, static={f"{name}2": name for name in "abc"})) == ""


def test_a_plan_that_knew_no_names_is_made_again_for_another_reason() -> None:
    nameless, owned = served(named=False)
    assert cause(Asking(), seen(owned), nameless) == ""


def test_an_order_that_is_not_followed_is_noticed_by_every_process() -> None:
    """A broker without a plan gave a partition to a member from which an order keeps it, and nobody noticed."""
    group = replace(SKEWED, kind="consumer", protocol="bellwether", assignor="bellwether", epoch=4)
    assert cause(Asking(), group, None, rules=EVACUATED) == DISREGARDED
    assert cause(Asking(), group, None, rules=(Rule("ban", "orders", "member:c-1"),)) == ""


@pytest.mark.parametrize("rules", [None, (Rule("ban", "t", "member:c"),)], ids=["unread", "leave a member without"])
def test_orders_may_leave_a_member_without_partitions(rules: tuple[Rule, ...] | None) -> None:
    assert cause(Asking(), seen(STARVED), None, rules=rules) == ""


def test_other_assignors_rebalancing_and_classic_groups_are_left_alone() -> None:
    for other in ({"assignor": "uniform"}, {"state": "Reconciling"}, {"kind": "classic", "assignor": ""}):
        assert cause(Asking(), seen(STARVED, **other)) == ""


def test_a_broker_whose_plans_are_all_late_is_asked_a_few_times() -> None:
    asking, times, plan = Asking(), list[float](), NEWEST
    for second in range(0, 7_200, 10):
        if step(asking, seen(STARVED), plan, (), NOW + second) == LATE:
            times.append(second)
            plan = NewestPlan(NEWEST.plan, NOW + second)
    assert len(times) == ATTEMPTS_MAX
    assert [later - times[0] for later in times] == [0, WAIT_S, 3 * WAIT_S]


def test_a_member_that_is_idle_by_the_plan_of_another_process_is_asked_about_once() -> None:
    asking = Asking()
    assert len(begun(asking, seen(STARVED), None)) == 1
    assert len(begun(asking, seen({**STARVED, "d": ()}), None)) == 1, "other members are another matter"


# ---- what would be better now ----------------------------------------------------------------------------------------


def better(decision: Decision[PartitionPlan], *, moved: int = 3, saved: int = 0, owner: int = 0) -> Observation:
    """A group at rest, and the plan that its broker would get now."""
    cross_rack = {"cross_rack": 5, "cross_rack_planned": 5 - saved}
    shadow = SimpleNamespace(decision=decision, moves=Moves(0, moved, 0, 0), **cross_rack)
    return replace(seen(PLANNED, epoch=owner), shadow=cast("Any", shadow))


def gains(asking: Asking, group: Observation, weights: Weights, *times: float) -> list[str]:
    known = ServedGroup(seen=group, weights=lambda: weights)
    return [asking.step("g", known, now) for now in times]


UNEVEN = "the load of members is uneven, 3 partitions would move"


def test_a_plan_that_would_even_the_load_out_is_asked_for_and_more_and_more_rarely_while_owners_stay() -> None:
    asking = Asking()
    weighed = better(loaded())
    times = [second for second in range(0, 30_000, 60) if gains(asking, weighed, EVEN, second) == [UNEVEN]]
    assert [later - earlier for earlier, later in itertools.pairwise(times)] == [60, 120, 240, 480, 960, 1920] + [
        3600
    ] * 7
    moved = replace(weighed, members=seen({"a": PLANNED["b"], "b": PLANNED["a"], "c": PLANNED["c"]}).members)
    assert gains(asking, moved, EVEN, times[-1] + 10, times[-1] + WAIT_S) == ["", UNEVEN], "other owners"


def test_a_plan_that_moves_nothing_or_is_not_by_weights_is_not_asked_for() -> None:
    assert gains(Asking(), better(loaded(), moved=0), EVEN, 0.0) == [""]
    assert gains(Asking(), better(loaded()), Weights(), 0.0) == [""]
    assert gains(Asking(), better(loaded(Policy("rack-first"))), EVEN, 0.0) == [""]


def test_a_plan_that_reads_less_from_other_racks_is_asked_for() -> None:
    """As after a change of the file of racks, of which a broker knows nothing."""
    asking, racks = Asking(), loaded(Policy("rack-first"))
    fewer = "2 fewer partitions would be read from other racks"
    assert gains(asking, better(racks, saved=2), Weights(), 0.0, 10.0) == [fewer, ""]
    assert gains(asking, better(racks, saved=-1), Weights(), WAIT_S) == [""]


# ---- orders ----------------------------------------------------------------------------------------------------------

BAN, PIN = (
    Rule("ban", "t", "member:c", "eve has ordered a ban"),
    Rule("pin", "t-0", "member:a", "eve has ordered a pin"),
)
CHANGED = "the orders in force have changed since the newest plan"


def ordered(asking: Asking, *rules: Rule, first: bool = True, now: float = NOW, **known: Any) -> str:
    return asking.step("g", ServedGroup(rules=rules, first=first, by_orders=True, **known), now)


def under(*rules: Rule) -> NewestPlan:
    return NewestPlan(NEWEST.plan, NOW, rules)


def lacking(sentence: str = "") -> tuple[Incomplete, str]:
    return Incomplete("bellwether"), sentence


def test_a_new_order_and_its_end_are_asked_for_at_once_and_once() -> None:
    asking = Asking()
    assert ordered(asking) == ""
    assert [ordered(asking, BAN) for _ in range(2)] == [BAN.order, ""]
    assert ordered(asking, BAN, PIN) == PIN.order
    assert ordered(asking, PIN, ended={BAN.order: "it is back"}) == f"{BAN.order}: it is back"
    assert ordered(asking) == f"{PIN.order}: ended"


def test_another_instance_takes_note_of_an_order_without_a_rebalance() -> None:
    asking = Asking()
    assert ordered(asking, first=False) == ""
    assert ordered(asking, BAN, first=False) == ""
    assert ordered(asking, BAN) == "", "the first one is silent now, but has begun a rebalance for that order"
    assert ordered(asking, BAN, PIN) == PIN.order


def test_the_first_plan_since_the_start_is_compared_with_the_orders_in_force_by_every_instance() -> None:
    assert ordered(Asking(), BAN, newest=under(BAN), first=False) == ""
    assert ordered(Asking(), BAN, newest=under(), first=False) == BAN.order
    assert ordered(Asking(), newest=under(BAN), first=False) == CHANGED


def test_what_the_plan_of_an_instance_lacks_makes_that_instance_ask_once_for_each_plan() -> None:
    asking, lacked = Asking(), lacking()
    assert ordered(asking, BAN, newest=under(BAN), first=False) == ""
    assert [ordered(asking, BAN, first=False, lacked=lacked) for _ in range(2)] == [BAN.order, ""]
    assert ordered(asking, BAN, first=False, lacked=lacking()) == BAN.order, "another plan"
    assert ordered(Asking(), lacked=lacking()) == "", "it can lack orders only"
    assert ordered(Asking(), lacked=lacking("it lacks a rack")) == "it lacks a rack"
    assert ordered(Asking(), BAN, newest=under(BAN), lacked=lacking("it lacks a rack")) == BAN.order


def test_an_order_that_ends_as_its_member_is_observed_again_is_asked_for() -> None:
    """By the plan of its join the member had nothing, and an application waited for its share until the next change: a
    process was restarted by `roll`, and the order ended in the same moment in which the plan was noted to lack it."""
    asking = Asking()
    assert ordered(asking, BAN, newest=under(BAN)) == ""
    assert ordered(asking, newest=under(BAN), lacked=lacking()) == f"{BAN.order}: ended"


def test_orders_are_compared_with_plans_of_this_process_alone_and_not_before_they_are_read() -> None:
    assert Asking().step("g", ServedGroup(rules=(BAN,)), NOW) == ""
    assert Asking().step("g", ServedGroup(rules=None, by_orders=True, late=True), NOW) == ""


def test_every_plan_that_lacked_something_is_asked_for_again() -> None:
    """A plan that is gone may have stood where the next one stands, so that both have the same `id`."""
    asking = Asking()
    for n in range(4):
        assert ordered(asking, now=NOW + n, lacked=lacking("it lacks a rack")) == "it lacks a rack", n
