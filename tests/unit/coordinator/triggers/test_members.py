"""Members that have changed without a rebalance, and subscribed topics without an owner: a plan first, then a member's
lead."""

from dataclasses import replace
from typing import Any

import pytest

from bellwether_kafka.assignors.consumer import Policy, decide
from bellwether_kafka.assignors.shared import ClusterView, Memory
from bellwether_kafka.coordinator.membership import (
    DescribedMember,
    JoinedMember,
    MembershipView,
    RebalanceWanted,
    ShownGroup,
    State,
    StepAsideWanted,
    WorkSuspected,
)
from bellwether_kafka.coordinator.planning import Planned, Timings, WatchedTopics
from bellwether_kafka.coordinator.triggers import TRIGGERS, Finding, RacksGain, Reading
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.consumers import LiveMember, live_group
from tests.kit.membership import ME, Play
from tests.kit.runtime import picture

SETTLED_S = 15.0
REASON = "no member has a partition of u, which members subscribe to"
CLUSTER = ClusterView.of({"t": [[None]] * 2, "u": [[None]] * 2}, unreadable=frozenset({"secret"}))


class Judged:
    """A group of plain consumers, as one trigger judges it."""

    def __init__(self, trigger: str, member: MembershipView | None = None) -> None:
        self.trigger, self.now, self.state = TRIGGERS[trigger], 0.0, None
        self.member, self.planned = member or Play().stable().machine.view, None
        self.fields: dict[str, Any] = {}

    def judge(self, **fresh: Any) -> list[Finding]:
        seen = picture(self.member, self.now, planned=self.planned, **self.fields, **fresh)
        self.state, findings = self.trigger.judge(seen, self.state)
        return [*findings]

    @property
    def wants(self) -> dict[Reading, float]:
        return dict(self.trigger.wants(picture(self.member, self.now, **self.fields), self.state))

    def shows(self, *members: DescribedMember, after_s: float = SETTLED_S) -> list[Finding]:
        self.now += after_s
        return self.judge(shown=ShownGroup("Stable", "range", members))

    def plan(self) -> "Judged":
        raw = live_group([LiveMember("a", ("t", "u"))], 1, "range")
        decision = decide(raw, CLUSTER, Memory.empty(), Policy(), now_ms=0)
        self.planned = Planned(decision, WatchedTopics(()), Timings(0, 0, 0))
        self.judge()
        return self


def owning(subscribed: str, owned: str = "", member_id: str = "a") -> DescribedMember:
    """`owning("t u", "t")` subscribes to both, and has partition 0 of `t`."""
    metadata = ConsumerProtocolSubscription(3, tuple(subscribed.split()), None, (), -1, None).encode()
    partitions = tuple(TopicPartition(topic, 0) for topic in owned.split())
    return DescribedMember(member_id, member_id, metadata, ConsumerProtocolAssignment(3, partitions).encode())


def test_a_topic_that_nobody_has_asks_for_a_plan_once_and_hands_the_group_back_where_that_does_not_help() -> None:
    judged = Judged("owners")
    assert judged.shows(owning("t u", "t")) == [], "nothing has been planned"
    judged.plan()
    assert judged.shows(owning("t u", "t"), owning("u", "", ME)) == [RebalanceWanted(REASON, "owners")]
    assert judged.shows(owning("t u", "t")) == []
    assert judged.plan().shows(owning("t u", "t")) == [StepAsideWanted(REASON)]
    assert judged.shows(owning("t u", "t")) == [], "once for each plan"


def test_a_plan_that_serves_the_topic_ends_it() -> None:
    judged = Judged("owners").plan()
    judged.shows(owning("t u", "t"))
    assert judged.plan().shows(owning("t u", "t u")) == []
    assert judged.plan().shows(owning("t u", "t")) == [RebalanceWanted(REASON, "owners")]


def test_another_member_may_have_it_and_what_bellwether_itself_lists_needs_no_owner() -> None:
    for members in ((owning("t u", "t"), owning("u", "u", "b")), (owning("t", "t"), owning("u", "", ME))):
        assert Judged("owners").plan().shows(*members) == []


def test_a_plan_that_has_not_settled_says_nothing() -> None:
    judged = Judged("owners").plan()
    assert judged.shows(owning("t u", "t"), after_s=SETTLED_S - 1) == []
    assert judged.shows(owning("t u", "t"), after_s=1) != []


def test_what_cannot_be_read_is_no_fact() -> None:
    odd = DescribedMember("b", "b", b"\x00", b"")
    for members in ((owning("t secret nowhere", "t"),), (owning("t u", "t"), odd)):
        assert Judged("owners").plan().shows(*members) == []


def test_partitions_that_are_handed_over_have_no_owner_for_a_moment() -> None:
    view = Play().deciding().planned(pending=True).synced().machine.view
    assert Judged("owners", view).plan().shows(owning("t u", "t")) == []


def message(*topics: str, generation: int = -1, rack: str | None = None) -> bytes:
    return ConsumerProtocolSubscription(3, topics, None, (), generation, rack).encode()


def resting(instance_id: str | None = "a") -> MembershipView:
    members = JoinedMember(ME, None, message()), JoinedMember("a-1", instance_id, message("t"))
    return Play().joining().joined(*members, protocol="range").planned().synced().machine.view


def back(*topics: str, **fields: Any) -> DescribedMember:
    return DescribedMember("a-2", "a", message(*topics, **fields))


def test_a_static_member_with_another_topic_is_noticed_once() -> None:
    judged = Judged("members", resting())
    (wanted,) = judged.shows(back("t", "u"))
    assert wanted == RebalanceWanted("static member a has returned and subscribes to u, too", "member a")
    assert judged.shows(back("t", "u")) == [], "a plan for it has not helped"
    assert len(judged.shows(back("t", "v"))) == 1
    assert judged.shows(back("t")) == []
    assert len(judged.shows(back("t", "v"))) == 1, "in between it was as planned"


def test_racks_that_the_policy_ignores_are_no_change() -> None:
    for uses_racks in (True, False):
        judged = Judged("members", resting())
        judged.fields["uses_racks"] = uses_racks
        assert bool(judged.shows(back("t", rack="az2"))) == uses_racks


def test_ten_ordinary_restarts_cause_no_rebalance() -> None:
    judged = Judged("members", resting())
    assert [judged.shows(back("t", generation=generation)) for generation in range(10)] == [[]] * 10


@pytest.mark.parametrize(("instance_id", "described"), [("a", True), (None, False)])
def test_only_groups_with_static_members_are_described(instance_id: str | None, described: bool) -> None:
    judged = Judged("members", resting(instance_id))
    judged.judge()
    assert (judged.wants == {Reading.DESCRIPTION: 5.0}) == described


def test_two_processes_under_one_instance_id_are_named_with_their_hosts_once() -> None:
    judged, found = Judged("duels", resting()), list[Finding]()
    for turn in range(12):
        topics, host = (("t",), "/10.0.0.1") if turn % 2 else (("t", "u"), "/10.0.0.2")
        who = replace(back(*topics), member_id=f"a-{turn}", client_id="checkout", client_host=host)
        found += judged.shows(who)
    (duel,) = found
    assert isinstance(duel, WorkSuspected)
    for words in ("'a'", "/10.0.0.1", "/10.0.0.2", "checkout", "subscribes to t, u"):
        assert words in duel.reason


def test_a_pod_that_is_made_anew_again_and_again_is_no_duel() -> None:
    judged = Judged("duels", resting())
    for turn in range(12):
        assert judged.shows(replace(back("t"), member_id=f"a-{turn}", client_host=f"/10.0.0.{turn}")) == []


def test_racks_are_compared_until_they_are_known_and_again_when_they_change() -> None:
    judged = Judged("racks")
    assert judged.wants == {}, "no racks are configured"
    judged.fields = {"racks": (1, 0), "needs_hosts": True}
    judged.judge()
    assert judged.wants == {Reading.RACKS: 1.0}
    assert judged.judge(gain=RacksGain(version=(1, 0), again=True)) == []
    assert judged.wants == {Reading.RACKS: 10.0}
    assert judged.judge(gain=RacksGain(version=(1, 0), reason="better")) == [RebalanceWanted("better", "racks")]
    assert judged.wants == {}
    judged.fields["racks"] = (2, 0)
    assert judged.wants == {Reading.RACKS: 1.0}
    judged.judge(unanswered=Reading.RACKS)
    assert judged.wants == {Reading.RACKS: 10.0}


def test_hosts_are_read_while_members_join() -> None:
    judged = Judged("racks", replace(Play().stable().machine.view, state=State.JOINING))
    judged.fields = {"racks": (1, 0), "needs_hosts": True}
    assert judged.wants == {Reading.HOSTS: 1.0}
    judged.fields["needs_hosts"] = False
    assert judged.wants == {}
