"""A guarded process from its start to the end of its memberships, on brokers whose answers are scripted."""

from dataclasses import replace

import pytest

from bellwether_kafka.coordinator.guard import attend
from bellwether_kafka.coordinator.guard.member_removal import until_between_heartbeats_s
from bellwether_kafka.coordinator.kafka.wire import RemoveMembers, RemoveStreamsMember
from bellwether_kafka.coordinator.membership import DescribeAnswer
from tests.kit.membership import GROUP, plain
from tests.unit.coordinator.guard.stage import NAMED, Stage, killed, of_consumer_protocol, stage
from tests.unit.coordinator.guard.world import Process

BETWEEN_FROM_S = 0.5
BETWEEN_TO_S = 0.75


def test_members_of_a_killed_process_are_removed_and_no_others() -> None:
    on = stage(NAMED, plain("a"), plain("b", "app-2"))
    message = on.play(killed)
    assert on.brokers.removed == ["a"]
    assert message[-1].startswith("Removed 1 of its 1 members, ")


def test_members_of_a_group_whose_broker_assigns_are_removed_too() -> None:
    on = stage(NAMED)
    on.brokers.by_broker = of_consumer_protocol("app-1", "app-2")
    message = on.play(killed)
    assert on.brokers.removed == ["m-0"]
    assert message[-1].startswith("Removed 1 of its 1 members, ")


def test_two_members_of_such_a_group_with_one_client_id_are_left_alone() -> None:
    on = stage(NAMED)
    on.brokers.by_broker = of_consumer_protocol("app-1", "app-1")
    message = on.play(killed)
    assert on.brokers.removed == []
    assert any("several members have the client id" in line for line in message)


def test_members_of_an_application_whose_broker_assigns_leave_by_their_own_heartbeat() -> None:
    on = stage(NAMED)
    on.brokers.by_broker = replace(of_consumer_protocol("app-1", "app-2"), protocol="streams")
    on.brokers.codes[RemoveStreamsMember] = [16]
    message = on.play(killed)
    assert on.brokers.removed == ["m-0"]
    assert message[-1].startswith("Removed 1 of its 1 members, ")
    assert not [request for request in on.brokers.asked if isinstance(request, RemoveMembers)]


def test_a_member_that_a_broker_refuses_to_remove_is_named_and_the_others_are_removed() -> None:
    on = stage(replace(NAMED, client_ids=("app-1", "app-2")))
    on.brokers.by_broker = replace(of_consumer_protocol("app-1", "app-2"), protocol="streams")
    on.brokers.codes[RemoveStreamsMember] = [110]
    message = on.play(killed)
    assert on.brokers.removed == ["m-1"]
    assert any("The broker did not remove m-0: error 110." in line for line in message)
    assert any("Removed 1 of its 2 members" in line for line in message)


def test_an_application_that_is_classic_again_is_left_by_leavegroup() -> None:
    async def converted_back(on: Stage) -> None:
        await on.refreshed()
        on.brokers.by_broker = None
        on.brokers.show(plain("a"))
        await on.refreshed(4)
        on.process.end()

    on = stage(NAMED)
    on.brokers.by_broker = replace(of_consumer_protocol("app-1"), protocol="streams")
    on.play(converted_back)
    assert on.brokers.removed == ["a"]
    assert not [request for request in on.brokers.asked if isinstance(request, RemoveStreamsMember)]


def test_a_share_group_is_left_alone() -> None:
    on = stage(NAMED)
    on.brokers.by_broker = replace(of_consumer_protocol("app-1"), protocol="share")  # type: ignore[arg-type]  # neither
    message = on.play(killed)
    assert on.brokers.removed == []
    assert any("a share group has no partitions to free" in line for line in message)


def test_who_joins_after_the_end_is_never_removed() -> None:
    async def restarted(on: Stage) -> None:
        await on.refreshed()
        on.process.end()
        on.brokers.show(plain("a"), plain("successor"), state="PreparingRebalance")

    on = stage(NAMED, plain("a"))
    on.play(restarted)
    assert on.brokers.removed == ["a"]


def test_what_has_left_by_itself_is_no_fault() -> None:
    async def left(on: Stage) -> None:
        await on.refreshed()
        on.brokers.show()
        on.process.end()

    on = stage(NAMED, plain("a"))
    message = on.play(left)
    assert not on.brokers.removed
    assert "did not remove" not in " ".join(message)
    assert message[-1].endswith(" 1 had left the group before.")


def test_a_coordinator_node_that_moves_is_found_again() -> None:
    on = stage(NAMED, plain("a"))
    on.brokers.codes[RemoveMembers] = [16, 15]
    on.play(killed)
    assert on.brokers.removed == ["a"]


def test_missing_rights_are_named() -> None:
    on = stage(NAMED, plain("a"))
    on.brokers.codes[RemoveMembers] = [30]
    message = on.play(killed)
    assert (
        message[-1]
        == f"The broker removed none of its members: Bellwether's principal needs the ACL READ on Group '{GROUP}'."
    )


@pytest.mark.slow
@pytest.mark.usefixtures("soon_over")
def test_brokers_that_are_down_hold_nobody_up_for_long() -> None:
    async def partitioned(on: Stage) -> None:
        await on.refreshed()
        on.brokers.down = True
        on.process.end()

    on = stage(NAMED, plain("a"))
    message = on.play(partitioned)  # which fails after twenty seconds
    assert "they end with their sessions" in message[-1]


def test_what_the_process_has_left_running_keeps_its_members() -> None:
    """A shell that was killed may have left the real application behind."""
    process = Process()
    process.left_behind = True
    on = stage(NAMED, plain("a"), process=process)
    message = on.play(killed)
    assert not on.brokers.removed
    assert message[-1] == "A process of it still runs, so none of its members is removed."


def test_it_waits_for_the_time_between_two_heartbeats_and_no_longer() -> None:
    for hundredths in range(1_000):
        since_s = hundredths / 100
        left_at_s = since_s + until_between_heartbeats_s(since_s)
        assert left_at_s - since_s <= 0.75
        assert BETWEEN_FROM_S - 0.001 <= left_at_s % 1.0 <= BETWEEN_TO_S + 0.001


def test_a_defect_in_a_poll_is_named_and_the_group_is_seen_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody awaited the task: it was gone, and the members that joined later were never known."""
    monkeypatch.setattr(attend, "UNSETTLED_S", 0.01)
    on = stage(NAMED, plain("a"))
    take, defects = on._attendance._own.take, [KeyError("a defect")]

    def failing(answer: DescribeAnswer) -> None:
        if defects:
            raise defects.pop()
        take(answer)

    monkeypatch.setattr(on._attendance._own, "take", failing)

    async def seen_again(on: Stage) -> None:
        await on.refreshed(4)
        on.process.end()

    message = on.play(seen_again)
    assert on.brokers.removed == ["a"]
    assert message[0] == "The guard has failed (KeyError: 'a defect') and tries again."
