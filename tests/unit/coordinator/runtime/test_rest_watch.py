"""Led groups at rest are described together, and one whose members have changed is rebalanced, once."""

import asyncio
from dataclasses import replace

from bellwether_kafka.coordinator.kafka.wire import TransportError
from bellwether_kafka.coordinator.membership import (
    DescribeAnswer,
    DescribedMember,
    Event,
    Failure,
    JoinedMember,
    MembershipView,
    RebalanceWanted,
    WorkSuspected,
)
from bellwether_kafka.coordinator.runtime.rest_watch import RestWatch
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription
from tests.kit.membership import ME, Play
from tests.kit.runtime import DescribingBrokers

INTERVAL_S = 5.0


def message(*topics: str, generation: int = -1) -> bytes:
    return ConsumerProtocolSubscription(3, topics, None, (), generation, None).encode()


class Group:
    def __init__(self, instance_id: str | None = "a") -> None:
        members = JoinedMember(ME, None, message()), JoinedMember("a-1", instance_id, message("t"))
        play = Play().joining().joined(*members, protocol="range").planned().synced()
        self.membership: MembershipView = play.machine.view
        self.uses_racks = True
        self.posted: list[Event] = []

    def post(self, event: Event) -> None:
        self.posted.append(event)


def shows(*topics: str, generation: int = -1) -> DescribeAnswer:
    members = DescribedMember(ME, None, message()), DescribedMember("a-2", "a", message(*topics, generation=generation))
    return DescribeAnswer(0, 0, "Stable", "consumer", "range", members)


class Watched:
    def __init__(self, answer: DescribeAnswer | Exception, **groups: Group) -> None:
        self.now, self.groups = 0.0, groups
        self.brokers = DescribingBrokers(answer)
        self.seen: list[str] = []
        on_shown = [lambda group, _: self.seen.append(group)]
        self.watch = RestWatch(groups, self.brokers, on_shown, clock=lambda: self.now)

    @property
    def wanted(self) -> list[tuple[str, str]]:
        posted = [(name, event) for name, group in self.groups.items() for event in group.posted]
        return [(name, event.reason) for name, event in posted if isinstance(event, RebalanceWanted)]

    def turns(self, number: int) -> None:
        for _ in range(number):
            asyncio.run(self.watch.turn())
            self.now += 1.0


def test_a_static_member_with_another_topic_is_noticed_within_seconds_and_once() -> None:
    watched = Watched(shows("t", "u"), orders=Group())
    watched.turns(60)
    assert watched.wanted == [("orders", "static member a has returned and subscribes to u, too")]
    assert 10 <= len(watched.brokers.asked) <= 12, "requests a minute"
    assert watched.seen[0] == "orders"
    watched.brokers.answers = [shows("t", "v")]
    watched.turns(6)
    assert len(watched.wanted) == 2


def test_the_same_change_is_noticed_again_after_the_member_has_been_as_planned() -> None:
    """In between the member was gone for long enough, or an order kept the rebalance off."""
    watched = Watched(shows("t", "u"), orders=Group())
    watched.turns(6)
    watched.brokers.answers = [shows("t")]
    watched.turns(6)
    watched.brokers.answers = [shows("t", "u")]
    watched.turns(6)
    assert len(watched.wanted) == 2


def test_racks_that_the_policy_ignores_are_no_change() -> None:
    for uses_racks in (True, False):
        group = Group()
        group.uses_racks = uses_racks
        metadata = ConsumerProtocolSubscription(3, ("t",), None, (), -1, "az2").encode()
        members = DescribedMember(ME, None, message()), DescribedMember("a-2", "a", metadata)
        Watched(DescribeAnswer(0, 0, "Stable", "consumer", "range", members), orders=group).turns(6)
        assert bool(group.posted) == uses_racks


def test_two_processes_under_one_instance_id_are_named_with_their_hosts_once() -> None:
    group = Group()
    watched = Watched(shows("t"), orders=group)
    for turn in range(12):
        topics, host = (("t",), "/10.0.0.1") if turn % 2 else (("t", "u"), "/10.0.0.2")
        own, other = shows(*topics).members
        other = replace(other, member_id=f"a-{turn}", client_id="checkout", client_host=host)
        watched.brokers.answers = [replace(shows(), members=(own, other))]
        watched.turns(6)
    (duel,) = [event.reason for event in group.posted if isinstance(event, WorkSuspected)]
    for words in ("'a'", "/10.0.0.1", "/10.0.0.2", "checkout", "subscribes to t, u"):
        assert words in duel
    assert {event.subject for event in group.posted if isinstance(event, RebalanceWanted)} == {"member a"}


def test_a_pod_that_is_made_anew_again_and_again_is_no_duel() -> None:
    group = Group()
    watched = Watched(shows("t"), orders=group)
    for turn in range(12):
        own, other = shows("t").members
        other = replace(other, member_id=f"a-{turn}", client_host=f"/10.0.0.{turn}")
        watched.brokers.answers = [replace(shows(), members=(own, other))]
        watched.turns(6)
    assert group.posted == []


def test_ten_ordinary_restarts_cause_no_rebalance() -> None:
    watched = Watched(shows("t"), orders=Group())
    for generation in range(10):
        watched.brokers.answers = [shows("t", generation=generation)]
        watched.turns(6)
    assert watched.wanted == []


def test_groups_of_dynamic_members_are_not_asked_about() -> None:
    watched = Watched(shows("t", "u"), orders=Group(None))
    watched.turns(20)
    assert watched.brokers.asked == []


def test_an_error_or_silence_is_no_change() -> None:
    rebalancing = replace(shows("t", "u"), state="PreparingRebalance")
    for answer in (DescribeAnswer(0, 16), rebalancing, TransportError(Failure.TIMED_OUT, "silence")):
        watched = Watched(answer, orders=Group())
        watched.turns(2 * int(INTERVAL_S))
        assert watched.wanted == []
        assert watched.brokers.asked
