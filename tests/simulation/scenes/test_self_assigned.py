"""Commits without a member, of a consumer that assigns itself partitions or of a mirror, are not refused because of
Bellwether in a group in which no member works."""

import pytest

from bellwether_kafka.coordinator.membership import NotLeading
from tests.simulation.faults import Faults
from tests.simulation.self_assigned import COMMIT_S, Mirror, SelfAssigned, to_lead
from tests.simulation.world import World

LASTS_S = 600.0
LEFT_WITHIN_S = 30.0  # a heartbeat shows that the last member has gone; the rebalance then waits for nobody
SEEDS = [seed for seed in range(40) if not World(seed).streams]
TAKEN_OVER = [
    seed for seed in SEEDS if World(seed).config.adopt == "take-over" and not World(seed).members[0].instance_id
]


def lived(seed: int, *, subscribes: bool) -> SelfAssigned:
    """Sidecars and brokers fail as the seed has it, and no member ever comes."""
    with to_lead(World(seed), subscribes=subscribes) as world:
        consumer = SelfAssigned(world)
        for instance in world.instances if world.config.standby else world.instances[:1]:
            instance.start()
        Faults(world, world.rng.choice((3.0, 10.0, 25.0)))
        world.run_until(LASTS_S)
        assert world.injected
    return consumer


LIVES = [*((seed, False) for seed in SEEDS[:12]), *((seed, True) for seed in SEEDS[:6])]


@pytest.mark.parametrize(("seed", "subscribes"), LIVES)
def test_no_commit_is_refused_in_a_group_that_never_had_a_member(seed: int, subscribes: bool) -> None:
    consumer = lived(seed, subscribes=subscribes)
    assert consumer.refused == []
    assert consumer.accepted > LASTS_S / COMMIT_S / 2


def mirrored(seed: int, every_s: float) -> tuple[World, Mirror]:
    """A mirror copies offsets for a while before Bellwether starts, and no member ever comes."""
    with to_lead(World(seed), subscribes=True) as world:
        mirror = Mirror(world, every_s)
        world.run_until(200)
        world.instances[0].start()
        world.run_until(200 + LASTS_S)
    return world, mirror


ALONE = [seed for seed in range(40) if not World(seed).config.standby]
MIRRORED = [next(seed for seed in ALONE if World(seed).streams is streams) for streams in (False, True)]


@pytest.mark.parametrize("every_s", [5.0, 30.0, 60.0])
@pytest.mark.parametrize("seed", MIRRORED, ids=["consumers", "streams"])
def test_no_copy_of_a_mirror_is_refused(seed: int, every_s: float) -> None:
    """MirrorMaker writes into groups without members only, every 60 s by default."""
    world, mirror = mirrored(seed, every_s)
    assert mirror.refused == []
    assert mirror.accepted >= LASTS_S / every_s
    assert world.instances[0].role.reason is NotLeading.NO_SUBSCRIBERS


def test_a_mirror_that_has_stopped_leaves_the_group_to_bellwether() -> None:
    world, mirror = mirrored(MIRRORED[0], 1e6)
    assert mirror.accepted == 1
    assert world.instances[0].role.reason is NotLeading.EMPTY
    assert world.instances[0].membership.alone


def after_members(seed: int, *, subscribes: bool, faults: bool = False) -> tuple[SelfAssigned, bool]:
    """Members come and go; then the consumer begins. And whether Bellwether led: not every leader can be removed."""
    with to_lead(World(seed), subscribes=subscribes) as world:
        for instance in world.instances if faults and world.config.standby else world.instances[:1]:
            instance.start()
        for member in world.members:
            member.start()
        led = world.run_until(300, lambda: world.instances[0].leads)
        for member in world.members:
            member.close()
        world.run_until(world.clock.now + LEFT_WITHIN_S)
        consumer = SelfAssigned(world)
        if faults:
            Faults(world, world.rng.choice((3.0, 10.0, 25.0)))
        world.run_until(world.clock.now + LASTS_S)
    return consumer, led


def test_after_members_have_gone_commits_are_accepted_soon_and_for_good() -> None:
    lives = [after_members(seed, subscribes=False) for seed in TAKEN_OVER]
    assert sum(led for _, led in lives) >= 3
    for consumer, _ in lives:
        assert consumer.refused == []
        assert consumer.accepted > LASTS_S / COMMIT_S / 2


@pytest.mark.parametrize("seed", [4, 5, 8, 35])
def test_after_members_have_gone_no_restart_and_no_standby_has_commits_refused(seed: int) -> None:
    """A standby that had seen the members joined the empty group when its turn came, however long after."""
    assert World(seed).config.standby
    consumer, _ = after_members(seed, subscribes=False, faults=True)
    assert consumer.refused == []


def test_after_members_have_gone_they_are_refused_with_the_setting() -> None:
    consumer, _ = after_members(TAKEN_OVER[0], subscribes=True)
    assert consumer.refused
