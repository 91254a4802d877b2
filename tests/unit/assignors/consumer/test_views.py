"""From bytes to a view: clean claims, one generation, racks, degraded members, memory of a described group."""

import pytest

from bellwether_kafka.assignors.consumer import recall, topics_wanted
from bellwether_kafka.assignors.consumer.derived import current_owner
from bellwether_kafka.assignors.shared import (
    FOREIGN_RACK,
    NO_RACK,
    NOBODY,
    AssignedMember,
    GroupView,
    MemberView,
    Memory,
    RawMember,
)
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.consumers import (
    claimed_by,
    cluster_of,
    java,
    kafka_go,
    racked,
    raw_group,
    read_group,
    sticky_v1,
    subscription,
)

CLUSTER = cluster_of({"t": 4, "u": 2}, 1, "ab")


def claims_of(group: GroupView, member: int) -> list[str]:
    names = [CLUSTER.name(f) for f in claimed_by(group, member).tolist()]
    return [f"{tp.topic}-{tp.partition}" for tp in names]


def test_topics_wanted_skips_bellwether_and_the_undecodable() -> None:
    raw = raw_group({"us": java(["control"]), "a": java(["u", "t"]), "b": kafka_go(["t", "v"]), "c": b"?"}, own=["us"])
    assert topics_wanted(raw) == ("t", "u", "v")


def test_claims_are_cleaned() -> None:
    owned = [("t", 3), ("t", -1), ("t", 4), ("gone", 0), ("t", 1), ("t", 3)]
    group = read_group(raw_group({"a": java(["t", "gone"], owned, 3), "b": java(["u"])}), CLUSTER, Memory.empty())
    assert claims_of(group, 0) == ["t-1", "t-3"]
    assert claims_of(group, 1) == []
    assert group.members[0].topics == ("t", "gone")


def test_a_claim_outside_the_subscription_is_kept_but_is_no_ownership() -> None:
    """What a member still consumes has to be revoked before another gets it; it is no reason to get it again."""
    group = read_group(
        raw_group({"a": java(["t"], [("t", 0), ("u", 0)], 3), "b": java(["u"])}), CLUSTER, Memory.empty()
    )
    assert claims_of(group, 0) == ["t-0", "u-0"]
    owner = current_owner(group, CLUSTER)
    assert owner[CLUSTER.flat("t", 0)] == 0
    assert owner[CLUSTER.flat("u", 0)] == NOBODY


def test_equal_subscriptions_share_a_row() -> None:
    group = read_group(
        raw_group({"a": java(["t", "u"]), "b": java(["u", "t"]), "c": java(["t", "gone", "u"]), "d": java(["t"])}),
        CLUSTER,
        Memory.empty(),
    )
    assert group.topic_set.tolist()[:3] == [group.topic_set[0]] * 3
    assert [s.tolist() for s in group.topic_sets] == [[0, 1], [0]]


@pytest.mark.parametrize(
    ("protocol", "blob", "generation", "claims"),
    [
        pytest.param("cooperative-sticky", java(["t"], [("t", 0)], 7), 7, ["t-0"], id="Java"),
        pytest.param(
            "cooperative-sticky", subscription(1, ["t"], b"\0\0\0\5", [("t", 0)]), 5, ["t-0"], id="old Java, sarama"
        ),
        pytest.param(
            "cooperative-sticky",
            subscription(1, ["t"], sticky_v1([("t", 2)], 6), [("t", 0)]),
            6,
            ["t-0"],
            id="franz-go: userData and the owned list disagree",
        ),
        pytest.param("range", subscription(3, ["t"], None, [("t", 0)], 5), -1, [], id="owned under range"),
        pytest.param(
            "sticky",
            subscription(3, ["t"], sticky_v1([("t", 2)], 6), [("t", 0)], 9),
            6,
            ["t-2"],
            id="sticky trusts userData",
        ),
        pytest.param("sticky", subscription(0, ["t"], sticky_v1([("t", 2)], 6)[:-4]), -1, ["t-2"], id="V0 userData"),
        pytest.param("sticky", subscription(0, ["t"], b"junk!"), -1, [], id="junk"),
        pytest.param("rack-affinity", kafka_go(["t"], b"az-1"), -1, [], id="a rack is not a generation"),
    ],
)
def test_one_generation_and_the_right_claims(protocol: str, blob: bytes, generation: int, claims: list[str]) -> None:
    group = read_group(raw_group({"a": blob}, protocol=protocol), CLUSTER, Memory.empty())
    assert claims_of(group, 0) == claims
    assert group.claim_generation.tolist() == [generation]


def test_racks_known_foreign_and_absent() -> None:
    blobs = {"a": java(["t"], rack="b"), "b": java(["t"], rack="z"), "c": java(["t"], rack=""), "d": kafka_go(["t"])}
    group = read_group(raw_group(blobs), CLUSTER, Memory.empty())
    assert group.rack.tolist() == [1, FOREIGN_RACK, NO_RACK, NO_RACK]


def test_a_degraded_member_says_why_and_has_its_last_subscription() -> None:
    described = [AssignedMember("b", None, java(["u"], rack="a"), ConsumerProtocolAssignment(1).encode())]
    memory = recall(1, "range", CLUSTER, described)
    group = read_group(raw_group({"a": java(["t"]), "b": b"\0"}, protocol="range"), CLUSTER, memory)
    assert group.members[0].degraded is None
    assert group.members[1].degraded
    assert group.members[1].topics == ("u",)
    assert group.rack.tolist() == [NO_RACK, 0]
    assert group.topic_sets[group.topic_set[1]].tolist() == [1]


def test_memory_comes_back_from_a_described_group() -> None:
    given = ConsumerProtocolAssignment(
        1, (TopicPartition("t", 1), TopicPartition("t", 9), TopicPartition("u", 2), TopicPartition("gone", 0))
    )
    described = [
        AssignedMember("a-1", "a", java(["t"]), given.encode()),
        AssignedMember("b", None, b"?", b""),
        AssignedMember("c", None, java(["u"]), ConsumerProtocolAssignment(1, (TopicPartition("u", 0),), b"e").encode()),
    ]
    memory = recall(12, "sticky", CLUSTER, described)
    assert memory.generation == 12
    assert memory.owner_in(CLUSTER, ["a", "c"]).tolist() == [-1, 0, -1, -1, 1, -1]
    assert memory.echoes == {"c": b"e"}
    assert list(memory.digests) == ["a"]
    assert memory.assigned_sizes() == {"t": 10, "u": 3, "gone": 1}, "members consume it, though it is gone"


def test_the_key_of_a_member_is_its_instance_id_if_it_has_one() -> None:
    assert RawMember("m", "i", b"").key == "i"
    assert RawMember("m", None, b"").key == "m"


def test_members_can_be_sliced() -> None:
    group, _ = racked()
    assert group.members[1:3] == (group.members[1], group.members[2])
    assert isinstance(group.members[1], MemberView)
