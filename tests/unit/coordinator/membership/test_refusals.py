"""What a membership does when the broker refuses it (docs/internals/broker-behaviour.md#error-codes): only what another
setting has to change ends it."""

from itertools import pairwise

import pytest

from bellwether_kafka.coordinator.membership import (
    CoordinatorAnswer,
    Describe,
    DescribeAnswer,
    Fatal,
    FindCoordinator,
    Heartbeat,
    HeartbeatAnswer,
    Join,
    JoinAnswer,
    Leave,
    LeaveAnswer,
    NotLeading,
    State,
    Sync,
    SyncAnswer,
)
from tests.kit.membership import UNNAMED_ERROR, Play, alerts, fatal_of

ENDS = [24, 26]  # only another setting of Bellwether changes it
DENIED, FULL = 30, 81
REFUSED = [23, 29, 30, 31, 35, 81]
ANSWERS = {
    FindCoordinator: CoordinatorAnswer,
    Describe: DescribeAnswer,
    Join: JoinAnswer,
    Sync: SyncAnswer,
    Heartbeat: HeartbeatAnswer,
    Leave: LeaveAnswer,
}


def test_no_permission_to_find_the_group_is_asked_about_again_and_named() -> None:
    play = Play().coordinator_found(error=DENIED)
    for _ in range(100):
        assert play.wake().kinds() == ["FindCoordinator"]
        play.coordinator_found(error=DENIED)
    assert play.machine.view.role.reason is NotLeading.DENIED
    assert "ACL READ on Group 'orders'" in play.machine.view.role.detail
    assert alerts(play) == [play.machine.view.role.detail], "it is said once"
    assert play.wake().coordinator_found().described().kinds() == ["Join"]


@pytest.mark.parametrize("error", ENDS)
def test_what_only_another_setting_changes_ends_with_one_sentence(error: int) -> None:
    play = Play(instance_id="bw").joining().refused(error)
    assert play.kinds() == ["Fatal", "MembershipStopped"]
    fatal = fatal_of(play)
    assert fatal.exit_code == 2
    assert fatal.message.startswith("Group 'orders'")
    assert fatal.message.count(". ") == 0
    assert "{" not in fatal.message


def test_a_member_that_must_stop_leaves_first() -> None:
    play = Play().stable().wake().heartbeat(ENDS[0])
    assert play.kinds() == ["Leave"]
    assert play.left().kinds() == ["Fatal", "MembershipStopped"]


@pytest.mark.parametrize("error", [-1, 14, 15, 16, 69, *REFUSED, UNNAMED_ERROR])
def test_no_other_answer_ends_a_lead_for_good(error: int) -> None:
    """A broker that starts denies what it grants a second later (redpanda#26281), and a group that is full today has
    room tomorrow."""
    for play in (Play(), Play().joining(), Play().stable(), Play().deciding()):
        all_answered(play, 60, error)
        assert play.state is not State.STOPPED
        assert not [command for command in play.seen if isinstance(command, Fatal)]


def all_answered(play: Play, seconds: float, error: int) -> None:
    """Lives through this time while the broker answers every request with this error."""
    end, requests = play.now + seconds, list(play.last)
    while requests or (play.machine.deadline() or end + 1) <= end:
        if requests:
            request = requests.pop(0)
            if type(request) not in ANSWERS:
                continue
            play.send(ANSWERS[type(request)](request.request_id, error))
        else:
            play.wake()
        requests += play.last
    play.now = end


@pytest.mark.parametrize("error", REFUSED)
def test_a_refusal_of_a_moment_costs_a_leader_no_rebalance(error: int) -> None:
    play = Play(unclear_ms_max=10_000).stable()
    assert not [command for command in play.run(6, heartbeats=error) if isinstance(command, Leave | Join)]
    assert play.state is State.STABLE
    play.run(30)
    assert play.machine.view.role.leading


@pytest.mark.parametrize("error", REFUSED)
def test_a_refusal_that_lasts_gives_the_group_back_and_is_named_until_it_is_over(error: int) -> None:
    play = Play(unclear_ms_max=5_000, adopt="when-empty").stable()
    details = set()
    for _ in range(120):
        all_answered(play, 1, error)
        if play.state is State.WATCHING:
            details.add(play.machine.view.role.detail)
            assert play.machine.view.role.reason is NotLeading.DENIED
    assert len(details) == 1
    assert "Group 'orders'" in details.pop()
    while Describe not in map(type, play.wake().last):
        pass
    assert play.described("Empty").kinds() == ["Join"]


@pytest.mark.slow
def test_a_group_that_is_full_is_tried_again_ever_more_rarely_and_joined_when_it_has_room() -> None:
    play, at = Play(), list[float]()
    play.coordinator_found().described()
    while play.now < 2_000:
        if Describe in map(type, play.last):
            play.described()
        elif Join in map(type, play.last):
            at.append(play.now)
            play.refused(FULL)
        else:
            play.wake()
    pauses = [after - before for before, after in pairwise(at) if after - before > 4]
    assert pauses == sorted(pauses)
    assert pauses[-1] > 200
    assert play.machine.view.role.reason is NotLeading.DENIED
    assert "group.max.size" in play.machine.view.role.detail
