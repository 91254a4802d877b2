"""Topics are spread evenly by swaps that change nobody's sum and move no more than is needed."""

import random

import numpy as np
import pytest

from bellwether_kafka.assignors.consumer import TOPIC_BALANCE, Policy
from bellwether_kafka.assignors.consumer.topic_spread import spread_topics, unevenness
from bellwether_kafka.assignors.shared import NOBODY, GroupView, Memory
from tests.kit.consumers import LiveMember, cluster_of, members_of, settle

CLUSTER = cluster_of({"busy": 4, "quiet": 4})
BOTH = ["busy", "quiet"]
GROUP = GroupView.of(CLUSTER, members_of([BOTH, BOTH]))
APART = np.array([0, 0, 0, 0, 1, 1, 1, 1], dtype=np.int32)
POLICY = Policy(TOPIC_BALANCE)


def test_two_topics_that_drifted_apart_are_spread_by_two_swaps() -> None:
    spread = spread_topics(GROUP, CLUSTER, APART, APART)
    assert np.bincount(spread).tolist() == [4, 4]
    assert np.bincount(spread[:4]).tolist() == np.bincount(spread[4:]).tolist() == [2, 2]
    assert int((spread != APART).sum()) == 4
    assert (unevenness(GROUP, CLUSTER, APART), unevenness(GROUP, CLUSTER, spread)) == (16.0, 0.0)


def test_what_moves_anyway_is_swapped_before_what_stays() -> None:
    before = np.array([0, 1, 1, 0, 1, 0, 0, 1], dtype=np.int32)
    assert spread_topics(GROUP, CLUSTER, APART, before).tolist() == before.tolist()


def test_an_even_plan_stays_as_it_is() -> None:
    even = np.array([0, 1, 1, 0, 1, 0, 0, 1], dtype=np.int32)
    assert spread_topics(GROUP, CLUSTER, even, APART).tolist() == even.tolist()


def test_members_with_other_subscriptions_and_partitions_without_an_owner_are_left_alone() -> None:
    group = GroupView.of(CLUSTER, members_of([["busy"], ["quiet"]]))
    assert spread_topics(group, CLUSTER, APART, APART).tolist() == APART.tolist()
    assert unevenness(group, CLUSTER, APART) == 0.0
    nobody = np.full(8, NOBODY, dtype=np.int32)
    assert spread_topics(GROUP, CLUSTER, nobody, nobody).tolist() == nobody.tolist()
    assert unevenness(GROUP, CLUSTER, nobody) == 0.0


@pytest.mark.parametrize("seed", range(20))
def test_whatever_members_have_each_topic_ends_within_one(seed: int) -> None:
    rng = random.Random(seed)
    counts = {f"t{number}": rng.randint(1, 20) for number in range(rng.randint(1, 6))}
    cluster, size = cluster_of(counts), rng.randint(1, 9)
    group = GroupView.of(cluster, members_of([sorted(counts)] * size))
    places = [place % size for place in range(cluster.partition_total)]
    rng.shuffle(places)
    owner = np.array(places, dtype=np.int32)
    spread = spread_topics(group, cluster, owner, owner)
    assert np.bincount(spread, minlength=size).tolist() == np.bincount(owner, minlength=size).tolist()
    for first, count in zip(cluster.first.tolist(), cluster.counts.tolist(), strict=False):
        assert int(np.ptp(np.bincount(spread[first : first + count], minlength=size))) <= 1


def test_topics_stay_even_while_every_member_is_replaced() -> None:
    """librdkafka#4044, KAFKA-16277: without it a rolling deploy leaves members with 4 of one topic and 0 of another."""
    cluster, fresh = cluster_of({"busy": 18, "quiet": 18}), (LiveMember(f"c-{n}", tuple(BOTH)) for n in range(99))
    members, last, _ = settle([next(fresh) for _ in range(9)], cluster, Memory.empty(), POLICY)
    generation = 10
    for old in list(members):
        remain = [member for member in members if member.member_id != old.member_id]
        members, last, _ = settle(remain, cluster, last.plan.memory, POLICY, generation)
        members, last, _ = settle([*members, next(fresh)], cluster, last.plan.memory, POLICY, generation + 4)
        generation += 8
    busy = [sum(partition.topic == "busy" for partition in member.owned) for member in members]
    assert busy == [2] * 9
