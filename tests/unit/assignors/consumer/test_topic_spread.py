"""Topics are spread evenly, totals stay within one, and no more moves than is needed."""

import random

import numpy as np
import pytest

from bellwether_kafka.assignors.consumer import TOPIC_BALANCE, Policy, planned_owners
from bellwether_kafka.assignors.consumer.topic_spread import spread_topics, unevenness
from bellwether_kafka.assignors.shared import NOBODY, GroupView, Memory, Network
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
    assert sorted(np.bincount(spread, minlength=size)) == sorted(np.bincount(owner, minlength=size))
    for first, count in zip(cluster.first.tolist(), cluster.counts.tolist(), strict=False):
        assert int(np.ptp(np.bincount(spread[first : first + count], minlength=size))) <= 1


def fewest_moves(counts: list[int], had: np.ndarray[tuple[int, int], np.dtype[np.int64]]) -> int:
    """Of all plans with totals and topics within one, by a flow from topics to members, a unit an arc: a partition that
    stays costs nothing, one that moves 1, what a topic need not give 1,000 more, what a member need not take 10**6."""
    topics, size = had.shape
    network = Network(topics + size + 1)
    network.excess[:topics], network.excess[-1] = counts, -sum(counts)
    arcs = [
        (t, topics + m, 1, int(unit > had[t, m]) + 1_000 * (unit > count // size), unit <= had[t, m])
        for t, count in enumerate(counts)
        for m in range(size)
        for unit in range(1, -(-count // size) + 1)
    ]
    first = network.add(*zip(*[arc[:4] for arc in arcs], strict=True))
    for m in range(size):
        network.add([topics + m] * 2, [topics + size] * 2, [sum(counts) // size, 1], [0, 10**6])
    assert network.solve()
    stay = sum(flow for flow, arc in zip(network.flow(first), arcs, strict=True) if arc[4])
    return int(had.sum()) - stay


@pytest.mark.parametrize("seed", range(40))
def test_as_few_partitions_move_as_even_totals_and_topics_allow(seed: int) -> None:
    rng = random.Random(seed)
    counts, size = [rng.randint(1, 9) for _ in range(rng.randint(1, 5))], rng.randint(2, 6)
    cluster = cluster_of({f"t{number}": count for number, count in enumerate(counts)})
    topic = cluster.topic_of()
    before = np.array([rng.randrange(-1, size) for _ in topic], dtype=np.int32)
    claims = tuple(tuple(map(cluster.name, np.flatnonzero(before == m).tolist())) for m in range(size))
    group = GroupView.of(cluster, members_of([list(cluster.topics)] * size), claims)
    owner = planned_owners(group, cluster, POLICY)
    shares, had = (
        np.array([np.bincount(of[topic == t][of[topic == t] >= 0], minlength=size) for t in range(len(counts))])
        for of in (owner, before)
    )
    assert int(np.ptp(shares.sum(axis=0))) <= 1
    assert int(np.ptp(shares, axis=1).max()) <= 1
    assert int(((before >= 0) & (owner != before)).sum()) == fewest_moves(counts, had)


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
