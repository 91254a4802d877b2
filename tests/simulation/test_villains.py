"""The service comes through one trouble after the other; faults that the product had, put back, are noticed."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from bellwether_kafka.assignors.consumer import Policy
from bellwether_kafka.coordinator.ghosts import GhostFinder, GhostOptions
from bellwether_kafka.coordinator.membership import Code, MembershipConfig, core, role
from bellwether_kafka.coordinator.planning import Planner
from bellwether_kafka.coordinator.triggers import TRIGGERS, Picture
from tests.simulation.checks import ViolationError
from tests.simulation.scenes.chosen_seeds import applications
from tests.simulation.self_assigned import Mirror, to_lead
from tests.simulation.villains import VILLAINS, approached_slowly, changed, led, lived_through, suitable
from tests.simulation.world import World

SUITABLE = {streams: suitable(streams=streams) for streams in (False, True)}


def after(name: str, *, streams: bool) -> World:
    """A world of the seed that has come through this."""
    with World(SUITABLE[streams]) as world:
        led(world)
        lived_through(world, VILLAINS[name])
    return world


@pytest.mark.parametrize("name", VILLAINS)
@pytest.mark.parametrize("streams", [False, True], ids=["consumers", "streams"])
def test_the_service_comes_through_one_trouble_at_a_time(name: str, streams: bool) -> None:
    assert after(name, streams=streams).checks.plans["own"]


def test_a_trouble_happens_the_same_way_twice() -> None:
    first, second = (after("the application stands still", streams=False).reported for _ in range(2))
    assert first == second


def mirrored() -> Mirror:
    """Copies offsets into a group without members, before and while a process that may join it runs."""
    with World(SUITABLE[False]) as world:
        to_lead(world, subscribes=True)
        mirror = Mirror(world, 60.0)
        world.run_until(200.0)
        world.instances[0].start()
        world.run_until(800.0)
    return mirror


def test_the_service_refuses_no_copy_of_a_mirror() -> None:
    assert mirrored().refused == []


@contextmanager
def crowd(seed: int = 5) -> Iterator[World]:
    with World(seed, crowd=20) as world:
        yield world


def test_a_take_over_for_which_brokers_are_too_slow_disturbs_nobody() -> None:
    with crowd() as world:
        approached_slowly(world)


def topic_balanced() -> None:
    """A cooperative group of several topics, balanced topic by topic, through changes."""
    seeds = (seed for seed in range(200) if (w := World(seed)).flock == "cooperative" and not w.hostile)
    seed = next(seed for seed in seeds if len(World(seed).subscribed) > 2 and not World(seed).members[0].instance_id)
    with World(seed) as world:
        world.policy = Policy("topic-balance")
        led(world)
        changed(world)


def test_changes_of_a_group_whose_topics_are_balanced_take_two_rebalances() -> None:
    topic_balanced()


def ghosts_removed() -> int:
    """Processes of an application die and come back, and Bellwether removes what is left of them. How many that is."""
    with World(applications(1)[0]) as world:
        world.ghosts = GhostOptions(client_ids_unique=True)
        led(world)
        for process in world.processes:
            process.threads[0].crash()
            world.run_until(world.clock.now + 2.0)
            process.threads[0].start()
            world.run_until(world.clock.now + 60.0)
    return world.removed


def test_dead_members_are_removed_and_no_others() -> None:
    assert ghosts_removed()


# ---- faults that the product had, put back ---------------------------------------------------------------------------
#
# Out of reach are what threads and connections do (one reader's thread for all groups, the entries of abandoned
# connections, a login for each retry), because readers and connections are the world's; and what work costs, such as
# evacuations whose cost is quadratic, because it costs no virtual time: `tests.lab.bench.fleet` measures that. A target
# of topic-balance that is forgotten costs more than two rebalances only in groups that are too large for here (10
# members and 40 topics settle all the same): `tests/properties/test_settling.py` has them.


def test_a_plan_for_the_generation_before_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A late solver's answer is taken. The service does not send it, and leaves."""
    plan = Planner.plan
    last: dict[int, Any] = {}

    async def late(self: Planner[Any], command: Any) -> Any:
        made = await plan(self, command)
        before, last[id(self)] = last.get(id(self), made), made
        return before

    monkeypatch.setattr(Planner, "plan", late)
    with pytest.raises(ViolationError, match="we do not lead"):
        after("the application stands still", streams=False)


def test_a_verdict_on_the_wrong_one_of_two_lives_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who was proven dead once is called dead when it is back."""
    refresh = GhostFinder.refresh

    def of_all(self: GhostFinder, answer: Any, now: float) -> Any:
        ghosts = refresh(self, answer, now)
        return [*ghosts, *(replace_id(ghost) for ghost in ghosts)]

    monkeypatch.setattr(GhostFinder, "refresh", of_all)
    with pytest.raises(ViolationError, match=r"removes .* lives"):
        ghosts_removed()


def replace_id(ghost: Any) -> Any:
    return type(ghost)(ghost.successor, ghost.client_id, ghost.client_host, ghost.proof, ghost.successor)


def test_a_dead_partition_that_hides_the_others_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe waits for offsets that a silent broker does not tell."""

    probing = TRIGGERS["probing"]

    def waiting(picture: Picture, prober: Any) -> tuple[Any, Any]:
        return probing.judge(picture, prober) if picture.offsets is not None else (prober, ())

    monkeypatch.setitem(TRIGGERS, "probing", replace(probing, judge=waiting))
    with pytest.raises(ViolationError, match="not at rest 600 s later"):
        after("committed offsets are not told", streams=True)


def test_a_denied_answer_that_ends_the_membership_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    explained = role._REFUSALS[Code.GROUP_AUTHORIZATION_FAILED]
    ends = explained._replace(action=role.Action.END)
    monkeypatch.setitem(role._REFUSALS, Code.GROUP_AUTHORIZATION_FAILED, ends)
    with pytest.raises(ViolationError, match="has ended by itself"):
        after("an ACL flickers", streams=False)


def test_a_group_that_is_joined_without_a_look_at_its_offsets_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "OFFSETS_REST_S", 0.0)
    assert mirrored().refused


def test_a_take_over_that_goes_on_when_brokers_are_slow_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    tries_max = MembershipConfig.tries_max
    monkeypatch.setattr(MembershipConfig, "tries_max", lambda self, answer_time_ms=None: tries_max(self))
    with crowd() as world, pytest.raises(ViolationError, match="disturbed in vain"):
        approached_slowly(world)
