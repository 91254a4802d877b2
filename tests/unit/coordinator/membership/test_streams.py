"""What is different when the group is a Kafka Streams application: Bellwether's bytes, and stepping aside."""

import pytest

from bellwether_kafka.coordinator.membership import (
    STREAMS_PROTOCOL,
    Decide,
    Join,
    Leave,
    NoteKind,
    RebalanceWanted,
    State,
    StepAsideWanted,
    Sync,
)
from bellwether_kafka.protocol.messages import (
    AssignmentInfo,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    SubscriptionInfo,
)
from tests.kit.membership import ME, Play, member, seen


def play(**settings: object) -> Play:
    return Play(protocols=(STREAMS_PROTOCOL,), **settings)


def test_it_offers_stream_alone_with_bytes_that_a_java_leader_can_read() -> None:
    join = play(topics=("clicks",)).joining().sent(Join)
    ((name, metadata),) = join.protocols
    subscription = ConsumerProtocolSubscription.decode(metadata)
    assert name == "stream"
    assert (subscription.topics, subscription.owned_partitions) == (("clicks",), ())
    assert subscription.user_data == bytes.fromhex("0000000b 0000000b") + bytes(33)
    assert SubscriptionInfo.decode(subscription.user_data or b"") == SubscriptionInfo()


def test_alone_its_own_assignment_has_user_data() -> None:
    scenario = play().joining().joined(member(ME), protocol="stream")
    ((_, blob),) = scenario.sent(Sync).assignments
    assignment = ConsumerProtocolAssignment.decode(blob)
    assert assignment.partitions == ()
    assert AssignmentInfo.decode(assignment.user_data or b"") == AssignmentInfo()


def test_a_group_of_plain_consumers_is_left_alone_with_a_sentence() -> None:
    scenario = play().coordinator_found().described("Stable", seen("a"), protocol="range")
    (fatal, _) = scenario.last
    assert "so it is no Kafka Streams application" in fatal.message


def test_another_leader_is_left_at_once() -> None:
    scenario = play().joining().joined(leader="a", protocol="stream")
    assert scenario.kinds() == ["Leave"]


def leading() -> Play:
    return play().joining().joined(member(ME), member("a"), protocol="stream").planned().synced()


def test_it_steps_aside_from_a_group_at_rest_and_waits_before_it_returns() -> None:
    scenario = leading().send(StepAsideWanted("task 1_0 does not progress"))
    assert scenario.sent(Leave).reason == "task 1_0 does not progress"
    assert (NoteKind.REFUSED, "task 1_0 does not progress") in scenario.notes()
    scenario.left()
    for _ in range(20):
        scenario.wake()
        if scenario.kinds() == ["Describe"]:
            scenario.described("Empty")
        assert not any(isinstance(command, Join) for command in scenario.last), "it came back without a proof"


@pytest.mark.parametrize("wanted", [StepAsideWanted("no use"), RebalanceWanted("probe", "probe")])
def test_wanted_rebalances_while_a_plan_is_made_do_not_disturb_it(wanted: StepAsideWanted | RebalanceWanted) -> None:
    scenario = play().joining().joined(member(ME), member("a"), protocol="stream")
    assert isinstance(scenario.last[-1], Decide)
    assert scenario.send(wanted).kinds() == []
    assert scenario.state is State.DECIDING


def test_without_a_topology_file_an_empty_group_is_left_to_java() -> None:
    scenario = play(adopt_empty=False).coordinator_found().described("Empty")
    assert scenario.state is State.WATCHING
    scenario.wake().described("Stable", seen("a"), protocol="stream")
    assert scenario.wake().described("Empty").kinds() == []
    mine = (
        play(adopt_empty=False, instance_id="bw")
        .coordinator_found()
        .described("Stable", seen("bw-0", "bw"), protocol="stream")
    )
    assert mine.kinds() == ["Join"]
