"""Scenarios of a group whose consumers may assign themselves partitions (assign()): a member in it would have the
broker refuse their commits (docs/internals/broker-behaviour.md#commits-without-a-member)."""

import pytest

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.membership import NotLeading as R
from bellwether_kafka.coordinator.membership import State
from tests.kit.membership import ME, Play, member, seen

REMOVED_BACK_MS_MAX = 10_000

REBALANCE_IN_PROGRESS = 27
RELEASED = "ada has ordered release of 'orders'"
RELEASE = membership.OrdersInForce("", "", RELEASED)
NONE = membership.OrdersInForce("", "")


def play(**settings: object) -> Play:
    """Of a group for which nothing says that its members subscribe."""
    return Play(subscribes=False, coalesce_ms=0, **settings)


def watched(scenario: Play, state: str, *members: membership.DescribedMember, **more: object) -> Play:
    """On to the next description, which says this."""
    while not any(isinstance(command, membership.Describe) for command in scenario.last):
        scenario.wake()
    return scenario.described(state, *members, **more)


def led(**settings: object) -> Play:
    """A group whose members have all gone for a moment while Bellwether watched it, and came back."""
    scenario = watched(play(adopt="when-empty", **settings).coordinator_found(), "Stable", seen("a"))
    watched(scenario, "Empty")
    return scenario.joined(member(ME), member("a")).planned(topics=()).synced()


@pytest.mark.parametrize("adopt", ["when-empty", "succeed", "take-over"])
@pytest.mark.parametrize("state", ["Empty", "Dead"])
def test_an_empty_group_in_which_no_member_was_seen_is_not_joined(adopt: str, state: str) -> None:
    scenario = play(adopt=adopt).coordinator_found()
    for _ in range(100):
        assert not [command for command in watched(scenario, state).last if isinstance(command, membership.Join)]


def test_committed_offsets_are_no_proof_that_members_subscribe() -> None:
    scenario = watched(play().send(membership.OffsetsFound()).coordinator_found(), "Empty", protocol_type="consumer")
    assert scenario.kinds() == []
    assert scenario.machine.view.role.reason is R.NO_SUBSCRIBERS


def test_the_setting_says_that_members_subscribe() -> None:
    assert Play(subscribes=True).coordinator_found().described("Empty").kinds() == ["Join"]


@pytest.mark.parametrize("adopt", ["when-empty", "succeed", "take-over"])
def test_an_empty_group_in_which_members_were_seen_is_joined(adopt: str) -> None:
    scenario = watched(play(adopt=adopt).coordinator_found(), "PreparingRebalance", seen("a"))
    assert watched(scenario, "Empty").kinds() == ["Join"]


@pytest.mark.parametrize("subscribes", [True, False])
@pytest.mark.parametrize(
    "kept_out",
    [membership.ActiveRoleChanged(False, "another leads"), membership.OrdersInForce("ada has ordered leave", "")],
)
def test_what_was_empty_while_another_was_to_lead_is_not_joined_long_after(
    kept_out: membership.Event, subscribes: bool
) -> None:
    """Its members may have gone for good, and consumers that assign themselves may commit since."""
    standby = isinstance(kept_out, membership.ActiveRoleChanged)
    instance = {"instance_id": "bellwether", "standby": True} if standby else {}
    scenario = Play(subscribes=subscribes, adopt="when-empty", **instance).send(kept_out).coordinator_found()
    watched(watched(scenario, "Stable", seen("a")), "Empty")
    allowed = membership.ActiveRoleChanged(True, "it has gone") if standby else NONE
    scenario.send(allowed)
    assert watched(scenario, "Empty").kinds() == ["Join"] * subscribes
    if not subscribes:
        assert watched(watched(scenario, "PreparingRebalance", seen("a")), "Empty").kinds() == ["Join"]


def test_a_former_process_of_bellwether_is_no_member_that_subscribed() -> None:
    former = membership.DescribedMember("bellwether-1", None, client_id="bellwether")
    scenario = watched(play(adopt="when-empty").coordinator_found(), "Stable", former)
    assert watched(scenario, "Empty").kinds() == []


def test_alone_in_the_answer_to_its_join_it_leaves_at_once() -> None:
    scenario = watched(watched(play(adopt="when-empty").coordinator_found(), "Stable", seen("a")), "Empty")
    assert scenario.joined(member(ME)).kinds() == ["Leave"]
    scenario.left()
    for _ in range(50):
        assert watched(scenario, "Empty").kinds() == [], "a member has to come first"
    assert scenario.machine.view.role.reason is R.EMPTY


def test_when_the_last_member_goes_it_leaves_at_once() -> None:
    scenario = led().wake().heartbeat(REBALANCE_IN_PROGRESS)
    assert scenario.joined(member(ME), generation=2).kinds() == ["Leave"]
    assert scenario.left().state is State.WATCHING


def test_a_restarted_process_leaves_the_group_in_which_it_is_alone() -> None:
    scenario = play(instance_id="bw").coordinator_found().described("Stable", seen(ME, "bw"))
    scenario.joined(member(ME, "bw"), skip_assignment=True)
    assert scenario.synced().kinds()[-1] == "Leave"
    assert watched(scenario.left(), "Empty").kinds() == []
    assert scenario.machine.view.role.reason is R.NO_SUBSCRIBERS


def test_after_a_take_over_it_waits_for_the_member_that_it_removed() -> None:
    scenario = led()
    scenario.machine._core.leadership.removed = ("a",)
    scenario.machine._core.now = scenario.now
    scenario.wake().heartbeat(REBALANCE_IN_PROGRESS)
    assert scenario.joined(member(ME), generation=2).kinds() == ["Sync"]
    scenario.synced()
    assert not [
        command for command in scenario.run(REMOVED_BACK_MS_MAX / 1000 - 1) if isinstance(command, membership.Leave)
    ]
    assert [command for command in scenario.run(2) if isinstance(command, membership.Leave)]


def test_the_member_that_came_back_ends_the_wait() -> None:
    scenario = led()
    scenario.machine._core.leadership.removed = ("a",)
    scenario.wake().heartbeat(REBALANCE_IN_PROGRESS).joined(member(ME), generation=2).synced()
    scenario.wake().heartbeat(REBALANCE_IN_PROGRESS).joined(member(ME), member("a"), generation=3).planned(3).synced()
    assert not [command for command in scenario.run(60) if isinstance(command, membership.Leave)]


def test_an_operator_may_have_it_linger_for_members_that_were_seen() -> None:
    scenario = led(linger_ms=60_000).wake().heartbeat(REBALANCE_IN_PROGRESS).joined(member(ME), generation=2).synced()
    assert not [command for command in scenario.run(59) if isinstance(command, membership.Leave)]
    assert [command for command in scenario.run(2) if isinstance(command, membership.Leave)]


def test_it_says_why_it_stays_out() -> None:
    role = play().coordinator_found().described("Empty").machine.view.role
    assert role.reason is R.NO_SUBSCRIBERS
    assert "no member that subscribes has been seen" in role.detail
    assert "only such consumers have committed" in role.detail
    assert "subscribes = true" in role.remedy
    joined_once = play().coordinator_found().described("Empty", protocol_type="consumer").machine.view.role
    assert "only such consumers" not in joined_once.detail
    assert play().coordinator_found().described("Dead").machine.view.role.reason is R.UNKNOWN_GROUP


KINDS = [{"subscribes": True}, {"subscribes": True, "protocols": ("stream",)}]
WRITTEN = membership.OffsetsRead(committed=True, moves=2)


@pytest.mark.parametrize("settings", KINDS, ids=["consumers", "streams"])
@pytest.mark.parametrize("adopt", ["when-empty", "succeed", "take-over"])
def test_an_empty_group_with_offsets_is_looked_at_before_it_is_joined(adopt: str, settings: dict[str, object]) -> None:
    """MirrorMaker writes offsets every 60 s, into groups without members only, and says nothing where it is refused."""
    scenario = watched(Play(offsets=None, adopt=adopt, **settings).coordinator_found(), "Empty")
    for rest_s in (0.0, 30.0, 89.0):
        assert scenario.kinds() == []
        assert scenario.machine.view.role.reason is R.EMPTY
        scenario.send(membership.OffsetsRead(committed=True, rest_s=rest_s))
        assert watched(scenario, "Empty").kinds() == []
    assert "90 s" in scenario.machine.view.role.detail
    assert scenario.send(membership.OffsetsRead(committed=True, rest_s=90.0)).kinds() == ["Describe"]
    assert scenario.described("Empty").kinds() == ["Join"]


@pytest.mark.parametrize("settings", KINDS, ids=["consumers", "streams"])
def test_an_empty_group_without_offsets_is_joined_as_soon_as_that_is_known(settings: dict[str, object]) -> None:
    scenario = watched(Play(offsets=None, **settings).coordinator_found(), "Empty")
    assert scenario.kinds() == []
    assert scenario.send(membership.OffsetsRead(committed=False)).kinds() == ["Describe"]
    assert scenario.described("Empty").kinds() == ["Join"]
    assert Play(offsets=None, **settings).coordinator_found().described("Dead").kinds() == ["Join"]


def test_one_move_begins_the_rest_anew_and_the_second_keeps_bellwether_out() -> None:
    scenario = watched(Play(offsets=None).coordinator_found(), "Empty")
    scenario.send(membership.OffsetsRead(committed=True, rest_s=80.0)).send(
        membership.OffsetsRead(committed=True, moves=1)
    )
    assert watched(scenario, "Empty").kinds() == []
    scenario.send(WRITTEN)
    for _ in range(100):
        scenario.send(membership.OffsetsRead(committed=True, moves=2, rest_s=3_600.0))
        assert watched(scenario, "Empty").kinds() == []
    assert scenario.machine.view.role.reason is R.NO_SUBSCRIBERS
    assert "a mirror of another cluster" in scenario.machine.view.role.detail


@pytest.mark.parametrize("every_s", [100.0, 119.0, 180.0, 290.0])
def test_who_has_written_once_is_given_time_to_write_again(every_s: float) -> None:
    """A mirror that is slower than the look is never a member's rival: its first copy shows that there is one."""
    scenario = watched(Play(offsets=None).coordinator_found(), "Empty")
    for rest_s in (0.0, 90.0, every_s - 10.0):
        scenario.send(membership.OffsetsRead(committed=True, moves=1, rest_s=rest_s))
        assert watched(scenario, "Empty").kinds() == []
        assert "300 s" in scenario.machine.view.role.detail
    scenario.send(WRITTEN)
    assert scenario.machine.view.role.reason is R.NO_SUBSCRIBERS


def test_offsets_that_were_reset_once_keep_bellwether_out_for_five_minutes() -> None:
    scenario = watched(Play(offsets=None).coordinator_found(), "Empty")
    scenario.send(membership.OffsetsRead(committed=True, moves=1, rest_s=299.0))
    assert watched(scenario, "Empty").kinds() == []
    assert scenario.send(membership.OffsetsRead(committed=True, moves=1, rest_s=300.0)).kinds() == ["Describe"]
    assert scenario.described("Empty").kinds() == ["Join"]


def test_a_member_that_comes_meanwhile_is_led_as_adopt_says() -> None:
    scenario = watched(Play(offsets=None).coordinator_found(), "Empty").send(membership.OffsetsRead(committed=True))
    assert watched(scenario, "Stable", seen("a"), protocol="range").kinds() == ["Decide"], "a take-over begins"


def test_a_group_that_an_earlier_process_led_is_joined_at_once() -> None:
    scenario = Play(offsets=None).send(membership.LeadRemembered(30.0)).coordinator_found()
    assert watched(scenario, "Empty").kinds() == ["Join"]
    long_ago = Play(offsets=None).send(membership.LeadRemembered(3_600.0)).coordinator_found()
    assert watched(long_ago, "Empty").kinds() == []


def test_a_group_that_has_lost_its_members_a_moment_ago_is_joined_at_once() -> None:
    scenario = watched(Play(offsets=None, adopt="when-empty").coordinator_found(), "Stable", seen("a"))
    assert watched(scenario, "Empty").kinds() == ["Join"]


def test_a_membership_that_was_lost_for_a_moment_is_taken_up_again_at_once() -> None:
    scenario = Play().stable_alone()
    while not any(isinstance(command, membership.Heartbeat) for command in scenario.last):
        scenario.wake()
    scenario.heartbeat(25)
    while not any(isinstance(command, membership.Join) for command in watched(scenario, "Empty").last):
        assert scenario.now < 130
    assert scenario.state is State.JOINING


@pytest.mark.parametrize("kept_out", [3_600.0, 400.0])
def test_what_was_used_long_ago_is_looked_at_again(kept_out: float) -> None:
    scenario = watched(Play(offsets=None, adopt="when-empty").coordinator_found(), "Stable", seen("a"))
    scenario.send(membership.OrdersInForce("ada has ordered leave", "")).later(kept_out).send(NONE)
    assert watched(scenario, "Empty").kinds() == []


def test_a_group_that_others_write_to_is_left_as_soon_as_bellwether_is_alone_in_it() -> None:
    """Whatever the settings say: the writers would be refused for as long as Bellwether stays."""
    scenario = watched(Play(offsets=None).coordinator_found(), "Empty").send(WRITTEN)
    watched(scenario, "Stable", seen("a"), protocol="range")
    scenario.machine._core.sighting.awaited = False
    scenario.machine._core.leadership.members = (member(ME), member("a"))
    assert scenario.machine._core.lingers_ms == 0
    assert Play().machine._core.lingers_ms is None


def test_offsets_that_move_without_members_outweigh_the_setting() -> None:
    """An attestation never overrides what is seen."""
    scenario = Play(adopt="when-empty").coordinator_found().described("Stable", seen("a")).send(WRITTEN)
    assert watched(scenario, "Empty").kinds() == ["Join"], "members are there, so that these commits were theirs"
    scenario = watched(Play(adopt="when-empty").send(WRITTEN).coordinator_found(), "Empty")
    assert scenario.kinds() == []
    assert scenario.machine.view.role.reason is R.NO_SUBSCRIBERS
    assert "offsets are committed while no member is there" in scenario.machine.view.role.detail


# ---- release ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocols", [("range",), ("stream",)])
def test_a_group_held_empty_is_released(protocols: tuple[str, ...]) -> None:
    scenario = Play(protocols=protocols).joining().joined(member(ME), protocol=protocols[0]).synced()
    assert scenario.send(RELEASE).kinds() == ["Leave"]
    scenario.left()
    for _ in range(100):
        assert watched(scenario, "Empty").kinds() == []
    assert scenario.machine.view.role.reason is R.ORDERED_OUT
    assert RELEASED in scenario.machine.view.role.detail


def test_a_first_join_under_way_is_released() -> None:
    scenario = Play(instance_id="bw").joining().send(RELEASE)
    assert scenario.kinds() == ["Abandon", "Leave"]
    scenario = Play().joining().send(RELEASE)
    assert scenario.state is State.WATCHING


def test_a_plan_under_way_to_itself_alone_is_released_after_it() -> None:
    scenario = Play().joining().joined(member(ME)).send(RELEASE)
    assert scenario.synced().kinds()[-1] == "Leave"


def test_a_release_leaves_members_alone() -> None:
    scenario = Play().stable().send(RELEASE)
    assert scenario.kinds() == []
    assert scenario.machine.view.role.leading
    assert scenario.machine.view.has_members


def test_a_release_without_members_holds_through_a_restart() -> None:
    scenario = Play().send(RELEASE).coordinator_found()
    assert watched(scenario, "Empty").kinds() == []


def test_a_resume_takes_the_group_back() -> None:
    scenario = watched(Play().send(RELEASE).coordinator_found(), "Empty")
    assert scenario.send(NONE).kinds() == ["Describe"]
    assert scenario.described("Empty").kinds() == ["Join"]
    assert watched(play().send(RELEASE).coordinator_found(), "Empty").send(NONE).described("Empty").kinds() == []


def test_members_that_come_after_a_release_are_watched_and_led_as_usual() -> None:
    scenario = watched(Play(adopt="when-empty").send(RELEASE).coordinator_found(), "Empty")
    assert watched(scenario, "Stable", seen("a")).machine.view.role.reason is R.MEMBER_LEADS
    assert scenario.machine.view.has_members
    scenario.send(NONE)
    assert watched(scenario, "Empty").kinds() == ["Join"]
