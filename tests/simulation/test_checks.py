"""The checks themselves: a world that breaks a promise is noticed."""

from collections.abc import Callable, Iterator

import pytest

from bellwether_kafka.coordinator.control import Instances
from bellwether_kafka.coordinator.membership import NotLeading, Role, StepAsideWanted
from bellwether_kafka.coordinator.membership.adoption import Adoption
from bellwether_kafka.coordinator.membership.leading import Leading
from bellwether_kafka.coordinator.membership.permission import HandBacks
from bellwether_kafka.coordinator.planning import streams_kind
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.simulation.checks import ViolationError
from tests.simulation.role_checks import NOBODY
from tests.simulation.run import lived
from tests.simulation.world import World

ROLE_S = 3.0  # two heartbeats, and the way


@pytest.fixture(name="world")
def settled() -> Iterator[World]:
    """A group at rest, led by Bellwether."""
    with World(3) as world:
        world.instances[0].start()
        world.run_until(10.0)
        for member in world.members:
            member.start()
        world.run_until(60.0, lambda: world.checks.bellwether_leads() and not world.checks.unsettled())
        assert world.checks.bellwether_leads()
        assert not world.checks.unsettled()
        yield world


def test_two_owners_are_noticed(world: World) -> None:
    world.members[0].own(world.members[0].owned | world.members[1].owned)
    with pytest.raises(ViolationError, match="is consumed by"):
        world.checks.step()


def test_a_partition_that_nobody_consumes_is_noticed(world: World) -> None:
    member = next(member for member in world.members if member.owned)
    member.own(member.owned - {min(member.owned)})
    assert "partitions are consumed" in world.checks.unsettled()


def test_a_leader_that_stalls_its_group_is_noticed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Heartbeats go on and no plan comes: the deadline that gives the group away is taken out."""
    monkeypatch.setattr(Leading, "_refuse", lambda self, reason: None)
    world.instances[0].slow_plan_s = 100.0
    world.members[0].crash()
    world.members[0].start()
    with pytest.raises(ViolationError, match="has waited for us"):
        world.run_until(world.clock.now + 60.0)


def test_a_plan_without_a_member_is_noticed(world: World) -> None:
    group = world.broker.group
    group.generation += 1
    with pytest.raises(ViolationError, match="out"):
        world.checks.planned(group.leader or "", ((group.leader or "", b"\0\0\0\0\0\0\0\0\0\0"),))


def test_a_plan_that_uses_bellwethers_own_member_is_noticed(world: World) -> None:
    group = world.broker.group
    group.generation += 1
    blob = ConsumerProtocolAssignment(0, (TopicPartition("t", 0),)).encode()
    with pytest.raises(ViolationError, match="own member"):
        world.checks.planned(group.leader or "", tuple((m, blob) for m in sorted(group.member_entries, reverse=True)))


def test_a_plan_for_a_topic_that_is_gone_is_noticed(world: World) -> None:
    group = world.broker.group
    group.generation += 1
    own, *others = sorted(group.member_entries, key=world.is_own, reverse=True)
    nothing = ConsumerProtocolAssignment(0, ()).encode()
    ghost = ConsumerProtocolAssignment(0, (TopicPartition("gone", 0),)).encode()
    plan = ((own, nothing), (others[0], ghost), *((member_id, nothing) for member_id in others[1:]))
    with pytest.raises(ViolationError, match="its metadata did not have"):
        world.checks.planned(own, plan)


def test_a_topic_that_is_gone_and_still_consumed_is_noticed(world: World) -> None:
    world.topics.change({topic: n for topic, n in world.topics.sizes.items() if topic != world.subscribed[-1]})
    assert "which are gone" in world.checks.unsettled()


def test_a_thread_that_asks_without_end_is_noticed(world: World) -> None:
    for _ in range(30):
        world.checks.asked("m0")
    with pytest.raises(ViolationError, match="has asked for 30 rounds"):
        world.checks.asked("m0")


def test_a_rebalance_that_ends_an_application_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch over metadata takes a grown input for a reason like any other."""
    monkeypatch.setattr(streams_kind, "fatal_to_java", lambda topology, cluster: "")
    seed = next(seed for seed in range(50) if World(seed).streams)
    with pytest.raises(ViolationError, match="the application"):
        lived(World(seed))


def test_a_standby_that_takes_nothing_over_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes a group that nobody has for its own, and none of an instance that has fallen silent."""

    def reason_to_take_over(self: Instances, group: str) -> str:
        return "no instance of Bellwether leads it" if self.holder(group) is None and self._own > 2 else ""

    monkeypatch.setattr(Instances, "reason_to_take_over", reason_to_take_over)
    world = next(w for w in map(World, range(200)) if w.config.standby and not w.streams)
    with pytest.raises(ViolationError, match="lead"):
        lived(world)


def test_who_never_leads_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Adoption, "described", lambda self, answer: None)
    with pytest.raises(ViolationError, match="do not lead"):
        lived(World(1))


def members_close(world: World) -> None:
    for member in world.members:
        member.close()


def own_member_entry_is_taken(world: World) -> None:
    world.broker.group.remove(world.instances[0].membership.member_id, None)


def no_answer_comes(world: World) -> None:
    world.network.holes.add(world.instances[0].client)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (own_member_entry_is_taken, "says that it leads while it watches"),
        (no_answer_comes, "has heard nothing for"),
        (members_close, "is alone for"),
    ],
)
def test_a_role_that_once_was_true_is_noticed(
    world: World, monkeypatch: pytest.MonkeyPatch, fault: Callable[[World], None], message: str
) -> None:
    """An instance that has led says so for ever."""
    monkeypatch.setattr(Role, "followed_by", lambda self, _: self)
    fault(world)
    with pytest.raises(ViolationError, match=message):
        world.run_until(world.clock.now + 60.0)


def test_a_leader_that_denies_its_lead_is_noticed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    another_leads = Role(NotLeading.MEMBER_LEADS, "a member leads")
    monkeypatch.setattr(Role, "followed_by", lambda *_: another_leads)
    with pytest.raises(ViolationError, match=r"leads for .* it says member_leads"):
        world.run_until(world.clock.now + 60.0)


@pytest.mark.parametrize("fault", [own_member_entry_is_taken, no_answer_comes, members_close])
def test_the_role_of_the_product_passes_the_same_faults(world: World, fault: Callable[[World], None]) -> None:
    fault(world)
    world.run_until(world.clock.now + 60.0)


def restarted(world: World) -> None:
    """Within the session, under the same instance id."""
    instance = world.instances[0]
    generation = world.broker.group.generation
    instance.crash()
    world.run_until(world.clock.now + 3.0)
    instance.start()
    world.run_until(world.clock.now + ROLE_S)
    assert world.broker.group.generation == generation


def evacuated(world: World) -> None:
    """The members close, and come back after a minute."""
    members_close(world)
    world.run_until(world.clock.now + 60.0)
    assert world.instances[0].role.reason in NOBODY
    for member in world.members:
        member.start()
    world.run_until(world.clock.now + 60.0, lambda: not world.checks.unsettled())
    world.run_until(world.clock.now + ROLE_S)


def restarted_alone(world: World) -> None:
    """Alone in the group, which members then join. Who was there before the restart shows only in their offsets."""
    members_close(world)
    world.run_until(world.clock.now + 60.0)
    world.instances[0].crash()
    world.instances[0].start()
    world.run_until(world.clock.now + 10.0)
    assert world.instances[0].role.reason is NotLeading.EMPTY
    evacuated(world)


@pytest.mark.parametrize("scenario", [restarted, evacuated, restarted_alone])
def test_the_role_is_that_of_the_broker_two_heartbeats_after(world: World, scenario: Callable[[World], None]) -> None:
    assert world.config.instance_id is not None
    scenario(world)
    assert world.checks.bellwether_leads()
    assert world.instances[0].role.leading


# ---- hand-backs ------------------------------------------------------------------------------------------------------


RESTED_S = 100.0  # an empty group is joined once its offsets have not changed for 90 s


def hand_back(world: World) -> None:
    world.instances[0].post(StepAsideWanted("members cannot work by the plan"))
    world.run_until(world.clock.now + 0.5)


def anew(world: World) -> None:
    """The members close, and others come into the empty group."""
    members_close(world)
    world.run_until(world.clock.now + 60.0)
    for member in world.members:
        member.start()
    world.run_until(world.clock.now + 60.0)


def again_in_another_process(world: World) -> None:
    """A process that comes to the empty group, whose offsets rest; it reads at once that it may not join."""
    world.instances[0].crash()
    members_close(world)
    world.run_until(world.clock.now + 60.0)
    world.instances[0].start()
    world.run_until(world.clock.now + RESTED_S)
    for member in world.members:
        member.start()
    world.run_until(world.clock.now + 60.0)


def with_a_proof_and_harm_again(world: World) -> None:
    """Nothing was wrong with its plan, so it returns as soon as that disturbs nobody."""
    world.run_until(world.clock.now + 60.0)
    anew(world)
    assert world.checks.bellwether_leads()
    world.instances[0].post(StepAsideWanted("again"))
    world.run_until(world.clock.now + 10.0)


@pytest.mark.parametrize("scenario", [anew, again_in_another_process, with_a_proof_and_harm_again])
def test_the_product_hands_back_once_and_returns_with_a_proof(world: World, scenario: Callable[[World], None]) -> None:
    hand_back(world)
    scenario(world)


@pytest.mark.parametrize(
    ("broken", "instead", "scenario", "message"),
    [
        ("begins", lambda self, now, reason: None, anew, "leads again without a proof"),
        ("remembered", lambda self, *_, **__: None, again_in_another_process, "leads again without a proof"),
        ("refusal", lambda self, now: "", with_a_proof_and_harm_again, "hands the lead back a second time"),
    ],
    ids=["does not wait", "forgets", "again and again"],
)
def test_a_hand_back_without_its_limits_is_noticed(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    broken: str,
    instead: object,
    scenario: Callable[[World], None],
    message: str,
) -> None:
    monkeypatch.setattr(HandBacks, broken, instead)
    hand_back(world)
    with pytest.raises(ViolationError, match=message):
        scenario(world)
