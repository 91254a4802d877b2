"""A broker that had no plan in time is made to ask again: else a consumer that joined meanwhile would have nothing."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from bellwether_kafka.coordinator.observation import Observation, ObservedMember
from bellwether_kafka.coordinator.runtime.plans_in_force import LATE, WAIT_S, PlansInForce
from bellwether_kafka.coordinator.serving import Answers, KnownGroups, KnownMember, NewestPlan, TopicNames
from tests.unit.coordinator.serving.requests import Asking, owners, topic_id

PARTITIONS = 6
IDLE = "c has no partition although others have several"


def seen(owned: Mapping[str, Sequence[int]], *, epoch: int = 5, **fields: object) -> Observation:
    members = tuple(
        ObservedMember(name, None, "client", "/h", topics=("t",), owned=tuple(("t", p) for p in partitions))
        for name, partitions in owned.items()
    )
    values = {"kind": "consumer", "state": "Stable", "protocol": "bellwether-rack-first", **fields}
    return Observation("g", seen_at_ms=0, members=members, epoch=epoch, **values)  # type: ignore[arg-type]  # a few


def served() -> tuple[NewestPlan, dict[str, list[int]]]:
    """The newest plan of a group of three, and what each member has by it."""
    groups, topics = KnownGroups(), TopicNames()
    groups.see("g", dict.fromkeys("abc", KnownMember()))
    topics.learn({topic_id(0): "t"})
    answers = Answers(groups, topics, lambda _: None, lambda _: None)
    answer, done = answers.answer(Asking([[["az1"]] * PARTITIONS], {name: ("az1", {}) for name in "abc"}).encode())
    done()
    newest = answers.newest("g")
    assert newest is not None
    owned: dict[str, list[int]] = {name: [] for name in "abc"}
    for partition, owner in enumerate(owners(answer)):
        owned["abc"[owner]].append(partition)
    return newest, owned


NEWEST, PLANNED = served()
STARVED = {"a": (0, 1, 2), "b": (3, 4, 5), "c": ()}
NOW = NEWEST.made_at + 10


def lacking(
    in_force: PlansInForce,
    group: Observation,
    newest: NewestPlan | None = NEWEST,
    now: float = NOW,
    *,
    ruled: bool = False,
) -> str:
    """What the second of two equal observations says."""
    in_force.lacking(group, newest, now, ruled=ruled)
    return in_force.lacking(group, newest, now, ruled=ruled)


def test_a_group_with_its_newest_plan_is_left_alone() -> None:
    assert lacking(PlansInForce(), seen(PLANNED)) == ""


def test_a_plan_that_came_too_late_is_made_again() -> None:
    assert lacking(PlansInForce(), seen(STARVED)) == LATE


def test_one_observation_is_not_enough_because_the_plan_may_be_on_its_way() -> None:
    in_force = PlansInForce()
    assert in_force.lacking(seen(STARVED), NEWEST, NOW, ruled=False) == ""
    assert in_force.lacking(seen(STARVED, epoch=6), NEWEST, NOW, ruled=False) == ""
    assert in_force.lacking(seen(STARVED, epoch=6), NEWEST, NOW, ruled=False) == LATE


def test_a_member_that_joined_while_bellwether_was_away_gets_its_share() -> None:
    assert lacking(PlansInForce(), seen(STARVED), None) == IDLE
    assert lacking(PlansInForce(), seen({"a": (0, 1), "b": (2, 3), "c": (4, 5)}), None) == ""
    assert lacking(PlansInForce(), seen({"a": (0,), "b": (1,), "c": ()}), None) == "", "more members than partitions"


def test_an_old_plan_may_have_been_followed_by_one_of_another_process() -> None:
    other = {"a": PLANNED["b"], "b": PLANNED["a"], "c": PLANNED["c"]}
    assert lacking(PlansInForce(), seen(other), now=NEWEST.made_at + 1_000) == ""
    assert lacking(PlansInForce(), seen(STARVED), now=NEWEST.made_at + 1_000) == IDLE


def test_an_order_may_leave_a_member_without_partitions() -> None:
    assert lacking(PlansInForce(), seen(STARVED), None, ruled=True) == ""


def test_other_assignors_rebalancing_and_classic_groups_are_left_alone() -> None:
    for other in ({"protocol": "uniform"}, {"state": "Reconciling"}, {"kind": "classic"}):
        assert lacking(PlansInForce(), seen(STARVED, **other)) == ""


def test_a_broker_that_never_has_a_plan_in_time_is_asked_ever_more_seldom() -> None:
    in_force, begun = PlansInForce(), list[float]()
    for second in range(7_200):
        if in_force.lacking(seen(STARVED), None, float(second), ruled=False):
            begun.append(second)
    waits = [later - earlier for earlier, later in pairwise(begun)]
    assert waits[:4] == [WAIT_S, 2 * WAIT_S, 4 * WAIT_S, 8 * WAIT_S]
    assert len(begun) < 9
