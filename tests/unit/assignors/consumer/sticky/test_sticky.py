"""Small sticky scenarios of other clients' tests, in Bellwether's words, with exact lists."""

import pytest

from bellwether_kafka.assignors.consumer.sticky import CooperativeStickyAssignor, StickyAssignor
from tests.unit.assignors.consumer.sticky.sticky_scenes import Outcome, Who, decide


def joined(*members: str, topics: str) -> dict[str, Who]:
    return {member: Who(topics) for member in members}


def without(outcome: Outcome, members: dict[str, Who], *gone: str) -> dict[str, Who]:
    return {name: who for name, who in outcome.next_rebalance(members).items() if name not in gone}


def test_names_and_modes_are_kafkas() -> None:
    assert (StickyAssignor.name, StickyAssignor.cooperative) == ("sticky", False)
    assert (CooperativeStickyAssignor.name, CooperativeStickyAssignor.cooperative) == ("cooperative-sticky", True)


@pytest.mark.parametrize(
    ("topics", "subscribed", "expected"),
    [
        ({}, "", []),
        ({"t": 3}, "", []),
        ({"t": 3}, "unknown", []),
        ({"t": 0}, "t", []),
        ({"t": 3}, "t", ["t-0", "t-1", "t-2"]),
        ({"t": 2, "u": 2}, "t", ["t-0", "t-1"]),
        ({"t": 1, "u": 2}, "t u", ["t-0", "u-0", "u-1"]),
    ],
)
def test_one_member_gets_all_of_its_topics(topics: dict[str, int], subscribed: str, expected: list[str]) -> None:
    assert decide(topics, {"c1": Who(subscribed)}).of("c1") == expected


def test_a_group_without_members_owns_nothing() -> None:
    assert decide({"t": 2}, {}).owner.tolist() == [-1, -1]


def test_two_members() -> None:
    assert decide({"t": 1}, joined("c1", "c2", topics="t")).plan == {"c1": ["t-0"], "c2": []}
    assert decide({"t": 2}, joined("c1", "c2", topics="t")).plan == {"c1": ["t-0"], "c2": ["t-1"]}
    assert decide({"t1": 3, "t2": 3}, joined("c1", "c2", topics="t1 t2")).plan == {
        "c1": ["t1-0", "t1-2", "t2-1"],
        "c2": ["t1-1", "t2-0", "t2-2"],
    }


def test_order_of_arrival_does_not_matter() -> None:
    forward = decide({"t": 5}, joined("a", "b", "c", topics="t")).plan
    assert decide({"t": 5}, joined("c", "a", "b", topics="t")).plan == forward


def test_mixed_subscriptions() -> None:
    outcome = decide({"t1": 3, "t2": 2}, {"c1": Who("t1"), "c2": Who("t1 t2"), "c3": Who("t1")})
    assert {"t2-0", "t2-1"} <= set(outcome.of("c2"))
    assert outcome.sizes == [1, 2, 2]


def test_owning_the_minimum_but_expecting_the_maximum() -> None:
    outcome = decide({"t1": 2, "t2": 3}, {"c1": Who("t1 t2", "t1-0 t2-1"), "c2": Who("t1 t2", "t1-1 t2-2")})
    assert outcome.plan == {"c1": ["t1-0", "t2-0", "t2-1"], "c2": ["t1-1", "t2-2"]}
    assert outcome.waiting == {}


def test_more_owners_of_the_maximum_than_allowed() -> None:
    members = {"c1": Who("t1 t2", "t1-0 t2-0"), "c2": Who("t1 t2", "t1-1 t2-1"), "c3": Who("t1 t2")}
    outcome = decide({"t1": 2, "t2": 2}, members)
    assert outcome.plan == {"c1": ["t1-0", "t2-0"], "c2": ["t1-1"], "c3": ["t2-1"]}
    assert outcome.waiting == {"t2-1": "c3"}


def test_all_under_the_minimum() -> None:
    members = {"c1": Who("t1 t2", "t1-0"), "c2": Who("t1 t2", "t1-1"), "c3": Who("t1 t2")}
    outcome = decide({"t1": 2, "t2": 3}, members)
    assert outcome.plan == {"c1": ["t1-0", "t2-1"], "c2": ["t1-1", "t2-2"], "c3": ["t2-0"]}
    assert outcome.waiting == {}


def test_quota_reached() -> None:
    outcome = decide({"t": 4}, {"c1": Who("t", "t-0 t-1"), "c2": Who("t", "t-2"), "c3": Who("t")})
    assert outcome.plan == {"c1": ["t-0", "t-1"], "c2": ["t-2"], "c3": ["t-3"]}
    assert outcome.waiting == {}


def test_a_member_comes_and_another_goes() -> None:
    members = joined("c1", topics="t")
    outcome = decide({"t": 3}, members)
    members = outcome.next_rebalance(members) | {"c2": Who("t")}
    outcome = decide({"t": 3}, members)
    assert outcome.plan == {"c1": ["t-0", "t-1"], "c2": ["t-2"]}
    assert outcome.waiting == {"t-2": "c2"}
    assert decide({"t": 3}, without(outcome, members, "c1")).of("c2") == ["t-0", "t-1", "t-2"]


def test_symmetrical_growth_is_even_in_every_topic() -> None:
    topics = {"t1": 12, "t2": 12}
    members = joined("c1", topics="t1 t2")
    for names in (["c1"], ["c1", "c2"], ["c1", "c2", "c3", "c4"], ["c1", "c2"]):
        members = {name: members.get(name, Who("t1 t2")) for name in names}
        outcome = decide(topics, members)
        for name in names:
            owned = outcome.of(name)
            assert [sum(part.startswith(t) for part in owned) for t in topics] == [12 // len(names)] * 2
        # The next join is as eager members make it: they own all they were planned to have.
        members = {name: Who("t1 t2", " ".join(outcome.of(name))) for name in names}


def test_two_members_four_members_two_members() -> None:
    topics = {"t1": 3, "t2": 4}
    members = joined("c1", "c2", topics="t1 t2")
    outcome = decide(topics, members)
    assert outcome.plan == {"c1": ["t1-0", "t1-2", "t2-1", "t2-3"], "c2": ["t1-1", "t2-0", "t2-2"]}
    members = outcome.next_rebalance(members) | joined("c3", "c4", topics="t1 t2")
    outcome = decide(topics, members)
    assert outcome.plan == {
        "c1": ["t1-0", "t2-1"],
        "c2": ["t1-1", "t2-0"],
        "c3": ["t1-2", "t2-3"],
        "c4": ["t2-2"],
    }
    assert outcome.waiting == {"t1-2": "c3", "t2-3": "c3", "t2-2": "c4"}
    back = decide(topics, without(outcome, members, "c3", "c4"))
    assert back.plan == {"c1": ["t1-0", "t1-2", "t2-1", "t2-3"], "c2": ["t1-1", "t2-0", "t2-2"]}


def test_poor_round_robin_scenario() -> None:
    topics = {"t1": 2, "t2": 1, "t3": 2, "t4": 1, "t5": 2}
    odd, every = "t1 t3 t5", "t1 t2 t3 t4 t5"
    assert decide(topics, {"c1": Who(every), "c2": Who(odd), "c3": Who(odd), "c4": Who(every)}).sizes == [2] * 4


def test_a_topic_is_added_and_another_deleted() -> None:
    members = joined("c1", "c2", topics="t1 t2")
    first = decide({"t1": 3}, members)
    members = first.next_rebalance(members)
    second = decide({"t1": 3, "t2": 3}, members)
    assert second.sizes == [3, 3]
    assert second.kept == 3
    third = decide({"t2": 3}, second.next_rebalance(members))
    assert sorted(third.sizes) == [1, 2]
    assert third.kept == 3


@pytest.mark.parametrize("gone", [2, 10, 19])
def test_pyramid_stays_sticky_when_a_member_leaves(gone: int) -> None:
    topics = {f"t{i:02}": i for i in range(1, 20)}
    members = {f"c{i:02}": Who(" ".join(list(topics)[:i])) for i in range(1, 20)}
    outcome = decide(topics, members)
    left = len(outcome.of(f"c{gone:02}"))
    after = decide(topics, without(outcome, members, f"c{gone:02}"))
    # Only what the leaver had may move, and what makes room for it: here nothing has to.
    assert after.kept == sum(len(w.owned.split()) for w in without(outcome, members, f"c{gone:02}").values())
    assert int((after.owner >= 0).sum()) == 190 - (19 if gone == 19 else 0)
    assert left > 0


def test_nine_then_ten_members_on_twenty_partitions() -> None:
    members = joined(*(f"c{i}" for i in range(9)), topics="t")
    outcome = decide({"t": 20}, members)
    after = decide({"t": 20}, outcome.next_rebalance(members) | {"c9": Who("t")})
    assert after.sizes == [2] * 10
    assert after.kept == 18


def test_a_leaver_moves_nobody_elses_partitions() -> None:
    topics = {f"t{i:02}": i for i in range(1, 15)}
    members = joined(*(f"c{i}" for i in range(8)), topics=" ".join(topics))
    outcome = decide(topics, members)
    after = decide(topics, without(outcome, members, "c4"))
    assert after.waiting == {}
    assert after.sizes == [15] * 7
    assert after.kept == 105 - len(outcome.of("c4"))


def test_existing_partitions_move_along_overlapping_lists() -> None:
    members = {
        "c1": Who("t1 t2", "t1-0"),
        "c2": Who("t1 t2 t3 t4", "t2-0 t3-0"),
        "c3": Who("t2 t3 t4 t5 t6", "t4-0 t5-0 t6-0"),
    }
    outcome = decide({f"t{i}": 1 for i in range(1, 7)}, members)
    assert outcome.sizes == [2, 2, 2]
    assert outcome.kept == 4


def test_the_three_who_remain_keep_theirs() -> None:
    members = joined("c0", "c1", "c2", "c3", topics="t")
    outcome = decide({"t": 3}, members)
    leader = next(name for name, owned in outcome.plan.items() if owned)
    remaining = without(outcome, members, leader)
    after = decide({"t": 3}, remaining)
    assert after.sizes == [1, 1, 1]
    assert all(set(who.owned.split()) <= set(after.of(name)) for name, who in remaining.items())


def test_a_deleted_topic_is_forgotten() -> None:
    assert decide({"u": 2}, {"c1": Who("t u", "t-0 t-1 u-0"), "c2": Who("t u", "u-1")}).plan == {
        "c1": ["u-0"],
        "c2": ["u-1"],
    }
    assert decide({}, {"c1": Who("t", "t-0"), "c2": Who("t", "t-1")}).plan == {"c1": [], "c2": []}


def test_disjoint_subscriptions_do_not_disturb_each_other() -> None:
    members = {"a": Who("t", "t-0 t-1"), "b": Who("t", "t-2"), "c": Who("u", "u-0 u-1 u-2 u-3"), "d": Who("u")}
    outcome = decide({"t": 3, "u": 4}, members)
    assert outcome.plan == {"a": ["t-0", "t-1"], "b": ["t-2"], "c": ["u-0", "u-1"], "d": ["u-2", "u-3"]}
