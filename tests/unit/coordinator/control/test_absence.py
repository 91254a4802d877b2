"""Evacuations that end with one absence: how far it has come by what the group shows, and what ends it."""

from dataclasses import replace

import pytest

from bellwether_kafka.coordinator.control import (
    Absence,
    AbsenceUpdate,
    OrderKind,
    PlacementOrder,
    Stage,
    Until,
    absence_update,
    decode,
    encode,
    left_behind,
    owned,
)
from bellwether_kafka.coordinator.membership import DescribeAnswer, DescribedMember
from bellwether_kafka.protocol.messages import (
    PROTOCOL,
    ConsumerProtocolSubscription,
    StatefulSubscription,
)
from bellwether_kafka.protocol.primitives import ProcessId, TopicPartition
from tests.kit.membership import GROUP, P1, P2, plain, thread
from tests.kit.runtime import OTHER, named, working


def order(where: str, until: Until = Until.BACK) -> PlacementOrder:
    return PlacementOrder(OrderKind.EVACUATE, GROUP, "*", where, "eve", 1_000, 601_000, until=until)


def static(member_id: str, instance_id: str) -> DescribedMember:
    return DescribedMember(member_id, instance_id, client_id="rdkafka", client_host="/10.0.0.1")


def stateful(member_id: str, process: str) -> DescribedMember:
    data = StatefulSubscription(ProcessId.of_bytes(bytes.fromhex(process.replace("-", "")))).encode()
    metadata = ConsumerProtocolSubscription(version=3, topics=("in",), user_data=data).encode()
    return DescribedMember(member_id, None, metadata, client_id="python")


class Scenario:
    """An order and what has been seen since; each refresh is a second after the one before."""

    def __init__(self, given: PlacementOrder, protocol: str = "range") -> None:
        self.order, self.protocol = given, protocol
        self.last = AbsenceUpdate(None)
        self.now_ms = 1_000

    @property
    def stage(self) -> Stage | None:
        return self.last.absence.stage if self.last.absence is not None else None

    def shows(self, *members: DescribedMember, state: str = "Stable") -> AbsenceUpdate:
        self.now_ms += 1_000
        shown = members
        if state != "Stable":
            shown = tuple(replace(member, metadata=b"", assignment=b"") for member in members)
        answer = DescribeAnswer(0, 0, state, "consumer", self.protocol, (*shown, OTHER))
        self.last = absence_update(self.order, self.last.absence, answer, self.now_ms)
        return self.last


def test_a_member_is_evacuated_goes_away_and_the_order_ends_when_it_is_back() -> None:
    scenario = Scenario(order("member:app-1"))
    scenario.shows(working(plain("a")))
    assert scenario.stage is Stage.EMPTYING
    scenario.shows(plain("a"))
    assert scenario.stage is Stage.EMPTY
    scenario.shows(state="PreparingRebalance")
    assert scenario.stage is Stage.EMPTY, "a group that moves shows no absence"
    scenario.shows()
    assert scenario.stage is Stage.AWAY
    assert not scenario.shows(plain("b", "app-3")).ended, "another one has joined"
    assert scenario.shows(plain("a2")).ended == "it is back"


def test_it_is_known_since_when_a_stage_lasts() -> None:
    scenario = Scenario(order("member:app-1"))
    scenario.shows(working(plain("a")))
    scenario.shows(working(plain("a")))
    assert scenario.last.absence is not None
    assert scenario.last.absence.since_ms == 2_000
    scenario.shows(plain("a"))
    assert scenario.last.absence is not None
    assert scenario.last.absence.since_ms == 4_000


def test_one_that_is_back_is_seen_while_the_group_moves_so_that_this_rebalance_is_planned_with_it() -> None:
    scenario = Scenario(order(f"member:{P1}"), "stream")
    scenario.shows(working(thread("a")))
    scenario.shows(thread("a"))
    assert scenario.shows(thread("a"), thread("a2"), state="PreparingRebalance").ended == "it is back"


def test_one_that_was_empty_and_did_not_leave_is_removed_when_it_is_back_under_another_id() -> None:
    """A cooperative consumer of librdkafka that has nothing does not leave when it closes."""
    scenario = Scenario(order("member:app-1"), "cooperative-sticky")
    scenario.shows(working(plain("a")))
    scenario.shows(plain("a"))
    update = scenario.shows(plain("a"), plain("a2"), state="PreparingRebalance")
    assert (update.ended, update.remove) == ("it is back", ("a",))


def test_of_several_members_with_one_name_none_is_removed_when_another_comes() -> None:
    scenario = Scenario(order("member:app-1"), "cooperative-sticky")
    scenario.shows(working(plain("a")), working(plain("b")))
    scenario.shows(plain("a"), plain("b"))
    update = scenario.shows(plain("a"), plain("b"), plain("c"), state="PreparingRebalance")
    assert (update.ended, update.remove) == ("it is back", ())


def test_each_thread_that_was_empty_and_did_not_leave_is_removed_when_its_successor_joins() -> None:
    """With client.id set no ghost is proven otherwise: a restart after a preStop hook waited for the session."""
    scenario = Scenario(order("member:orders-1"), "stream")
    scenario.shows(working(named("a1", 1)), working(named("a2", 2)))
    scenario.shows(named("a1", 1), named("a2", 2))
    old, absence = (named("a1", 1), named("a2", 2)), scenario.last.absence
    assert absence is not None
    update = scenario.shows(*old, named("b2", 2), state="PreparingRebalance")
    assert (update.ended, update.remove) == ("it is back", ("a2",))
    later = DescribeAnswer(0, 0, "PreparingRebalance", "consumer", "stream", (old[0], named("b2", 2), named("b1", 1)))
    assert left_behind(scenario.order, absence, later) == ("a1",)
    assert left_behind(scenario.order, absence, replace(later, state="Stable")) == (), "it came to this generation"


def test_a_thread_that_still_had_work_is_not_removed() -> None:
    scenario = Scenario(order("member:orders-1"), "stream")
    scenario.shows(working(named("a1", 1)), named("a2", 2))
    update = scenario.shows(named("a1", 1), named("a2", 2), named("b2", 2), state="PreparingRebalance")
    assert (update.ended, update.remove) == ("", ())


def test_a_thread_whose_client_id_others_have_too_is_not_removed() -> None:
    scenario = Scenario(order(f"member:{P1}"), "stream")
    same_client = replace(thread("t", P2), client_id="orders-1-StreamThread-1-consumer")
    scenario.shows(working(named("a1", 1)), working(named("a2", 2)), same_client)
    scenario.shows(named("a1", 1), named("a2", 2), same_client)
    update = scenario.shows(named("a1", 1), named("a2", 2), named("b1", 1), named("b2", 2), state="PreparingRebalance")
    assert update.remove == ("a2",)


def test_a_static_member_that_stays_in_the_group_is_back_under_another_id() -> None:
    scenario = Scenario(order("member:orders-1"))
    scenario.shows(working(static("orders-1-x", "orders-1")))
    scenario.shows(static("orders-1-x", "orders-1"))
    assert not scenario.shows(static("orders-1-x", "orders-1")).ended
    assert scenario.shows(static("orders-1-y", "orders-1")).ended == "it is back"


def test_threads_that_have_not_left_are_the_former_ones() -> None:
    """Kafka Streams does not leave its group when it stops."""
    scenario = Scenario(order(f"member:{P1}"), "stream")
    ghosts = (thread("a"), thread("b", number=2))
    scenario.shows(*map(working, ghosts), thread("c", P2))
    scenario.shows(*ghosts, thread("c", P2))
    assert not scenario.shows(*ghosts, thread("c", P2)).ended
    assert scenario.shows(*ghosts, thread("a2"), thread("c", P2)).ended == "it is back"


def test_a_thread_counts_for_all_threads_of_its_process() -> None:
    scenario = Scenario(order("member:a"), "stream")
    scenario.shows(thread("a"), working(thread("b", number=2)))
    assert scenario.stage is Stage.EMPTYING


def test_one_that_was_named_by_its_member_id_is_known_again_by_a_client_id_of_its_own() -> None:
    scenario = Scenario(order("member:a"))
    scenario.shows(working(plain("a")))
    scenario.shows(plain("a"))
    scenario.shows()
    assert scenario.shows(plain("a2")).ended == "it is back"


def test_where_nothing_would_show_it_the_order_ends_when_it_is_gone() -> None:
    scenario = Scenario(order("member:a"))
    scenario.shows(working(plain("a", "app-2")))
    scenario.shows(plain("a", "app-2"))
    assert scenario.shows().ended == "it is gone, and nothing would identify it when it comes back"


def test_one_that_loses_its_session_while_it_is_evacuated_is_evacuated_under_its_new_id() -> None:
    scenario = Scenario(order("member:app-1"))
    scenario.shows(working(plain("a")))
    assert not scenario.shows(working(plain("a2"))).ended
    assert scenario.stage is Stage.EMPTYING
    scenario.shows(plain("a2"))
    assert scenario.stage is Stage.EMPTY
    assert scenario.shows(plain("a3")).ended == "it is back"


def test_one_that_was_killed_before_it_was_empty_is_back_too() -> None:
    scenario = Scenario(order("member:app-1"))
    scenario.shows(working(plain("a")))
    scenario.shows()
    assert scenario.stage is Stage.AWAY
    assert scenario.shows(working(plain("a2"))).ended == "it is back"


def test_one_that_was_evacuated_and_restarted_between_two_refreshes_is_back() -> None:
    scenario = Scenario(order("member:app-1"))
    scenario.shows(working(plain("a")))
    assert scenario.shows(plain("a2")).ended == "it is back"


@pytest.mark.parametrize("where", ["member:app-1", "member:a"])
def test_one_that_restarts_before_the_group_has_rested_is_back(where: str) -> None:
    """A guard sees it empty, and stops it, between two refreshes; else it would be kept empty until the order
    expires."""
    scenario = Scenario(order(where))
    scenario.shows(working(plain("a")), state="PreparingRebalance")
    assert scenario.stage is Stage.EMPTYING
    assert not scenario.shows(plain("a"), state="CompletingRebalance").ended
    assert scenario.shows(plain("a2")).ended == "it is back"


def test_one_that_is_not_seen_while_the_group_moves_is_not_known_to_be_away() -> None:
    scenario = Scenario(order("member:app-1"))
    assert scenario.shows(state="PreparingRebalance") == AbsenceUpdate(None)


def test_one_that_gets_work_again_is_not_empty_any_more() -> None:
    """As when another leader has had the group meanwhile."""
    scenario = Scenario(order("member:app-1"))
    scenario.shows(plain("a"))
    assert scenario.stage is Stage.EMPTY
    scenario.shows(working(plain("a")))
    assert scenario.stage is Stage.EMPTYING


def test_one_that_is_not_there_when_the_order_is_given_is_away() -> None:
    scenario = Scenario(order("member:app-1"))
    scenario.shows()
    assert scenario.stage is Stage.AWAY
    assert scenario.shows(plain("a")).ended == "it is back"


def test_stateful_members_are_known_by_their_process() -> None:
    scenario = Scenario(order(f"member:{P1}"), PROTOCOL)
    scenario.shows(working(stateful("a", P1)), working(stateful("b", P2)))
    scenario.shows(stateful("a", P1), working(stateful("b", P2)))
    assert scenario.stage is Stage.EMPTY
    scenario.shows(working(stateful("b", P2)))
    assert scenario.stage is Stage.AWAY
    assert scenario.shows(stateful("a2", P1), working(stateful("b", P2))).ended == "it is back"


def test_what_shows_nothing_changes_nothing() -> None:
    scenario = Scenario(order("member:app-1"))
    scenario.shows(working(plain("a")))
    before = scenario.last.absence
    broken = replace(plain("a"), assignment=b"\0")
    for answer in (
        DescribeAnswer(0, 15),
        DescribeAnswer(0, 0, "Dead"),
        DescribeAnswer(0, 0, "CompletingRebalance", "consumer", "range", (plain("a"),)),
        DescribeAnswer(0, 0, "Stable", "consumer", "range", (broken,)),
    ):
        assert absence_update(scenario.order, before, answer, 9_000) == AbsenceUpdate(before)


def test_one_that_is_stopped_for_good_is_removed_when_it_is_empty_and_the_order_ends() -> None:
    scenario = Scenario(order("member:orders-1", Until.REMOVED))
    gone = static("orders-1-x", "orders-1")
    assert scenario.shows(working(gone)).remove == ()
    assert scenario.shows(gone).remove == ("orders-1-x",)
    assert scenario.shows(gone).remove == ("orders-1-x",), "until it is gone"
    assert scenario.shows().ended == "it is removed"


def test_one_that_was_reported_to_be_stopped_and_joins_again_is_not_removed_twice() -> None:
    scenario = Scenario(order("member:app-1", Until.REMOVED))
    scenario.shows(plain("a"))
    update = scenario.shows(plain("a2"))
    assert (update.ended, update.remove) == ("it is back", ())


@pytest.mark.parametrize("stage", Stage)
def test_an_absence_is_read_as_it_was_written(stage: Stage) -> None:
    absence = Absence(GROUP, "member:a", 1_000, 601_000, stage, 2_000, ("a",), ("app-1",))
    assert decode(*encode(absence)) == absence


def test_what_members_own_is_seen_at_rest() -> None:
    def answer(*members: DescribedMember, state: str = "Stable") -> DescribeAnswer:
        return DescribeAnswer(0, 0, state, "consumer", "range", members)

    with_work = working(plain("a"))
    assert owned(answer(with_work, plain("b")), ["a", "b"]) == {TopicPartition("in", 0), TopicPartition("in", 1)}
    assert owned(answer(with_work, plain("b")), ["b"]) == frozenset()
    assert owned(answer(with_work, state="PreparingRebalance"), ["a"]) is None
    assert owned(answer(replace(plain("a"), assignment=b"\0")), ["a"]) is None
    assert owned(DescribeAnswer(0, 15), ["a"]) is None
