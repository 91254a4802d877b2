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


def test_two_members() -> None:
    assert decide({"t": 1}, joined("c1", "c2", topics="t")).plan == {"c1": ["t-0"], "c2": []}
    assert decide({"t": 2}, joined("c1", "c2", topics="t")).plan == {"c1": ["t-0"], "c2": ["t-1"]}
    assert decide({"t1": 3, "t2": 3}, joined("c1", "c2", topics="t1 t2")).plan == {
        "c1": ["t1-0", "t1-2", "t2-1"],
        "c2": ["t1-1", "t2-0", "t2-2"],
    }


def test_more_owners_of_the_maximum_than_allowed() -> None:
    members = {"c1": Who("t1 t2", "t1-0 t2-0"), "c2": Who("t1 t2", "t1-1 t2-1"), "c3": Who("t1 t2")}
    outcome = decide({"t1": 2, "t2": 2}, members)
    assert outcome.plan == {"c1": ["t1-0", "t2-0"], "c2": ["t1-1"], "c3": ["t2-1"]}
    assert outcome.waiting == {"t2-1": "c3"}


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


def test_a_deleted_topic_is_forgotten() -> None:
    assert decide({"u": 2}, {"c1": Who("t u", "t-0 t-1 u-0"), "c2": Who("t u", "u-1")}).plan == {
        "c1": ["u-0"],
        "c2": ["u-1"],
    }
    assert decide({}, {"c1": Who("t", "t-0"), "c2": Who("t", "t-1")}).plan == {"c1": [], "c2": []}
