"""Stories of a membership that goes well: watching, joining, deciding, syncing, coalescing, lingering, stopping."""

import pytest

from coordinator.commands import (
    Decide,
    Delivered,
    Describe,
    FindCoordinator,
    Heartbeat,
    Join,
    Leave,
    NoteKind,
    RebuildMemory,
    Sync,
)
from coordinator.events import (
    ComparisonReady,
    DecisionFailed,
    DecisionReady,
    DescribedMember,
    RebalanceWanted,
    StopRequested,
    Wake,
)
from coordinator.group import EMPTY_ASSIGNMENT, State
from coordinator.group_config import STOCK_PROTOCOLS
from protocol.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from protocol.types import TopicPartition
from tests.unit.coordinator.playbook import ME, Play, member, seen

UNKNOWN_MEMBER_ID = 25
ILLEGAL_GENERATION = 22
REBALANCE_IN_PROGRESS = 27
UUID = "6f0bb3f0-0c6c-4c49-9f0b-1f1c3a1d2e3f"


def subscription(join: Join) -> ConsumerProtocolSubscription:
    return ConsumerProtocolSubscription.decode(join.protocols[0][1])


# ---- joining an empty group ------------------------------------------------------------------------------------------


def test_it_finds_describes_and_joins_an_empty_group() -> None:
    play = Play(instance_id="bw", topics=("control",))
    assert play.kinds() == ["FindCoordinator"]
    assert play.found().kinds() == ["Describe"]
    join = play.described("Empty").sent(Join)
    assert (join.member_id, join.instance_id) == ("", "bw")
    assert [name for name, _ in join.protocols] == list(STOCK_PROTOCOLS)
    assert subscription(join) == ConsumerProtocolSubscription(0, ("control",), b"")
    assert play.state is State.JOINING


@pytest.mark.parametrize(("state", "error"), [("Empty", 0), ("Dead", 0), ("", 69)])
def test_a_group_that_does_not_exist_is_empty(state: str, error: int) -> None:
    assert Play().found().described(state, error=error).kinds() == ["Join"]


def test_it_repeats_the_join_with_the_id_that_it_is_given() -> None:
    play = Play().joining().refused(79, member_id=ME)
    assert play.sent(Join).member_id == ME


def test_alone_it_syncs_nothing_for_itself_and_asks_for_no_plan() -> None:
    play = Play().joining().joined(member(ME))
    assert play.kinds() == ["Sync"]
    assert play.sent(Sync).assignments == ((ME, EMPTY_ASSIGNMENT),)
    assert ConsumerProtocolAssignment.decode(EMPTY_ASSIGNMENT) == ConsumerProtocolAssignment()
    assert play.synced().state is State.STABLE


def test_it_decides_for_others_and_syncs_their_plan() -> None:
    play = Play().deciding(7, "a", "b")
    decide = play.sent(Decide)
    assert (decide.generation, decide.protocol, decide.dry, decide.own_member_id) == (7, "range", False, ME)
    assert [m.member_id for m in decide.members] == [ME, "a", "b"]
    assert decide.deadline == pytest.approx(play.now + 3)
    sync = play.planned(7).sent(Sync)
    assert (sync.generation, sync.member_id, sync.protocol) == (7, ME, "range")
    assert dict(sync.assignments)["a"] == b"plan of a"
    assert play.synced().kinds() == ["Delivered"]
    assert play.sent(Delivered).generation == 7


def test_it_heartbeats_while_it_decides_and_in_stable() -> None:
    play = Play().deciding()
    assert play.wake().kinds() == ["Heartbeat"]
    assert play.heartbeat().kinds() == []
    play.planned().synced()
    assert play.wake().kinds() == ["Heartbeat"]
    # One at a time: no second one while the first is under way.
    assert play.wake().kinds() == []


# ---- watching --------------------------------------------------------------------------------------------------------


def test_it_watches_a_group_that_a_member_leads_and_joins_when_it_is_empty() -> None:
    play = Play().found().described("Stable", seen("a"), protocol="range")
    assert (play.kinds(), play.state) == ([], State.WATCHING)
    assert play.wake().kinds() == ["Describe"]
    assert play.described("PreparingRebalance", seen("a"), seen("b")).kinds() == []
    assert play.wake().kinds() == ["Describe"]
    assert play.described("Empty").kinds() == ["Join"]


def test_it_joins_where_its_instance_is_a_member_already() -> None:
    play = Play(instance_id="bw").found().described("Stable", seen("a"), seen("bw-0", "bw"), protocol="range")
    assert play.kinds() == ["Join"]


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ({"protocol_type": "connect"}, "is of type 'connect', not 'consumer'"),
        ({"protocol": "odd"}, "uses the protocol 'odd', which is not among ours"),
        ({"protocol": "stream"}, 'is a Kafka Streams application; set kind = "streams"'),
        ({"protocol": "bellwether-stateful"}, 'is made of stateful members; set kind = "stateful"'),
        ({"error": 69, "message": "Group orders is not a classic group."}, "is not a classic consumer group"),
    ],
)
def test_a_group_that_it_cannot_lead_is_left_alone_with_a_sentence(answer: dict[str, object], sentence: str) -> None:
    play = Play().found().described("Stable", seen("a"), **answer)
    assert play.kinds() == ["Fatal", "Stopped"]
    (fatal, _) = play.last
    assert sentence in fatal.message
    assert fatal.message.startswith("Group 'orders'")
    assert fatal.exit_code == 2


def test_an_instance_id_that_belongs_to_the_application_is_refused() -> None:
    """Joining under it would throw the member out. An earlier process of ours has the id too, but never has work."""
    work = ConsumerProtocolAssignment(version=1, partitions=(TopicPartition("t", 0),)).encode()
    member = DescribedMember("pay-1-x", "pay-1", b"", work)
    play = Play(instance_id="pay-1").found().described("Stable", seen("a"), member, protocol="range")
    assert play.kinds() == ["Fatal", "Stopped"]
    assert "belongs to the application's member pay-1-x; set another instance_id" in play.last[0].message
    for own in (EMPTY_ASSIGNMENT, b"", b"\x00"):
        ours = DescribedMember("pay-1-x", "pay-1", b"", own)
        returning = Play(instance_id="pay-1").found().described("Stable", seen("a"), ours, protocol="range")
        assert returning.kinds() == ["Join"]


# ---- somebody else leads ---------------------------------------------------------------------------------------------


def test_it_leaves_at_once_where_another_member_leads_and_waits_longer_each_time() -> None:
    play = Play(readopt_ms=5_000)
    waits = []
    play.found()
    for _ in range(3):
        play.described("Empty").joined(leader="a")
        leave = play.sent(Leave)
        assert (leave.member_id, play.state) == (ME, State.LEAVING)
        left_at = play.now
        assert play.left().state is State.WATCHING
        while play.wake().sent(Describe) and play.described("Empty").kinds() != ["Join"]:
            pass
        waits.append(play.now - left_at)
    assert waits[0] < waits[1] < waits[2]


def test_a_converted_group_is_left_with_an_alert() -> None:
    play = Play().joining().joined(leader="")
    assert play.kinds() == ["Leave"]
    assert (
        NoteKind.ALERT,
        "the group has been converted to the KIP-848 protocol: its broker assigns now",
    ) in play.notes()


# ---- static return ---------------------------------------------------------------------------------------------------


def returned(**more: object) -> Play:
    play = Play(instance_id="bw").found().described("Stable", seen("bw-0", "bw"), seen("a"), protocol="range")
    return play.joined(member(ME, "bw"), member("a"), generation=4, skip_assignment=True, **more)


def test_a_returned_leader_rebuilds_its_memory_syncs_nothing_and_compares() -> None:
    play = returned()
    assert play.kinds() == ["RebuildMemory", "Sync"]
    assert play.sent(RebuildMemory).generation == 4
    assert play.sent(Sync).assignments == ()
    play.synced()
    assert play.kinds() == ["Decide"], "nothing of ours was delivered"
    assert play.sent(Decide).dry


@pytest.mark.parametrize(("worth", "expected"), [(True, ["Join"]), (False, [])])
def test_it_rebalances_after_a_return_only_if_a_move_is_worth_it(worth: bool, expected: list[str]) -> None:
    play = returned().synced().tell(ComparisonReady(4, worth, topics=("t",)))
    assert play.kinds() == expected


def test_a_comparison_of_an_old_generation_counts_for_nothing() -> None:
    assert returned().synced().tell(ComparisonReady(3, worth_moving=True)).kinds() == []


def test_a_leader_that_returns_to_nobody_compares_nothing() -> None:
    play = Play(instance_id="bw").found().described("Stable", seen("bw-0", "bw"), protocol="range")
    play.joined(member(ME, "bw"), skip_assignment=True)
    assert play.kinds() == ["Sync"]
    assert play.synced().kinds() == []


def test_an_old_broker_names_the_former_id_and_one_more_round_makes_it_the_leader() -> None:
    play = Play(instance_id="bw").found().described("Stable", seen(f"bw-{UUID}", "bw"), protocol="range")
    play.joined(leader=f"bw-{UUID}")
    assert play.kinds() == ["Sync"]
    assert play.sent(Sync).assignments == ()
    assert "Join" in play.synced().kinds()
    assert play.joined(member(ME), member("a"), generation=2).kinds() == ["Decide"]


def test_a_leader_whose_id_only_looks_like_ours_is_a_stranger() -> None:
    play = Play(instance_id="bw").joining().joined(leader="bw-other-" + UUID)
    assert play.kinds() == ["Leave"]


# ---- deadlines and doubts --------------------------------------------------------------------------------------------


def test_no_plan_in_time_means_leaving() -> None:
    play = Play().deciding()
    out = play.run(3.0)
    assert [type(command).__name__ for command in out if isinstance(command, Leave)] == ["Leave"]
    assert (NoteKind.REFUSED, "no plan before the decision deadline") in play.notes()
    assert play.planned().kinds() == [], "too late"


def test_a_refused_plan_means_leaving_with_its_reason() -> None:
    play = Play().deciding().tell(DecisionFailed(1, "the guard said no"))
    assert play.kinds() == ["Leave"]
    assert (NoteKind.REFUSED, "the guard said no") in play.notes()


def test_a_plan_or_refusal_for_an_old_generation_counts_for_nothing() -> None:
    play = Play().deciding(5)
    assert play.planned(4).kinds() == []
    assert play.tell(DecisionFailed(4, "old")).kinds() == []
    assert play.state is State.DECIDING


def test_a_plan_that_comes_after_the_session_is_not_sent() -> None:
    play = Play().deciding().later(10.1)
    assert play.planned().kinds() == ["Join"], "no Sync"


def test_waking_after_the_session_it_comes_back_before_it_plans() -> None:
    play = Play().deciding().later(11)
    assert play.tell(Wake()).sent(Join).member_id == ME
    assert play.state is State.JOINING


def test_waking_after_the_session_in_stable_it_asks_before_it_disturbs_anybody() -> None:
    play = Play().stable().later(11)
    assert play.tell(Wake()).kinds() == ["Heartbeat"]
    assert play.heartbeat().state is State.STABLE
    assert play.later(11).wake().heartbeat(UNKNOWN_MEMBER_ID).state is State.WATCHING


@pytest.mark.parametrize("error", [REBALANCE_IN_PROGRESS, ILLEGAL_GENERATION])
def test_a_heartbeat_of_the_last_generation_says_nothing_about_this_one(error: int) -> None:
    """Seen on a busy machine: answered late, on its own connection, it made us start another round while deciding."""
    play = Play().stable().wake().heartbeat(REBALANCE_IN_PROGRESS)
    assert play.wake().kinds() == ["Heartbeat"]
    play.joined(member(ME), member("a"), generation=2)
    assert play.heartbeat(error).kinds() == []
    assert play.state is State.DECIDING


def test_a_short_pause_is_none() -> None:
    play = Play().stable().later(9)
    assert "Join" not in play.tell(Wake()).kinds()


# ---- rebalances ------------------------------------------------------------------------------------------------------


def test_in_a_running_group_it_comes_back_at_once() -> None:
    play = Play().stable().wake().heartbeat(REBALANCE_IN_PROGRESS)
    join = play.sent(Join)
    assert join.member_id == ME
    assert play.joined(member(ME), member("a"), member("b"), generation=2).kinds() == ["Decide"]


def test_in_a_running_group_it_can_wait_a_moment() -> None:
    play = Play(coalesce_running_ms=200).stable().wake().heartbeat(REBALANCE_IN_PROGRESS)
    assert (play.kinds(), play.state) == ([], State.COALESCING)
    began = play.now
    assert play.wake().kinds() == ["Join"]
    assert play.now == pytest.approx(began + 0.2)


def test_a_rebalance_while_it_decides_voids_the_plan() -> None:
    play = Play().deciding().wake().heartbeat(REBALANCE_IN_PROGRESS)
    assert play.kinds() == ["Join"]
    assert play.planned(1).kinds() == []
    assert "Leave" not in [type(command).__name__ for command in play.run(5)], "no deadline is left over"


def test_a_rebalance_while_it_syncs_is_told_by_the_sync() -> None:
    play = Play().deciding().wake().planned().heartbeat(REBALANCE_IN_PROGRESS)
    assert play.kinds() == []
    assert play.synced(REBALANCE_IN_PROGRESS).kinds() == ["Join"]


def test_heartbeats_go_on_while_the_join_is_parked() -> None:
    play = Play().stable().wake().heartbeat(REBALANCE_IN_PROGRESS)
    assert play.wake().kinds() == ["Heartbeat"]
    assert play.heartbeat(REBALANCE_IN_PROGRESS).kinds() == []
    assert play.wake().kinds() == ["Heartbeat"]


def test_wishes_are_granted_in_stable_and_rarely() -> None:
    play = Play(rebalance_interval_ms_min=10_000).stable()
    assert play.tell(RebalanceWanted("a topic grew")).sent(Join).reason == "a topic grew"
    play.joined(member(ME), member("a"), generation=2).planned(2).synced()
    assert play.tell(RebalanceWanted("another grew")).kinds() == [], "too soon"
    out = play.run(10.1)
    assert [command.reason for command in out if isinstance(command, Join)] == ["another grew"]


def test_a_wish_while_a_plan_is_on_its_way_waits_for_stable() -> None:
    play = Play().deciding().tell(RebalanceWanted("a topic grew"))
    assert play.kinds() == []
    play.planned()
    assert "Join" in play.synced().kinds()


def test_a_wish_before_the_plan_is_served_by_it() -> None:
    play = Play().stable().wake().heartbeat(REBALANCE_IN_PROGRESS).tell(RebalanceWanted("a topic grew"))
    play.joined(member(ME), member("a"), generation=2).planned(2).synced()
    assert play.kinds() == ["Delivered"]


def test_a_wish_while_watching_or_alone_is_nobodys() -> None:
    assert Play().found().tell(RebalanceWanted("x")).kinds() == []
    assert Play().stable_alone().tell(RebalanceWanted("x")).kinds() == []


def test_rounds_that_others_start_do_not_put_off_what_we_want() -> None:
    """A member joins, then the warm-ups made for it have caught up: nothing was repeated, so nothing has to wait."""
    play = Play(rebalance_interval_ms_min=10_000).stable().wake().heartbeat(REBALANCE_IN_PROGRESS)
    play.joined(member(ME), member("a"), member("b"), generation=2).planned(2).synced()
    assert play.tell(RebalanceWanted("probe")).kinds() == ["Join"]
    play.joined(member(ME), member("a"), member("b"), generation=3).planned(3).synced()
    assert play.tell(RebalanceWanted("probe")).kinds() == []


def test_withheld_partitions_force_a_second_round_later_each_time() -> None:
    play = Play(followup_ms=3_000, followup_ms_max=10_000).deciding()
    waits = []
    for generation in range(1, 5):
        play.planned(generation, withheld=True).synced()
        began = play.now
        while not [command for command in play.wake().last if isinstance(command, Join)]:
            play.heartbeat()
        waits.append(play.now - began)
        play.joined(member(ME), member("a"), generation=generation + 1)
        play.heartbeat()
    assert waits == pytest.approx([3, 6, 10, 10])
    play.planned(5).synced()
    assert [command for command in play.run(60) if isinstance(command, Join)] == []


def test_the_second_round_is_not_noticed_a_heartbeat_late() -> None:
    """Members rejoin as soon as they have let go; what is withheld has no owner until the leader has come too."""
    play = Play(heartbeat_interval_ms=1_000, followup_ms=3_000).deciding().planned(withheld=True).synced()
    began = play.now
    while not [command for command in play.last if isinstance(command, Join)]:
        play.heartbeat(REBALANCE_IN_PROGRESS if play.now - began >= 0.2 else 0)
        if not [command for command in play.last if isinstance(command, Join)]:
            play.wake()
    assert play.now - began < 0.4


def test_a_second_round_that_does_not_come_is_waited_for_at_the_usual_pace() -> None:
    play = Play(heartbeat_interval_ms=1_000).deciding().planned(withheld=True).synced()
    quick = [command for command in [*play.last, *play.heartbeat().run(2.9)] if isinstance(command, Heartbeat)]
    assert len(quick) > 20
    play.wake().joined(member(ME), member("a"), generation=2).planned(2, withheld=True).synced()
    slow = [command for command in play.run(2.9) if isinstance(command, Heartbeat)]
    assert len(slow) <= 4


def test_a_generation_that_starts_by_itself_replaces_the_second_round() -> None:
    play = Play().deciding().planned(withheld=True).synced().wake().heartbeat(REBALANCE_IN_PROGRESS)
    play.joined(member(ME), member("a"), generation=2).planned(2).synced()
    assert [command for command in play.run(60) if isinstance(command, Join)] == []


# ---- alone -----------------------------------------------------------------------------------------------------------


def cold_start(growth: list[int | None]) -> float:
    """How long a lone leader holds a round open while members arrive."""
    play = Play(coalesce_ms=1_000, coalesce_ms_max=4_000, linger_ms=None).stable_alone()
    play.wake().heartbeat(REBALANCE_IN_PROGRESS)
    assert play.state is State.COALESCING
    return play.until_join(growth)


def test_a_cold_start_is_held_open_until_nobody_comes_any_more() -> None:
    assert cold_start([2]) == pytest.approx(1.0)
    assert cold_start([2, 10, 50, 50]) == pytest.approx(1.5)


def test_a_cold_start_is_never_held_open_longer_than_its_bound() -> None:
    assert cold_start(list(range(2, 200))) == pytest.approx(4.0)


def test_without_coalescing_it_comes_back_at_once() -> None:
    play = Play(coalesce_ms=0).stable_alone().wake().heartbeat(REBALANCE_IN_PROGRESS)
    assert play.kinds() == ["Join"]


def test_where_nobody_can_be_counted_it_comes_back() -> None:
    play = Play().stable_alone().wake().heartbeat(REBALANCE_IN_PROGRESS)
    assert play.described(error=-1).kinds() == ["Join"]


def test_where_groups_cannot_be_described_it_holds_on_for_the_quiet_time() -> None:
    assert cold_start([None]) == pytest.approx(1.0)


def test_alone_for_too_long_it_leaves_and_waits_until_somebody_has_been_there() -> None:
    play = Play(linger_ms=60_000).stable_alone()
    out = play.run(60.1)
    assert len([command for command in out if isinstance(command, Leave)]) == 1
    play.left()
    for state, members, expected in [
        ("Empty", [], []),
        ("Stable", [seen("a")], []),
        ("Empty", [], ["Join"]),
    ]:
        play.wake()
        assert play.described(state, *members).kinds() == expected


def test_it_stays_for_ever_where_lingering_is_off() -> None:
    play = Play(linger_ms=None).stable_alone()
    assert not [command for command in play.run(7_200) if isinstance(command, Leave)]


def test_company_ends_the_lingering() -> None:
    play = Play(linger_ms=60_000, coalesce_ms=0).stable_alone().wake().heartbeat(REBALANCE_IN_PROGRESS)
    play.joined(member(ME), member("a"), generation=2).planned(2).synced()
    assert not [command for command in play.run(300) if isinstance(command, Leave)]


def test_left_alone_it_lists_the_applications_topics_and_stops_when_somebody_comes() -> None:
    play = Play(topics=("control",), coalesce_ms=0).deciding().planned(topics=("orders", "clicks")).synced()
    assert subscription(play.wake().heartbeat(REBALANCE_IN_PROGRESS).sent(Join)).topics == ("control",)
    play.joined(member(ME), generation=2).synced()
    assert subscription(play.sent(Join)).topics == ("clicks", "orders")
    play.joined(member(ME), generation=3)
    assert play.synced().kinds() == ["Delivered"], "once is enough"
    assert subscription(play.wake().heartbeat(REBALANCE_IN_PROGRESS).sent(Join)).topics == ("control",)


# ---- stopping --------------------------------------------------------------------------------------------------------


def test_stopping_while_watching_is_silent() -> None:
    assert Play().found().tell(StopRequested()).kinds() == ["Stopped"]


def test_stopping_in_stable_leaves() -> None:
    play = Play(instance_id="bw").stable().tell(StopRequested())
    assert play.kinds() == ["Leave"]
    assert play.left().kinds() == ["Stopped"]
    assert play.tell(DecisionReady(1, ())).kinds() == [], "nothing happens any more"
    assert play.machine.deadline() is None


def test_a_static_leader_may_stop_silently() -> None:
    assert Play(instance_id="bw", leave_on_stop=False).stable().tell(StopRequested()).kinds() == ["Stopped"]


def test_a_dynamic_leader_never_stops_silently() -> None:
    assert Play(leave_on_stop=False).stable().tell(StopRequested()).kinds() == ["Leave"]


def test_stopping_without_a_plan_leaves() -> None:
    assert Play(instance_id="bw", leave_on_stop=False).deciding().tell(StopRequested()).kinds() == ["Leave"]


def test_stopping_while_the_sync_is_under_way_waits_for_it() -> None:
    play = Play().deciding().planned().tell(StopRequested())
    assert play.kinds() == []
    assert play.synced().kinds() == ["Delivered", "Leave"]


def test_stopping_while_the_sync_fails_leaves() -> None:
    assert Play().deciding().planned().tell(StopRequested()).synced(REBALANCE_IN_PROGRESS).kinds() == ["Leave"]


def test_stopping_while_a_round_is_held_open_leaves() -> None:
    play = Play().stable_alone().wake().heartbeat(REBALANCE_IN_PROGRESS).tell(StopRequested())
    assert play.kinds() == ["Leave"]


def test_stopping_while_the_first_join_is_parked() -> None:
    assert Play().joining().tell(StopRequested()).kinds() == ["Abandon", "Stopped"]
    play = Play(instance_id="bw").joining().tell(StopRequested())
    assert play.kinds() == ["Abandon", "Leave"]
    assert (play.sent(Leave).member_id, play.sent(Leave).instance_id) == ("", "bw")
    taken = Play(instance_id="bw").found().described("Stable", seen("bw-0", "bw"), protocol="range")
    assert taken.tell(StopRequested()).kinds() == ["Abandon", "Stopped"], "that slot may be another process's"


def test_stopping_twice_is_stopping_once() -> None:
    play = Play().stable().tell(StopRequested()).tell(StopRequested())
    assert play.kinds() == []
    assert play.left().kinds() == ["Stopped"]


def test_nothing_is_due_for_ever_in_any_state() -> None:
    """A machine that waits for no answer always has a deadline: it cannot fall asleep."""
    for play in (
        Play().deciding(),
        Play().stable(),
        Play().stable_alone(),
        Play().found().described("Stable", seen("a")),
    ):
        assert play.machine.deadline() is not None
    assert [type(command) for command in Play().last] == [FindCoordinator]
