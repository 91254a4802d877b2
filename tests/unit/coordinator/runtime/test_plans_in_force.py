"""A broker that had no plan in time is made to ask again: else a consumer that joined meanwhile would have nothing, and
an order would not be followed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from bellwether_kafka.assignors.shared import NOBODY, Rule
from bellwether_kafka.coordinator.membership import STREAMS_PROTOCOL
from bellwether_kafka.coordinator.observation import Observation, ObservedMember, Shadow
from bellwether_kafka.coordinator.runtime.plans_in_force import PlansInForce
from bellwether_kafka.coordinator.serving import Answers, KnownGroups, KnownMember, NewestPlan, TopicNames
from tests.kit.observed import SKEWED
from tests.kit.serving import Asking, owners, topic_id
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
    answer, done = answers.answer(Asking([[["az1"]] * PARTITIONS], {name: ("az1", {}) for name in "abc"}).encode())
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
    in_force: PlansInForce,
    group: Observation,
    newest: NewestPlan | None = NEWEST,
    now: float = NOW,
    rules: tuple[Rule, ...] | None = (),
) -> str:
    """What the second of two equal observations says."""
    in_force.rebalance_cause(group, newest, rules, now)
    return in_force.rebalance_cause(group, newest, rules, now)


def begun(in_force: PlansInForce, group: Observation, newest: NewestPlan | None, seconds: int = 7_200) -> list[float]:
    """When rebalances are begun, with an observation every ten seconds."""
    times = [NOW + second for second in range(0, seconds, 10)]
    return [now - NOW for now in times if in_force.rebalance_cause(group, newest, (), now)]


def test_a_group_with_its_newest_plan_is_left_alone() -> None:
    assert cause(PlansInForce(), seen(PLANNED)) == ""


def test_a_plan_that_came_too_late_is_made_again() -> None:
    assert cause(PlansInForce(), seen(STARVED)) == LATE


def test_a_broker_asks_again_at_once_for_a_plan_that_it_did_not_wait_for_but_once_a_minute() -> None:
    in_force = PlansInForce()
    seconds = (0.0, 1.0, WAIT_S - 1, WAIT_S)
    assert [in_force.late_cause("g", NOW + second) for second in seconds] == [LATE, "", "", LATE]
    assert in_force.late_cause("another", NOW) == LATE
    in_force.forget("another")
    assert in_force.late_cause("another", NOW) == LATE


def test_of_an_application_whose_tasks_are_unknown_no_plan_is_late() -> None:
    decided = led(group(Thread("a", 1), Thread("b", 2)))
    members = tuple(ObservedMember(name, None, "c", "/h", topics=SHOP.source_topics) for name in "ab")
    shown = Observation("shop", "streams", "Stable", STREAMS_PROTOCOL, 0, members, epoch=5, assignor="bellwether")
    newest = NewestPlan(decided.plan, NOW)
    assert cause(PlansInForce(), shown, newest) == ""
    nothing = np.full_like(decided.plan.owner, NOBODY)
    tasks_shown = replace(shown, shadow=Shadow.of(decided, nothing))
    assert cause(PlansInForce(), tasks_shown, newest) == LATE
    assert cause(PlansInForce(), replace(tasks_shown, assignor="sticky"), newest) == "", "it is set back"


def test_one_observation_is_not_enough_because_the_plan_may_be_on_its_way() -> None:
    in_force = PlansInForce()
    assert in_force.rebalance_cause(seen(STARVED), NEWEST, (), NOW) == ""
    assert in_force.rebalance_cause(seen(STARVED, epoch=6), NEWEST, (), NOW) == ""
    assert in_force.rebalance_cause(seen(STARVED, epoch=6), NEWEST, (), NOW) == LATE


def test_a_member_that_joined_while_bellwether_was_away_gets_its_share() -> None:
    assert cause(PlansInForce(), seen(STARVED), None) == IDLE
    assert cause(PlansInForce(), seen({"a": (0, 1), "b": (2, 3), "c": (4, 5)}), None) == ""
    assert cause(PlansInForce(), seen({"a": (0,), "b": (1,), "c": ()}), None) == "", "more members than partitions"


def test_an_old_plan_may_have_been_followed_by_one_of_another_process() -> None:
    other = {"a": PLANNED["b"], "b": PLANNED["a"], "c": PLANNED["c"]}
    old = NEWEST.made_at + PLAN_AGE_S_MAX
    assert cause(PlansInForce(), seen(other), now=old) == ""
    assert cause(PlansInForce(), seen(STARVED), now=old) == IDLE


def test_a_plan_that_was_in_force_is_not_late_when_another_process_makes_the_next_one() -> None:
    in_force = PlansInForce()
    other = {"a": PLANNED["b"], "b": PLANNED["a"], "c": PLANNED["c"]}
    assert cause(in_force, seen(PLANNED)) == ""
    assert cause(in_force, seen(other, epoch=6)) == ""


def test_a_static_member_that_restarts_has_its_partitions_under_another_member_id() -> None:
    again = {f"{name}2": partitions for name, partitions in PLANNED.items()}
    assert cause(PlansInForce(), seen(again, static={f"{name}2": name for name in "abc"})) == ""


def test_a_plan_that_knew_no_names_is_made_again_for_another_reason() -> None:
    nameless, owned = served(named=False)
    assert cause(PlansInForce(), seen(owned), nameless) == ""


def test_an_order_that_is_not_followed_is_noticed_by_every_process() -> None:
    """A broker without a plan gave a partition to a member from which an order keeps it, and nobody noticed."""
    group = replace(SKEWED, kind="consumer", protocol="bellwether", assignor="bellwether", epoch=4)
    assert cause(PlansInForce(), group, None, rules=EVACUATED) == DISREGARDED
    assert cause(PlansInForce(), group, None, rules=(Rule("ban", "orders", "member:c-1"),)) == ""


@pytest.mark.parametrize("rules", [None, (Rule("ban", "t", "member:c"),)], ids=["unread", "leave a member without"])
def test_orders_may_leave_a_member_without_partitions(rules: tuple[Rule, ...] | None) -> None:
    assert cause(PlansInForce(), seen(STARVED), None, rules=rules) == ""


def test_other_assignors_rebalancing_and_classic_groups_are_left_alone() -> None:
    for other in ({"assignor": "uniform"}, {"state": "Reconciling"}, {"kind": "classic", "assignor": ""}):
        assert cause(PlansInForce(), seen(STARVED, **other)) == ""


def test_a_broker_whose_plans_are_all_late_is_asked_a_few_times() -> None:
    in_force, times, plan = PlansInForce(), list[float](), NEWEST
    for second in range(0, 7_200, 10):
        if in_force.rebalance_cause(seen(STARVED), plan, (), NOW + second):
            times.append(second)
            plan = NewestPlan(NEWEST.plan, NOW + second)
    assert len(times) == ATTEMPTS_MAX
    assert times[1] - times[0] == WAIT_S


def test_a_member_that_is_idle_by_the_plan_of_another_process_is_asked_about_once() -> None:
    in_force = PlansInForce()
    assert len(begun(in_force, seen(STARVED), None)) == 1
    assert len(begun(in_force, seen({**STARVED, "d": ()}), None)) == 1, "other members are another matter"
