"""Whatever happens to a group, it takes one rebalance to plan and one to hand out what members gave up, under every
policy, and no partition is taken from a member that has it in the end.

Members do what they are sent; one may refuse to give up what it has. `BELLWETHER_SEEDS` raises the number of groups.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

import numpy as np
import pytest

from bellwether_kafka.assignors.consumer import (
    BROKER_SIDE,
    BUILT_IN,
    POLICIES,
    LoadAware,
    PartitionPlan,
    Policy,
    broker_side,
)
from bellwether_kafka.assignors.shared import (
    NOBODY,
    REPEATS_MAX,
    ClusterView,
    Decision,
    GroupView,
    IntArray,
    Memory,
    Rule,
    Weights,
)
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.consumers import LiveMember, decided, given, live_group
from tests.seeds import seeds

UNRELEASED = "has not given up partitions that 3 plans in a row took from it"

SEEDS = int(os.environ.get("BELLWETHER_SEEDS", "24"))
RACKS = ("a", "b", "c")
COOPERATIVE = "cooperative-sticky"
ENDLESS = 12  # rebalances


class Restless:
    """A plug-in that moves partitions whenever it is asked."""

    name = "restless"
    cooperative = True

    def assign(self, group: GroupView, cluster: ClusterView) -> IntArray:
        owner = np.full(cluster.partition_total, NOBODY, dtype=np.int32)
        for flat, topic in enumerate(cluster.topic_of().tolist()):
            subscribers = [m for m in range(group.size) if topic in group.topic_sets[group.topic_set[m]]]
            if subscribers:
                owner[flat] = subscribers[(flat + group.generation) % len(subscribers)]
        return owner


EVERY_POLICY: dict[str, Policy] = {
    **{name: Policy(name) for name in POLICIES},
    **{name: broker_side(name) for name in BROKER_SIDE},
    **{name: Policy(name, {name: BUILT_IN[name]}) for name in ("range", "roundrobin")},
    "restless": Policy("restless", {"restless": Restless()}),
    "orders": Policy("topic-balance").with_rules((Rule("ban", "t0", "member:m1"), Rule("pin", "t1-0", "rack:a"))),
}


@dataclass(frozen=True)
class Settled:
    """What one event took. `revoked` are partitions that members had to give up, `net` those that members had before
    and another has in the end. `asked`, per rebalance, are the members that had to give up something."""

    rebalances: int
    revoked: int
    net: int
    asked: tuple[frozenset[str], ...]
    decisions: tuple[Decision[PartitionPlan], ...]


class World:
    """A group of one of four kinds: plain, with racks, with mixed subscriptions, with one large topic."""

    def __init__(self, seed: int, protocol: str = COOPERATIVE) -> None:
        self.random, self.protocol = Random(seed), protocol
        self.racked, self.mixed, self.skewed = seed % 4 == 1, seed % 4 == 2, seed % 4 == 3
        pick = self.random
        self.counts = {f"t{i}": pick.randint(1, 12) for i in range(pick.randint(2, 7))}
        if self.skewed:
            self.counts["t0"] = 40
        self.members: list[LiveMember] = []
        self.memory, self.generation, self.joined = Memory.empty(), 0, 0
        for _ in range(pick.randint(2, 8)):
            self.join()

    def join(self) -> None:
        names = sorted(self.counts)
        topics = self.random.sample(names, self.random.randint(1, len(names))) if self.mixed else names
        rack = self.random.choice(RACKS) if self.racked else None
        eager = not BUILT_IN[self.protocol].cooperative
        self.members.append(LiveMember(f"m{self.joined}", tuple(topics), rack, not eager))
        self.joined += 1

    def leave(self) -> None:
        if len(self.members) > 1:
            self.members.pop(self.random.randrange(len(self.members)))

    def joins(self) -> None:
        for _ in range(4):
            self.join()

    def grow(self) -> None:
        self.counts[self.random.choice(sorted(self.counts))] += self.random.randint(1, 9)

    def delete(self) -> None:
        """Members notice it before they join."""
        if len(self.counts) > 1:
            gone = self.random.choice(sorted(self.counts))
            del self.counts[gone]
            self.members = [
                replace(
                    m,
                    topics=tuple(topic for topic in m.topics if topic != gone),
                    owned=tuple(tp for tp in m.owned if tp.topic != gone),
                )
                for m in self.members
            ]

    def event(self) -> None:
        self.random.choice([self.join, self.leave, self.joins, self.grow, self.delete])()

    @property
    def cluster(self) -> ClusterView:
        racks = {t: [(RACKS[p % 3], RACKS[(p + len(t)) % 3]) for p in range(n)] for t, n in self.counts.items()}
        return ClusterView.of(racks if self.racked else {t: [(None,)] * n for t, n in self.counts.items()})

    def owners(self) -> dict[TopicPartition, str]:
        return {tp: m.member_id for m in self.members for tp in m.owned}

    def rebalance(
        self, policy: Policy, refusing: str = ""
    ) -> tuple[Decision[PartitionPlan], set[tuple[str, TopicPartition]]]:
        """One rebalance; returns also what members had to give up."""
        self.generation += 1
        decision = decided(
            live_group(self.members, self.generation, self.protocol), self.cluster, self.memory, policy, 0
        )
        assert not any("gave no valid plan" in warning for warning in decision.warnings), decision.warnings
        had, sent = self.members, given(decision)
        lost = {(m.member_id, tp) for m in had for tp in set(m.owned) - set(sent[m.member_id])}
        self.members = [m.after(decision) for m in had]
        for at, member in enumerate(had):
            if member.member_id == refusing:
                owned = tuple(sorted({*member.owned, *self.members[at].owned}))
                self.members[at] = replace(self.members[at], owned=owned)
        self.memory = decision.plan.memory
        return decision, lost

    def settle(self, policy: Policy, refusing: str = "") -> Settled:
        """Rebalances as long as somebody has to give up something or something is pending."""
        before, decisions, lost = (
            self.owners(),
            list[Decision[PartitionPlan]](),
            list[set[tuple[str, TopicPartition]]](),
        )
        while not decisions or decisions[-1].followup:
            assert len(decisions) < ENDLESS, "it never settles"
            decision, given_up = self.rebalance(policy, refusing)
            decisions.append(decision)
            lost.append(given_up)
        after, here = self.owners(), {m.member_id for m in self.members}
        moved = [tp for tp, member in before.items() if member in here and after.get(tp) != member]
        asked = tuple(frozenset(member for member, _ in each) for each in lost)
        return Settled(len(decisions), sum(map(len, lost)), len(moved), asked, tuple(decisions))


def changing(policy: Policy, random: Random, counts: Mapping[str, int]) -> Policy:
    """The policy with other weights than before, which come between any two rebalances."""
    partitions = [TopicPartition(topic, p) for topic, count in counts.items() for p in range(count)]
    return replace(policy, load=LoadAware(Weights({tp: random.choice([1.0, 5.0, 20.0]) for tp in partitions})))


Check = Callable[[World, Policy], None]


def each_policy(seed: int, check: Check, protocol: str = COOPERATIVE, names: Sequence[str] = ()) -> None:
    for name in names or EVERY_POLICY:
        world, policy = World(seed, protocol), EVERY_POLICY[name]
        if name == "load-aware":
            policy = changing(policy, world.random, world.counts)
        world.settle(policy)
        try:
            check(world, policy)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, {name}: {error}") from error


@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_a_group_settles_in_two_rebalances_and_takes_nothing_in_vain(seed: int) -> None:
    def check(world: World, policy: Policy) -> None:
        for _ in range(4):
            world.event()
            settled = world.settle(policy)
            assert settled.rebalances <= 2, settled.rebalances
            assert settled.revoked == settled.net, settled

    each_policy(seed, check)


@pytest.mark.parametrize("protocol", ["range", "roundrobin", "sticky"])
@pytest.mark.parametrize("seed", seeds(SEEDS // 4))
def test_an_eager_group_settles_in_one(seed: int, protocol: str) -> None:
    def check(world: World, policy: Policy) -> None:
        for _ in range(4):
            world.event()
            assert world.settle(policy).rebalances == 1

    each_policy(seed, check, protocol)


@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_eager_and_cooperative_members_together_settle_in_two(seed: int) -> None:
    def check(world: World, policy: Policy) -> None:
        world.members = [replace(m, cooperative=world.random.random() < 0.5, owned=m.owned) for m in world.members]
        world.event()
        assert world.settle(policy).rebalances <= 2

    each_policy(seed, check)


@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_what_happens_in_between_is_planned_and_settles_in_two_more(seed: int) -> None:
    def check(world: World, policy: Policy) -> None:
        world.join()
        world.rebalance(policy)
        for _ in range(2):
            world.event()
            assert world.settle(policy).rebalances <= 2

    each_policy(seed, check)


@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_a_member_that_never_gives_up_anything_costs_others_nothing_and_is_named(seed: int) -> None:
    """What it has waits: it may not have received the plans. Then the others get it."""

    def check(world: World, policy: Policy) -> None:
        refusing = world.random.choice(world.members).member_id
        world.joins()
        settled = world.settle(policy, refusing)
        assert settled.rebalances <= REPEATS_MAX + 2
        assert all(asked <= {refusing} for asked in settled.asked[1:]), settled.asked
        for number, decision in enumerate(settled.decisions, 1):
            named = any(UNRELEASED in w and refusing in w for w in decision.warnings)
            assert named == (number == REPEATS_MAX + 1), (number, decision.warnings)

    each_policy(seed, check)


@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_weights_that_change_between_two_rebalances_take_nothing_more(seed: int) -> None:
    world = World(seed)
    policy = EVERY_POLICY["load-aware"]
    world.settle(changing(policy, world.random, world.counts))
    world.join()
    world.rebalance(changing(policy, world.random, world.counts))
    assert world.settle(changing(policy, world.random, world.counts)).revoked == 0
