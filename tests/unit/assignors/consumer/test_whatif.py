"""What-if: the change is made as said, and the rebalances end in what the policy would settle on."""

import pytest

from bellwether_kafka.assignors.consumer import Policy, changed, rebalances, score, whatif
from bellwether_kafka.assignors.shared import NOBODY, Change, Memory, RawGroup, RawMember, WhatIfError
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription
from tests.kit.consumers import KAFKA, ORDERS_AND_USERS, cluster_of, orders_group, settled


@pytest.mark.parametrize("protocol", ["cooperative-sticky", "sticky", "range"])
def test_a_member_that_joins_gets_its_share_in_the_end(protocol: str) -> None:
    before = orders_group("az1", "az2", protocol=protocol)
    raw, cluster = changed(before, ORDERS_AND_USERS, Change(new_members=("az3", "")))
    made = rebalances(raw, cluster, settled(before), KAFKA, 0)
    last = made[-1]
    assert not last.followup
    assert last.plan.group.size == 4
    assert score(last.plan.group, last.cluster, last.plan.owner).spread <= 1
    assert not (last.plan.owner[:12] == NOBODY).any()
    assert (len(made) > 1) == (protocol == "cooperative-sticky"), "cooperative members give up first"


def test_a_rack_that_disappears_leaves_everything_to_the_others() -> None:
    before = orders_group("az1", "az2", "az2")
    raw, cluster = changed(before, ORDERS_AND_USERS, Change(without_racks=("az2",)))
    (made,) = rebalances(raw, cluster, settled(before), KAFKA, 0)
    assert [m.member_id for m in made.plan.group.members] == ["m0"]
    assert made.moves.kept + made.moves.new == 12
    assert made.moves.lost == made.moves.moved == 0


def test_a_topic_that_grows_moves_nothing_that_was_there() -> None:
    before = orders_group("az1", "az2")
    raw, cluster = changed(before, ORDERS_AND_USERS, Change(topics={"orders": 24}))
    assert (int(cluster.counts[0]), cluster.partition_total) == (24, 26)
    assert (
        cluster.signature[cluster.first[0] : cluster.first[0] + 12].tolist() == ORDERS_AND_USERS.signature[:12].tolist()
    )
    (made,) = rebalances(raw, cluster, settled(before), KAFKA, 0)
    assert (made.moves.kept, made.moves.new, made.moves.moved) == (12, 12, 0)


def test_nothing_changed_is_one_rebalance_without_moves() -> None:
    before = orders_group("az1", "az2")
    (made,) = rebalances(before, ORDERS_AND_USERS, settled(before), KAFKA, 0)
    assert (made.moves.moved, made.moves.new) == (0, 0)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (Change(without_members=("nobody",)), "no member nobody"),
        (Change(without_racks=("az9",)), "in rack az9"),
        (Change(without_members=("m0", "m1")), "Nobody would be left"),
        (Change(topics={"other": 3}), "topic other"),
        (Change(topics={"orders": 3}), "Kafka removes none"),
    ],
)
def test_what_cannot_be_is_a_sentence(change: Change, sentence: str) -> None:
    with pytest.raises(WhatIfError, match=sentence):
        changed(orders_group("az1", "az2"), ORDERS_AND_USERS, change)


def unreadable(*readable: str) -> RawGroup:
    """Members that can be read, after one that cannot and Bellwether's own."""
    blobs = [(name, ConsumerProtocolSubscription(version=1, topics=("t",)).encode()) for name in readable]
    members = [("odd", b"\0"), ("us", blobs[0][1] if blobs else b""), *blobs]
    return RawGroup("g", 1, "cooperative-sticky", tuple(RawMember(n, None, b) for n, b in members), frozenset({"us"}))


def test_a_member_that_cannot_be_read_is_neither_a_model_nor_in_a_rack() -> None:
    cluster = cluster_of({"t": 6})
    raw, _ = changed(unreadable("m"), cluster, Change(new_members=("az1",)))
    assert [member.member_id for member in raw.members] == ["odd", "us", "m", "new-1"]
    raw, _ = changed(raw, cluster, Change(without_racks=("az1",)))
    assert [member.member_id for member in raw.members] == ["odd", "us", "m"]
    last = rebalances(raw, cluster, Memory.empty(), Policy("kafka"), 0)[-1]
    assert {last.plan.group.members[m].member_id for m in last.plan.owner} == {"m"}


def test_without_anybody_to_read_no_member_can_be_made() -> None:
    with pytest.raises(WhatIfError, match="No member's subscription can be read"):
        changed(unreadable(), cluster_of({"t": 6}), Change(new_members=("az1",)))


def test_rebalances_that_would_not_end_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whatif, "REBALANCES_MAX", 1)
    raw = unreadable("m", "n")
    assert len(rebalances(raw, cluster_of({"t": 6}), Memory.empty(), Policy("kafka"), 0)) == 1
