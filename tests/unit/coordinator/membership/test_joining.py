"""Scenarios of a membership on its way to the lead: watching, joining, strangers who lead, and a return."""

import pytest

from bellwether_kafka.coordinator.membership import (
    STOCK_PROTOCOLS,
    ActiveRoleChanged,
    ComparisonReady,
    Decide,
    Describe,
    DescribedMember,
    Join,
    Leave,
    NoteKind,
    NotLeading,
    PlanDelivered,
    RebuildMemory,
    State,
    Sync,
)
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.membership import ME, Play, member, own_assignment, own_subscription, seen

UUID = "6f0bb3f0-0c6c-4c49-9f0b-1f1c3a1d2e3f"


def subscription(join: Join) -> ConsumerProtocolSubscription:
    return ConsumerProtocolSubscription.decode(join.protocols[0][1])


# ---- joining an empty group ------------------------------------------------------------------------------------------


def test_it_finds_describes_and_joins_an_empty_group() -> None:
    play = Play(instance_id="bw", topics=("control",))
    assert play.kinds() == ["FindCoordinator"]
    assert play.coordinator_found().kinds() == ["Describe"]
    join = play.described("Empty").sent(Join)
    assert (join.member_id, join.instance_id) == ("", "bw")
    assert [name for name, _ in join.protocols] == list(STOCK_PROTOCOLS)
    assert subscription(join) == ConsumerProtocolSubscription(0, ("control",), b"")
    assert play.state is State.JOINING


@pytest.mark.parametrize(("state", "error"), [("Empty", 0), ("Dead", 0), ("", 69)])
def test_a_group_that_does_not_exist_is_empty(state: str, error: int) -> None:
    assert Play().coordinator_found().described(state, error=error).kinds() == ["Join"]


def test_it_repeats_the_join_with_the_id_that_it_is_given() -> None:
    play = Play().joining().refused(79, member_id=ME)
    assert play.sent(Join).member_id == ME


def test_alone_it_syncs_nothing_for_itself_and_asks_for_no_plan() -> None:
    play = Play().joining().joined(member(ME))
    assert play.kinds() == ["Sync"]
    assert play.sent(Sync).assignments == ((ME, own_assignment()),)
    assert ConsumerProtocolAssignment.decode(own_assignment()) == ConsumerProtocolAssignment()
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
    assert play.synced().kinds() == ["PlanDelivered"]
    assert play.sent(PlanDelivered).generation == 7


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
    play = Play(adopt="when-empty").coordinator_found().described("Stable", seen("a"), protocol="range")
    assert (play.kinds(), play.state) == ([], State.WATCHING)
    assert play.wake().kinds() == ["Describe"]
    assert play.described("PreparingRebalance", seen("a"), seen("b")).kinds() == []
    assert play.wake().kinds() == ["Describe"]
    assert play.described("Empty").kinds() == ["Join"]


def test_it_joins_where_its_instance_is_a_member_already() -> None:
    play = (
        Play(instance_id="bw").coordinator_found().described("Stable", seen("a"), seen("bw-0", "bw"), protocol="range")
    )
    assert play.kinds() == ["Join"]


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ({"protocol_type": "connect"}, "is of type 'connect', not 'consumer'"),
        ({"protocol": "odd"}, "uses the protocol 'odd', which is not among the configured ones"),
        ({"protocol": "stream"}, 'is a Kafka Streams application; set kind = "streams"'),
        ({"protocol": "bellwether-stateful"}, 'is made of stateful members; set kind = "stateful"'),
    ],
)
def test_a_group_that_it_cannot_lead_is_left_alone_with_a_sentence(answer: dict[str, object], sentence: str) -> None:
    play = Play().coordinator_found().described("Stable", seen("a"), **answer)
    assert play.kinds() == ["Fatal", "MembershipStopped"]
    (fatal, _) = play.last
    assert sentence in fatal.message
    assert fatal.message.startswith("Group 'orders'")
    assert fatal.exit_code == 2


def test_an_instance_id_that_belongs_to_the_application_is_refused() -> None:
    """Joining under it would throw the member out. An earlier process of Bellwether has the id too, but never has
    work."""
    work = ConsumerProtocolAssignment(version=1, partitions=(TopicPartition("t", 0),)).encode()
    member = DescribedMember("pay-1-x", "pay-1", b"", work)
    play = Play(instance_id="pay-1").coordinator_found().described("Stable", seen("a"), member, protocol="range")
    assert play.kinds() == ["Fatal", "MembershipStopped"]
    assert "belongs to the application's member pay-1-x; set another instance_id" in play.last[0].message
    for own in (own_assignment(), b"", b"\x00"):
        by_instance = DescribedMember("pay-1-x", "pay-1", b"", own)
        returning = (
            Play(instance_id="pay-1").coordinator_found().described("Stable", seen("a"), by_instance, protocol="range")
        )
        assert returning.kinds() == ["Join"]


def static(client_id: str, metadata: bytes) -> DescribedMember:
    return DescribedMember("pay-1-x", "pay-1", metadata, own_assignment(), client_id, "/10.0.0.1")


@pytest.mark.parametrize(
    ("member", "refused"),
    [
        (static("payments", ConsumerProtocolSubscription(version=1, topics=("t",)).encode()), True),
        (static("payments", own_subscription("t")), True),  # a client that writes what Bellwether writes
        (static("payments", b""), True),  # in a rebalance nobody's subscription is shown
        (static("payments", b"\x00"), True),
        (static("bellwether", own_subscription("t")), False),  # Bellwether's, when it was alone
        (static("bellwether", b""), False),
        (static("renamed", own_subscription()), False),  # no member of an application lists nothing
    ],
)
def test_a_member_of_the_application_that_has_no_work_keeps_its_instance_id(
    member: DescribedMember, refused: bool
) -> None:
    play = Play(instance_id="pay-1", client_id="bellwether").coordinator_found()
    play.described("Stable", seen("a"), member, protocol="range")
    assert play.kinds() == (["Fatal", "MembershipStopped"] if refused else ["Join"])


def test_instances_of_one_set_may_have_client_ids_of_their_own() -> None:
    play = Play(instance_id="pay-1", client_id="pod-2", standby=True).coordinator_found()
    play.send(ActiveRoleChanged(active=True, reason="it hands over")).described(
        "Stable", seen("a"), static("pod-1", b""), protocol="range"
    )
    assert play.kinds() == ["Join"]


# ---- another member leads --------------------------------------------------------------------------------------------


def test_it_leaves_at_once_where_another_member_leads_and_waits_longer_each_time() -> None:
    play = Play(readopt_ms=5_000)
    waits = []
    play.coordinator_found()
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


def test_a_group_in_which_a_broker_assigns_is_watched_until_a_client_can_lead_it() -> None:
    play = Play(adopt="take-over").coordinator_found()
    for _ in range(3):
        play.described("Dead", error=69, message="Group orders is not a classic group.")
        assert play.kinds() == []
        assert play.machine.view.role.reason is NotLeading.CONVERTED
        assert play.wake().kinds() == ["Describe"]
    assert sum("its broker assigns by itself" in reason for _, reason in play.notes()) == 1
    assert play.described("Empty", protocol_type="consumer").kinds() == ["Join"]


# ---- static return ---------------------------------------------------------------------------------------------------


def returned(**more: object) -> Play:
    play = (
        Play(instance_id="bw").coordinator_found().described("Stable", seen("bw-0", "bw"), seen("a"), protocol="range")
    )
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
    play = returned().synced().send(ComparisonReady(4, worth, topics=("t",)))
    assert play.kinds() == expected


def test_a_comparison_of_an_old_generation_counts_for_nothing() -> None:
    assert returned().synced().send(ComparisonReady(3, worth_moving=True)).kinds() == []


def test_a_leader_that_returns_to_nobody_compares_nothing() -> None:
    play = Play(instance_id="bw").coordinator_found().described("Stable", seen("bw-0", "bw"), protocol="range")
    play.joined(member(ME, "bw"), skip_assignment=True)
    assert play.kinds() == ["Sync"]
    assert play.synced().kinds() == []


def test_an_old_broker_names_the_former_id_and_one_more_rebalance_makes_it_the_leader() -> None:
    play = Play(instance_id="bw").coordinator_found().described("Stable", seen(f"bw-{UUID}", "bw"), protocol="range")
    play.joined(leader=f"bw-{UUID}")
    assert play.kinds() == ["Sync"]
    assert play.sent(Sync).assignments == ()
    assert "Join" in play.synced().kinds()
    assert play.joined(member(ME), member("a"), generation=2).kinds() == ["Decide"]


def test_a_leader_whose_id_only_resembles_bellwethers_is_another_member() -> None:
    play = Play(instance_id="bw").joining().joined(leader="bw-other-" + UUID)
    assert play.kinds() == ["Leave"]
