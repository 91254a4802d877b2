"""Whom a take-over would remove, and what that costs, as doctor and plan say it."""

from dataclasses import replace

import pytest

from bellwether_kafka.coordinator.membership import (
    STREAMS_PROTOCOL,
    DescribeAnswer,
    MembershipConfig,
    NotLeading,
    Obstacle,
    SizeLimit,
)
from bellwether_kafka.coordinator.observation import Observation, ObservedMember, Removals, observation, removals
from tests.unit.coordinator.membership.takeover.takeover_scenes import (
    ALWAYS_FRONT,
    CROWD,
    FIVE,
    FOUR,
    FRONT,
    GROUP,
)
from tests.unit.coordinator.observation.doctor_groups import ALWAYS

CONFIG = MembershipConfig("orders")


def seen(*members: ObservedMember | object, protocol: str = "range", state: str = "Stable") -> Observation:
    answer = DescribeAnswer(0, 0, state, "consumer", protocol, members)
    return observation("orders", "classic", answer, 0)


def foreseen(refreshed: Observation, size_max: int | None = 1_000, config: MembershipConfig = CONFIG) -> Removals:
    prediction = removals(refreshed, config, SizeLimit(size_max))
    assert prediction is not None
    return prediction


def with_work(refreshed: Observation, member_id: str, **work: object) -> Observation:
    members = tuple(replace(m, **work) if m.member_id == member_id else m for m in refreshed.members)
    return replace(refreshed, members=members)


def test_the_leader_is_unknown_until_bellwether_joins() -> None:
    prediction = foreseen(seen(*GROUP))
    assert (prediction.leader, prediction.removed, prediction.begins) == ("", {}, True)
    (sentence,) = prediction.sentences()
    assert sentence == (
        "The leader is unknown until Bellwether joins; a take-over removes the leader, and no other member."
    )


def test_a_member_in_the_first_slot_is_named_for_each_size_with_the_cost_of_its_removal() -> None:
    prediction = foreseen(with_work(seen(*FOUR), FRONT, owned=(("t", 0), ("t", 1))))
    text = " ".join(prediction.sentences())
    assert "First 9 temporary members of Bellwether's make the broker's table grow." in text
    assert f"16 slots: {FRONT} (2 partitions without an owner until it is back); 32 to 256 slots: no member" in text


def test_what_is_removed_with_the_leader_is_named_with_its_cost() -> None:
    refreshed = with_work(seen(ALWAYS, *FIVE, protocol=STREAMS_PROTOCOL), ALWAYS_FRONT, active=("0_1", "1_1"))
    prediction = foreseen(refreshed)
    assert prediction.begins
    assert list(prediction.removed) == [ALWAYS_FRONT]
    assert "closes 2 active tasks dirty" in prediction.removed[ALWAYS_FRONT]


def test_a_thread_without_tasks_costs_nothing() -> None:
    prediction = foreseen(seen(ALWAYS, *FIVE, protocol=STREAMS_PROTOCOL))
    assert prediction.removed == {ALWAYS_FRONT: "has no active task"}


def test_what_would_not_begin_says_why_and_what_to_do() -> None:
    prediction = foreseen(seen(ALWAYS, *GROUP))
    assert not prediction.begins
    assert prediction.temporary == 0
    assert ALWAYS_FRONT in prediction.reason
    assert prediction.reason.endswith("restart it")
    assert next(prediction.sentences()).startswith("A take-over would not begin: ")


@pytest.mark.parametrize(
    "refreshed",
    [seen(), seen(*GROUP, state="PreparingRebalance"), replace(seen(*GROUP), obstacle="its broker assigns")],
    ids=["no member", "in a rebalance", "not to be led"],
)
def test_nothing_is_foreseen_of_a_group_that_is_not_taken_over_now(refreshed: Observation) -> None:
    assert removals(refreshed, CONFIG, 1_000) is None


def test_nothing_is_foreseen_where_no_take_over_is_allowed() -> None:
    assert removals(seen(*GROUP), MembershipConfig("orders", adopt="succeed"), 1_000) is None
    guarded = MembershipConfig("orders", takeover_obstacle=Obstacle(NotLeading.UNDECLARED, "stores are not declared"))
    assert removals(seen(*GROUP), guarded, 1_000) is None


def test_a_broker_that_answers_slowly_is_foreseen_with_the_time_that_was_measured() -> None:
    config = replace(CONFIG, instance_id="bellwether")
    assert foreseen(seen(*CROWD), config=config).begins, "not known: as of a broker that answers at once"
    slow = removals(seen(*CROWD), config, SizeLimit(1_000), answer_time_ms=100.4)
    assert slow is not None
    assert not slow.begins
    assert "among the 9 that can be tried within roll_ms_max if the broker answers in 100 ms;" in slow.reason
    assert slow.by_pace
    assert "would not begin now" in (message := " ".join(slow.sentences()))
    assert "measures that again before each attempt" in message


def test_what_no_faster_broker_would_change_does_not_depend_on_the_pace() -> None:
    config = replace(CONFIG, instance_id="bellwether")
    blocked = removals(seen(ALWAYS, *GROUP), config, SizeLimit(1_000), answer_time_ms=100.4)
    assert blocked is not None
    assert not blocked.by_pace


def test_a_search_that_is_too_short_even_if_the_broker_answers_at_once_says_so() -> None:
    prediction = foreseen(seen(*CROWD), config=replace(CONFIG, instance_id="bellwether", roll_ms_max=100))
    assert not prediction.begins
    assert "among the 14 that can be tried within roll_ms_max if the broker answers at once;" in prediction.reason
