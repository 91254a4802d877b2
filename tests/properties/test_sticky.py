"""Properties of sticky plans on arbitrary small groups, against an oracle written from the definitions."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bellwether_kafka.assignors.consumer import Policy, planned_owners
from bellwether_kafka.assignors.consumer.derived import current_owner
from bellwether_kafka.assignors.consumer.follow_up import pending_partitions
from bellwether_kafka.assignors.consumer.sticky import place
from bellwether_kafka.assignors.shared import NOBODY, ClusterView, GroupView, IntArray, MemberView
from bellwether_kafka.protocol.primitives import TopicPartition

RACKS = ("a", "b", "c")


@dataclass(frozen=True, slots=True, eq=False)
class World:
    cluster: ClusterView
    members: tuple[MemberView, ...]
    claims: tuple[tuple[TopicPartition, ...], ...]

    @property
    def group(self) -> GroupView:
        return GroupView.of(self.cluster, self.members, self.claims)

    def after(self, sent: IntArray, generation: int) -> "World":
        """The members own exactly what was sent."""
        members = tuple(
            MemberView(m.member_id, topics=m.topics, rack=m.rack, generation=generation) for m in self.members
        )
        claims = tuple(
            tuple(self.cluster.name(f) for f in np.flatnonzero(sent == m).tolist()) for m in range(len(members))
        )
        return World(self.cluster, members, claims)


@st.composite
def worlds(draw: st.DrawFn, *, alike: bool | None = None, racked: bool | None = None) -> World:
    racked = draw(st.booleans()) if racked is None else racked
    rack = st.sampled_from(RACKS) if racked else st.none()
    replicas = st.lists(rack, min_size=1, max_size=2)
    layout = draw(
        st.dictionaries(st.sampled_from(["t", "u", "v", "w", "x"]), st.lists(replicas, max_size=7), min_size=1)
    )
    cluster = ClusterView.of(layout)
    lists = st.lists(st.sampled_from([*layout, "unknown"]), unique=True).map(tuple)
    alike = draw(st.booleans()) if alike is None else alike
    ids = draw(st.lists(st.integers(0, 999), min_size=1, max_size=7, unique=True))
    common = draw(lists)
    members = tuple(
        MemberView(
            f"m{i}",
            topics=common if alike else draw(lists),
            rack=draw(st.sampled_from([*RACKS, "elsewhere", None])) if racked else None,
            generation=draw(st.integers(-1, 3)),
        )
        for i in ids
    )
    partition = st.integers(0, max(0, cluster.partition_total - 1))
    claims = tuple(
        tuple(cluster.name(f) for f in draw(st.lists(partition, unique=True, max_size=8)))
        if cluster.partition_total
        else ()
        for _ in members
    )
    return World(cluster, members, claims)


def check(world: World, owner: IntArray) -> list[int]:
    """Every partition of a subscribed topic once and only at a subscriber; a member with at least two more than another
    holds no topic of this one. Returns the loads."""
    size = len(world.members)
    load = [0] * size
    has: list[set[str]] = [set() for _ in range(size)]
    for flat, m in enumerate(owner.tolist()):
        topic = world.cluster.name(flat).topic
        if not any(topic in member.topics for member in world.members):
            assert m == NOBODY
            continue
        assert topic in world.members[m].topics
        load[m] += 1
        has[m].add(topic)
    for rich in range(size):
        for poor in range(size):
            assert load[rich] < load[poor] + 2 or not has[rich] & set(world.members[poor].topics)
    return load


@given(worlds())
def test_plans_are_complete_and_balanced(world: World) -> None:
    check(world, place(world.group, world.cluster))


@given(worlds(alike=True))
def test_equal_subscriptions_differ_by_one_at_most_with_exactly_the_remainder_above(world: World) -> None:
    owner = place(world.group, world.cluster)
    placed = int((owner >= 0).sum())
    members = len(world.members)
    assert sorted(check(world, owner)) == sorted(placed // members + (m < placed % members) for m in range(members))


@given(worlds())
def test_a_settled_group_stays(world: World) -> None:
    owner = place(world.group, world.cluster)
    again = world.after(owner, 9)
    assert np.array_equal(place(again.group, again.cluster), owner)
    assert not pending_partitions(again.group, owner).any()


@given(worlds())
def test_the_plan_depends_on_ids_not_on_the_order_of_the_answer(world: World) -> None:
    owner = place(world.group, world.cluster)
    turned = World(world.cluster, world.members[::-1], world.claims[::-1])
    other = place(turned.group, world.cluster)
    last = len(world.members) - 1
    assert np.array_equal(np.where(other >= 0, last - other, NOBODY), owner)


@given(worlds())
def test_cooperative_rebalances_settle_and_never_hand_over_what_is_consumed(world: World) -> None:
    for rebalance in range(1, 5):
        group = world.group
        owner = place(group, world.cluster)
        check(world, owner)
        pending = pending_partitions(group, owner)
        sent = np.where(pending, NOBODY, owner)
        for flat, m in enumerate(sent.tolist()):
            claim = world.cluster.name(flat)
            age = [w.generation for w, mine in zip(world.members, world.claims, strict=True) if claim in mine]
            if m == NOBODY or not age:
                continue
            # Claimed by a member and sent: only to the one member with the newest claim.
            assert claim in world.claims[m]
            assert world.members[m].generation == max(age)
            assert age.count(max(age)) == 1
        world = world.after(sent, 10 + rebalance)
        if not pending.any():
            return
    assert not pending.any()


def best_loads(world: World) -> list[int]:
    """The most even loads there are, by brute persistence: hand over along any chain that ends at a member with two
    more, until there is none. Unique as a multiset, whatever the start."""
    wants = [set(member.topics) for member in world.members]
    topics = [world.cluster.name(f).topic for f in range(world.cluster.partition_total)]
    owner = {
        f: next(m for m, w in enumerate(wants) if t in w) for f, t in enumerate(topics) if any(t in w for w in wants)
    }
    load = [list(owner.values()).count(m) for m in range(len(wants))]

    def chain(poor: int) -> list[tuple[int, int]] | None:
        giver_of: dict[int, tuple[int, int]] = {}  # giver -> (partition, receiver)
        queue = [poor]
        for receiver in queue:
            for flat, giver in owner.items():
                if topics[flat] not in wants[receiver] or giver in giver_of or giver == poor:
                    continue
                giver_of[giver] = (flat, receiver)
                queue.append(giver)
                if load[giver] >= load[poor] + 2:
                    links, at = [], giver
                    while at != poor:
                        links.append(giver_of[at])
                        at = giver_of[at][1]
                    return links
        return None

    while links := next((c for m in range(len(wants)) if (c := chain(m))), None):
        load[owner[links[0][0]]] -= 1
        load[links[-1][1]] += 1
        owner.update(links)
    return sorted(load)


@given(worlds())
def test_no_chain_of_moves_could_level_a_plan_further(world: World) -> None:
    assert sorted(check(world, place(world.group, world.cluster))) == best_loads(world)


@given(worlds(alike=True, racked=False))
def test_equal_subscriptions_move_as_little_as_balance_needs(world: World) -> None:
    """The exact minimum: a member keeps what it owns up to the higher count, for as many members as may have it."""
    owner = place(world.group, world.cluster)
    claimed: dict[TopicPartition, list[tuple[int, int]]] = {}
    for m, (member, mine) in enumerate(zip(world.members, world.claims, strict=True)):
        for claim in mine:
            if claim.topic in member.topics:
                claimed.setdefault(claim, []).append((member.generation, m))
    owned = [0] * len(world.members)
    kept = 0
    for claim, claimants in claimed.items():
        newest = [m for age, m in claimants if age == max(claimants)[0]]
        if len(newest) == 1:
            owned[newest[0]] += 1
            kept += int(owner[world.cluster.flat(*claim) or 0]) == newest[0]
    least, above = divmod(int((owner >= 0).sum()), len(world.members))
    assert kept == sum(min(n, least) for n in owned) + min(above, sum(n > least for n in owned))


@dataclass(frozen=True, slots=True)
class Cost:
    """What plans are compared by, in this order."""

    squares: int  # of the members' loads
    remote: int  # partitions that their member reads from another rack
    moved: int  # partitions that another member had, or nobody


class Prices:
    """What each partition costs on each member."""

    def __init__(self, world: World, *, racks: bool) -> None:
        cluster = world.cluster
        replicas = [{cluster.racks[r] for r in np.flatnonzero(row)} for row in cluster.signature_racks]
        self.world, self.before = world, current_owner(world.group, cluster).tolist()
        self.replicas = [replicas[s] if racks else set() for s in cluster.signature.tolist()]
        self.topics = [cluster.name(f).topic for f in range(cluster.partition_total)]

    def readers(self, flat: int) -> list[int]:
        return [m for m, member in enumerate(self.world.members) if self.topics[flat] in member.topics]

    def of(self, flat: int, member: int) -> int:
        rack, near = self.world.members[member].rack, self.replicas[flat]
        remote = bool(near) and rack is not None and rack not in near
        return 1000 * remote + int(self.before[flat] != member)

    def cost(self, owner: list[int]) -> Cost:
        price = sum(self.of(f, m) for f, m in enumerate(owner) if m != NOBODY)
        squares = sum(owner.count(m) ** 2 for m in range(len(self.world.members)))
        return Cost(squares, *divmod(price, 1000))


def cheapest(prices: Prices) -> Cost:
    """The least cost of all plans: partitions are added one by one, each along the cheapest chain of members that hand
    one on (a cheapest flow)."""
    owner = [NOBODY] * len(prices.topics)
    for added in range(len(owner)):
        reached = {m: prices.of(added, m) for m in prices.readers(added)}
        from_: dict[int, tuple[int, int]] = {}  # member -> (the partition that it gets, the member that hands it on)
        shorter = True
        while shorter:
            shorter = False
            for flat, giver in enumerate(owner):
                for taker in prices.readers(flat) if giver in reached else []:
                    price = reached[giver] - prices.of(flat, giver) + prices.of(flat, taker)
                    if price < reached.get(taker, price + 1):
                        reached[taker], from_[taker], shorter = price, (flat, giver), True
        if not reached:
            continue
        member = min(reached, key=lambda m: 10**6 * (2 * owner.count(m) + 1) + reached[m])
        while member in from_:
            flat, giver = from_[member]
            owner[flat], member = member, giver
        owner[added] = member
    return prices.cost(owner)


@pytest.mark.parametrize(
    ("policy", "protocol"),
    [
        ("kafka", "sticky"),
        ("kafka", "cooperative-sticky"),
        ("rack-first", "range"),
        ("rack-first", "cooperative-sticky"),
        ("sticky-min-churn", "range"),
    ],
)
@given(worlds())
def test_no_plan_is_more_even_nor_then_nearer_nor_then_keeps_more(policy: str, protocol: str, world: World) -> None:
    group = replace(world.group, protocol=protocol)
    prices = Prices(world, racks=policy != "sticky-min-churn")
    owner = planned_owners(group, world.cluster, Policy(policy)).tolist()
    assert prices.cost(owner) == cheapest(prices)
