"""Subscribed topics without an owner in a group at rest: a plan first, then a member's lead."""

from bellwether_kafka.assignors.shared import ClusterView
from bellwether_kafka.coordinator.membership import DescribedMember
from bellwether_kafka.coordinator.triggers.work import OwnerWork
from bellwether_kafka.coordinator.triggers.work.owners import Unserved
from tests.unit.coordinator.triggers.work.members import member

SETTLED_MS = 15_000

CLUSTER = ClusterView.of({"t": [[None]] * 2, "u": [[None]] * 2}, unreadable=frozenset({"secret"}))


class Watched:
    def __init__(self) -> None:
        self.owners, self.now_ms = OwnerWork(), 0

    def plan(self) -> "Watched":
        self.owners.planned(CLUSTER, self.now_ms)
        return self

    def shows(self, *members: DescribedMember, after_ms: int = SETTLED_MS) -> Unserved | None:
        self.now_ms += after_ms
        return self.owners.shown(members, self.now_ms)


def test_a_topic_that_nobody_has_asks_for_a_plan_once_and_is_a_fact_after_it() -> None:
    watched = Watched().plan()
    assert watched.shows(member("t u", "t")) == Unserved(("u",), lasting=False)
    assert watched.shows(member("t u", "t")) is None
    update = watched.plan().shows(member("t u", "t"))
    assert update == Unserved(("u",), lasting=True)
    assert update.reason == "no member has a partition of u, which members subscribe to"
    assert watched.shows(member("t u", "t")) is None, "once for each plan"


def test_a_plan_that_serves_the_topic_ends_it() -> None:
    watched = Watched().plan()
    watched.shows(member("t u", "t"))
    assert watched.plan().shows(member("t u", "t u")) is None
    assert watched.plan().shows(member("t u", "t")) == Unserved(("u",), lasting=False)


def test_another_member_may_have_it() -> None:
    assert Watched().plan().shows(member("t u", "t"), member("u", "u", "b")) is None
    assert Watched().plan().shows(member("t u", "t u"), member("u", "", "b")) is None


def test_a_plan_that_has_not_settled_says_nothing() -> None:
    watched = Watched().plan()
    assert watched.shows(member("t u", "t"), after_ms=SETTLED_MS - 1) is None
    assert watched.shows(member("t u", "t"), after_ms=1) is not None


def test_topics_that_are_not_there_or_cannot_be_read_are_no_facts() -> None:
    for _ in range(3):
        assert Watched().plan().shows(member("t secret nowhere", "t")) is None


def test_a_member_that_cannot_be_read_says_nothing_of_any_topic() -> None:
    odd = DescribedMember("b", "b", b"\x00", b"")
    assert Watched().plan().shows(member("t u", "t"), odd) is None
