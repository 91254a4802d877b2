"""Range: the textbook shares, KIP-881 co-partitioning and racks, static members, and a slow second opinion."""

import random
from collections.abc import Sequence

import numpy as np
import pytest

from bellwether_kafka.assignors.consumer import BUILT_IN
from bellwether_kafka.assignors.shared import ClusterView, GroupView, IntArray, MemberView
from tests.kit.consumers import cluster_of, members_of, plan_of, rack_mismatches
from tests.seeds import seeds


def assign(cluster: ClusterView, members: Sequence[MemberView]) -> tuple[GroupView, IntArray]:
    group = GroupView.of(cluster, members, protocol="range")
    return group, BUILT_IN["range"].assign(group, cluster)


def plan(counts: dict[str, int], topics: Sequence[Sequence[str]]) -> list[str]:
    cluster = cluster_of(counts)
    group, owner = assign(cluster, members_of(topics))
    return list(plan_of(group, cluster, owner).values())


def test_extras_go_to_the_first_members_of_every_topic() -> None:
    assert plan({"t1": 3, "t2": 3}, [["t1", "t2"], ["t1", "t2"]]) == ["t1-0 t1-1 t2-0 t2-1", "t1-2 t2-2"]


def test_static_members_come_first_by_instance_id() -> None:
    cluster = cluster_of({"t1": 4})
    members = [
        MemberView("a", None, ("t1",)),
        MemberView("z", "instance2", ("t1",)),
        MemberView("y", "instance1", ("t1",)),
    ]
    group, owner = assign(cluster, members)
    assert plan_of(group, cluster, owner) == {"y": "t1-0 t1-1", "z": "t1-2", "a": "t1-3"}


@pytest.mark.parametrize("racks", [(None, None, None), ("a", "b", "c")])
def test_static_members_keep_their_partitions_when_their_ids_change(racks: tuple[str | None, ...]) -> None:
    cluster = cluster_of({"t1": 5, "t2": 4}, 2, ("a", "b", "c"))

    def by_instance(ids: Sequence[str]) -> dict[str, list[int]]:
        members = [MemberView(ids[i], f"instance{i}", ("t1", "t2"), racks[i]) for i in range(3)]
        _, owner = assign(cluster, members)
        return {str(m.instance_id): np.flatnonzero(owner == i).tolist() for i, m in enumerate(members)}

    assert by_instance(["x", "y", "z"]) == by_instance(["z", "a", "m"])


SAME = [["t1", "t2", "t3"]] * 3
WITHOUT_T2 = [["t1", "t2", "t3"], ["t1", "t2", "t3"], ["t1", "t3"]]
FOUR = [["t1", "t2", "t3", "t4"]] * 4
PAIRS = [["t1", "t2"], ["t1", "t2"], ["t3", "t4"], ["t3", "t4"]]
SIX = [["t1", "t2", "t3", "t4", "t5", "t6"]] * 3


@pytest.mark.parametrize(
    ("sizes", "topics", "replicas", "broker_racks", "member_racks", "expected"),
    [
        pytest.param((6, 7, 2), SAME, 1, "abc", "abc", 0, id="same topics, rf 1"),
        pytest.param((6, 7, 2), SAME, 2, "abc", "abc", 1, id="same topics, rf 2"),
        pytest.param((6, 7, 2), SAME, 3, "ab", "abc", 4, id="same topics, a member in a third rack"),
        pytest.param((5, 5, 5), SAME, 1, "abc", "abc", 10, id="co-partitioned, rf 1"),
        pytest.param((5, 5, 5), SAME, 2, "abc", "abc", 5, id="co-partitioned, rf 2"),
        pytest.param((5, 5, 5), SAME, 3, "ab", "abc", 3, id="co-partitioned, a member in a third rack"),
        pytest.param((5, 5, 5), WITHOUT_T2, 1, "abc", "abc", 9, id="unequal, rf 1"),
        pytest.param((5, 5, 5), WITHOUT_T2, 2, "abc", "abc", 0, id="unequal, rf 2"),
        pytest.param((5, 5, 5), WITHOUT_T2, 3, "ab", "abc", 2, id="unequal, a member in a third rack"),
        pytest.param((6, 6, 2, 2), PAIRS, 1, "ab", "abab", 0, id="pairs of members, aligned"),
        pytest.param((6, 6, 2, 2), FOUR, 1, "ab", "abab", 0, id="four members on two racks"),
        pytest.param((6, 6, 2, 2), FOUR, 1, "abc", "abab", 6, id="four members, brokers on three racks"),
        pytest.param((6, 6, 2, 2, 4, 4), SIX, 2, "abc", "abc", 0, id="six topics, rf 2"),
    ],
)
def test_rack_grid(
    sizes: Sequence[int],
    topics: Sequence[Sequence[str]],
    replicas: int,
    broker_racks: str,
    member_racks: str,
    expected: int,
) -> None:
    cluster = cluster_of({f"t{i + 1}": n for i, n in enumerate(sizes)}, replicas, broker_racks)
    group, owner = assign(cluster, members_of(topics, list(member_racks)))
    assert rack_mismatches(group, cluster, owner) == expected


class SlowRange:
    """Follows docs/internals/assignors.md#range step by step, without arrays."""

    def __init__(self, group: GroupView, cluster: ClusterView) -> None:
        self.group, self.cluster = group, cluster
        self.owner = [-1] * cluster.partition_total
        order = sorted(range(group.size), key=lambda m: group.members[m].order)
        subscribed = {t: [m for m in order if t in group.members[m].topics] for t in cluster.topics}
        self.subscribed = {t: members for t, members in subscribed.items() if members}
        self.sizes = {t: int(cluster.counts[cluster.index[t]]) for t in self.subscribed}
        self.taken = {t: dict.fromkeys(members, 0) for t, members in self.subscribed.items()}
        self.extras = {t: self.sizes[t] % len(members) for t, members in self.subscribed.items()}

    def consumed(self, topic: str, p: int) -> set[str]:
        table, row = self.cluster.signature_racks, self.cluster.signature[self.flat(topic, p)]
        return {rack for r, rack in enumerate(self.cluster.racks) if table[row, r]}

    def flat(self, topic: str, p: int) -> int:
        return int(self.cluster.first[self.cluster.index[topic]]) + p

    def quota(self, topic: str) -> int:
        return self.sizes[topic] // len(self.subscribed[topic])

    def room(self, topic: str, m: int) -> int:
        return self.quota(topic) + (self.extras[topic] > 0) - self.taken[topic][m]

    def local(self, topic: str, p: int, m: int) -> bool:
        rack = self.group.members[m].rack
        return rack is None or rack in self.consumed(topic, p)

    def give(self, topic: str, p: int, m: int) -> None:
        self.owner[self.flat(topic, p)] = m
        self.taken[topic][m] += 1
        self.extras[topic] -= self.taken[topic][m] > self.quota(topic)

    def needs(self, topic: str) -> bool:
        racks = {self.group.members[m].rack for m in self.subscribed[topic]} - {None}
        sets = [self.consumed(topic, p) for p in range(self.sizes[topic])]
        union = set[str]().union(*sets)
        return bool(racks & union) and any(s != union for s in sets)

    def ranges(self, topic: str, *, only_local: bool) -> None:
        for m in self.subscribed[topic]:
            free = [p for p in range(self.sizes[topic]) if self.owner[self.flat(topic, p)] < 0]
            mine = [p for p in free if not only_local or self.local(topic, p, m)]
            for p in mine[: max(0, self.room(topic, m))]:
                self.give(topic, p, m)

    def together(self, topics: list[str]) -> None:
        for p in range(self.sizes[topics[0]]):
            for m in self.subscribed[topics[0]]:
                if all(self.local(t, p, m) and self.room(t, m) > 0 for t in topics):
                    for t in topics:
                        self.give(t, p, m)
                    break

    def run(self) -> list[int]:
        alike: dict[tuple[tuple[int, ...], int], list[str]] = {}
        for t, members in self.subscribed.items():
            if any(self.group.members[m].rack for m in members):
                alike.setdefault((tuple(members), self.sizes[t]), []).append(t)
        rack_pass = any(self.needs(t) for t in self.subscribed)
        for topics in alike.values() if rack_pass else ():
            if len(topics) > 1:
                self.together(topics)
            elif self.needs(topics[0]):
                self.ranges(topics[0], only_local=True)
        for t in self.subscribed:
            self.ranges(t, only_local=False)
        return self.owner


@pytest.mark.parametrize("seed", seeds(150))
def test_agrees_with_the_description_followed_step_by_step(seed: int) -> None:
    rng = random.Random(seed)
    names = [f"t{i}" for i in range(rng.randint(1, 6))]
    racks: list[str | None] = list("abcd"[: rng.randint(1, 4)])
    cluster = ClusterView.of(
        {t: [[rng.choice(racks) for _ in range(rng.randint(1, 3))] for _ in range(rng.randint(0, 7))] for t in names}
    )
    members = [
        MemberView(
            f"m{rng.random()}",
            rng.choice([None, f"i{m}"]),
            tuple(names if rng.random() < 0.6 else rng.sample(names, rng.randint(0, len(names)))),
            rng.choice([None, "x", *racks, *racks]),
        )
        for m in range(rng.randint(1, 6))
    ]
    group, owner = assign(cluster, members)
    assert owner.tolist() == SlowRange(group, cluster).run()


@pytest.mark.slow
def test_a_thousand_members_on_a_hundred_thousand_partitions() -> None:
    cluster = cluster_of({f"topic{i:03}": 1000 + i for i in range(100)}, 2, "abcdef")
    members = [MemberView(f"m{i}", None, cluster.topics, "abcdef"[i % 6]) for i in range(1000)]
    _, owner = assign(cluster, members)
    for t, count in enumerate(cluster.counts):
        mine = np.bincount(owner[cluster.first[t] : cluster.first[t + 1]], minlength=1000)
        assert mine.max() - mine.min() <= 1
        assert mine.sum() == count
