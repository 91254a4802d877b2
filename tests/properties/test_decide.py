"""Whatever bytes members send: a decision comes out, it is valid, its bytes agree with it, and it settles."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bellwether_kafka.assignors.consumer import BUILT_IN, POLICIES, PartitionPlan, Policy
from bellwether_kafka.assignors.consumer.validate import validate
from bellwether_kafka.assignors.shared import NOBODY, ClusterView, Decision, Memory, RawGroup, RawMember
from bellwether_kafka.protocol.bulk import owner_of
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment
from tests.kit.consumers import decided, kafka_go, sticky_v1, subscription

TOPICS = ("t", "u", "v", "unseen")
RACKS = (None, "a", "b", "c")

topics = st.lists(st.sampled_from(TOPICS), unique=True, max_size=4)
partitions = st.lists(st.tuples(st.sampled_from(TOPICS), st.integers(-1, 8)), max_size=8)
generations = st.integers(-2, 12)
racks = st.sampled_from([*RACKS, "elsewhere", ""])
user_data = st.one_of(
    st.none(),
    st.binary(max_size=12),
    st.builds(sticky_v1, partitions, generations),
    st.builds(lambda p, g: b"\x00\x01" + sticky_v1(p, g), partitions, generations),
)
honest = st.one_of(
    st.builds(subscription, st.integers(0, 4), topics, user_data, partitions, generations, racks),
    st.builds(kafka_go, topics, st.one_of(st.none(), st.sampled_from([b"a", b"elsewhere", b"\xff"]))),
)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    blob = bytearray(draw(honest))
    for at in draw(st.lists(st.integers(0, max(0, len(blob) - 1)), max_size=3)):
        blob[at] = draw(st.integers(0, 255))
    return bytes(blob[: draw(st.integers(0, len(blob)))]) if draw(st.booleans()) else bytes(blob)


metadata = st.one_of(honest, mutated(), st.binary(max_size=40))


@st.composite
def raw_groups(draw: st.DrawFn, blobs: st.SearchStrategy[bytes] = metadata) -> RawGroup:
    count = draw(st.integers(0, 6))
    members = tuple(
        RawMember(f"m{i}", draw(st.sampled_from([None, f"i{i}"])), draw(blobs), draw(racks), draw(st.booleans()))
        for i in range(count)
    )
    own = draw(st.sets(st.sampled_from([m.member_id for m in members]), max_size=1)) if members else set()
    protocol = draw(st.sampled_from([*BUILT_IN, "made-up"]))
    return RawGroup("g", draw(st.integers(0, 12)), protocol, members, frozenset(own))


@st.composite
def clusters(draw: st.DrawFn) -> ClusterView:
    replicas = st.lists(st.sampled_from(RACKS), min_size=1, max_size=3)
    seen = draw(st.lists(st.sampled_from(TOPICS[:3]), unique=True, max_size=3))
    layout = {topic: draw(st.lists(replicas, max_size=5)) for topic in seen}
    return ClusterView.of(layout, unreadable=frozenset(draw(st.sets(st.sampled_from(TOPICS), max_size=1))))


policies = st.sampled_from(POLICIES).map(Policy)


def check(decision: Decision[PartitionPlan]) -> None:
    """What must hold for every decision."""
    assert not any("instead" in w and "made-up" not in w for w in decision.warnings)
    history = decision.raw.protocol == "sticky"
    assert validate(decision.plan.group, decision.cluster, decision.plan.target, holds_claims=not history) == ()
    assert [m for m, _ in decision.assignments] == [m.member_id for m in decision.raw.members]
    blobs = dict(decision.assignments)
    assert all(ConsumerProtocolAssignment.decode(blobs[own]).partitions == () for own in decision.raw.own_member_ids)
    theirs = [blobs[m.member_id] for m in decision.raw.others]
    encoded = owner_of(theirs, decision.cluster.topics, decision.cluster.first)
    assert encoded.tolist() == decision.plan.target.sent.tolist()
    for member, blob in zip(decision.plan.group.members, theirs, strict=True):
        assert {tp.topic for tp in ConsumerProtocolAssignment.decode(blob).partitions} <= set(member.topics)


@settings(max_examples=250)
@given(raw_groups(), raw_groups(), clusters(), clusters(), policies)
def test_two_rebalances_of_any_bytes_are_decided_and_valid(
    first: RawGroup, second: RawGroup, before: ClusterView, after: ClusterView, policy: Policy
) -> None:
    decision = decided(first, before, Memory.empty(), policy, now_ms=0)
    check(decision)
    check(decided(second, after, decision.plan.memory, policy, now_ms=1))


def joined_again(decision: Decision[PartitionPlan]) -> RawGroup:
    """The next rebalance if every readable member did what it was sent: it owns what it was sent, in this
    generation."""
    blobs = dict(decision.assignments)
    members = []
    for member in decision.raw.members:
        view = next((v for v in decision.plan.group.members if v.member_id == member.member_id), None)
        if view is None or view.degraded:
            members.append(member)
            continue
        partitions = ConsumerProtocolAssignment.decode(blobs[member.member_id]).partitions
        reported = sticky_v1(partitions, decision.raw.generation)
        rack = None if view.leader_only else view.rack
        blob = subscription(3, view.topics, reported, partitions, decision.raw.generation, rack)
        members.append(replace(member, metadata=blob))
    return replace(decision.raw, generation=decision.raw.generation + 1, members=tuple(members))


@settings(max_examples=150)
@given(raw_groups(honest), clusters(), policies)
def test_a_group_settles_and_then_nothing_moves(raw: RawGroup, cluster: ClusterView, policy: Policy) -> None:
    # kafka-go carries its rack where the others carry history, so members of one more rebalance cannot be imitated.
    raw = replace(raw, protocol="cooperative-sticky" if raw.protocol == "rack-affinity" else raw.protocol)
    raw = replace(raw, generation=20)
    decision = decided(raw, cluster, Memory.empty(), policy, now_ms=0)
    for _ in range(4):
        decision = decided(joined_again(decision), cluster, decision.plan.memory, policy, now_ms=0)
        check(decision)
        if not decision.followup:
            break
    assert not decision.followup
    settled = decided(joined_again(decision), cluster, decision.plan.memory, policy, now_ms=0)
    assert (settled.moves.moved, settled.moves.new, settled.moves.lost, settled.followup) == (0, 0, 0, False)
    owned = np.flatnonzero(settled.plan.owner != NOBODY)
    assert settled.moves.kept == len(owned)


@settings(max_examples=50)
@given(raw_groups(), clusters(), policies)
def test_deciding_the_same_twice_gives_the_same_bytes(raw: RawGroup, cluster: ClusterView, policy: Policy) -> None:
    first, second = (decided(raw, cluster, Memory.empty(), policy, now_ms=0) for _ in range(2))
    assert first.assignments == second.assignments


@settings(max_examples=150)
@given(clusters(), st.lists(racks, min_size=1, max_size=6), policies)
def test_members_with_configured_racks_are_placed_as_if_there_were_leaders_only(
    cluster: ClusterView, names: list[str | None], policy: Policy
) -> None:
    """Where the leaders' racks are known: of a partition whose leader has none, all replicas count."""
    followed_racks = {
        topic: [[cluster.racks[rack]] for rack in cluster.leader_rack[cluster.topic_of() == t].tolist() if rack >= 0]
        for t, topic in enumerate(cluster.topics)
    }
    followed = {topic: [[*leader, *cluster.racks] for leader in leaders] for topic, leaders in followed_racks.items()}
    subscribed = subscription(0, TOPICS[:3])
    configured = tuple(RawMember(f"m{i}", None, subscribed, rack, True) for i, rack in enumerate(names))
    sending = tuple(RawMember(f"m{i}", None, subscription(3, TOPICS[:3], rack=rack)) for i, rack in enumerate(names))
    raw = RawGroup("g", 1, "range", configured)
    decision = decided(raw, ClusterView.of(followed), Memory.empty(), policy, now_ms=0)
    two = decided(replace(raw, members=sending), ClusterView.of(followed_racks), Memory.empty(), policy, now_ms=0)
    check(decision)
    assert decision.cost == two.cost
