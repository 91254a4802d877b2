"""The product's own service keeps its promises through faults of all kinds, on virtual time; what breaks one is
noticed. BELLWETHER_SIM_SEEDS raises the number of seeds, of which a tenth is lived through here."""

import os
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bellwether_kafka.coordinator.membership import core
from bellwether_kafka.coordinator.planning import Planner
from bellwether_kafka.coordinator.triggers import StreamsWatch
from tests.simulation.checks import ViolationError
from tests.simulation.product.run import run_seed
from tests.simulation.product.scenes import VILLAINS, led, lived_through, suitable
from tests.simulation.product.world import ServedWorld
from tests.simulation.self_assigned import Mirror, to_lead

# A process that is killed has work under way that nobody ever does.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")

SEEDS = max(10, int(os.environ.get("BELLWETHER_SIM_SEEDS", "200")) // 10)
QUICK = 3  # a consumers' world of a second


@pytest.mark.parametrize("seed", [s if s == QUICK else pytest.param(s, marks=pytest.mark.slow) for s in range(SEEDS)])
def test_every_promise_is_kept_by_the_service_itself(seed: int) -> None:
    world, violation = run_seed(seed)
    assert violation == "", "\n".join(world.reported[-40:])
    assert world.checks.plans["own"]
    assert world.injected


@pytest.mark.slow
def test_a_seed_of_the_service_runs_the_same_scenario_twice() -> None:
    assert run_seed(QUICK)[0].reported == run_seed(QUICK)[0].reported


SUITABLE = {streams: suitable(streams=streams) for streams in (False, True)}


def after(name: str, *, streams: bool) -> ServedWorld:
    """A world of the seed that has come through this."""
    with ServedWorld(SUITABLE[streams]) as world:
        led(world)
        lived_through(world, VILLAINS[name])
    return world


@pytest.mark.parametrize("name", VILLAINS)
@pytest.mark.parametrize("streams", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["consumers", "streams"])
def test_the_service_comes_through_one_trouble_at_a_time(name: str, streams: bool) -> None:
    assert after(name, streams=streams).checks.plans["own"]


def test_a_trouble_happens_the_same_way_twice() -> None:
    first, second = (after("the application stands still", streams=False).reported for _ in range(2))
    assert first == second


# ---- faults that the product had, put back ---------------------------------------------------------------------------
#
# A plan for other members, a probe that a silent broker prevents, and an empty group that is joined at first sight are
# noticed. Others are out of reach: what threads and connections do (one reader's thread for all groups, the entries of
# abandoned connections, a login for each retry), because readers and connections are the world's; and what work costs,
# because it costs no virtual time.


@pytest.mark.slow
def test_a_plan_for_the_generation_before_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The service does not send it, and leaves."""
    plan = Planner.plan
    last: dict[int, Any] = {}

    async def late(self: Planner[Any], command: Any) -> Any:
        made = await plan(self, command)
        before, last[id(self)] = last.get(id(self), made), made
        return before

    monkeypatch.setattr(Planner, "plan", late)
    with pytest.raises(ViolationError, match="we do not lead"):
        after("the application stands still", streams=False)


@pytest.mark.slow
def test_a_probe_that_a_silent_broker_prevents_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def one_after_the_other(self: StreamsWatch) -> AsyncIterator[Any]:
        for check in (self._check_work, self._probe, self._check_load):
            async for event in check():
                yield event

    monkeypatch.setattr(StreamsWatch, "_due_events", one_after_the_other)
    with pytest.raises(ViolationError, match="not at rest 600 s later"):
        after("committed offsets are not told", streams=True)


def mirrored() -> Mirror:
    """Copies offsets into a group without members, before and while a process that may join it runs."""
    with ServedWorld(SUITABLE[False]) as world:
        to_lead(world, subscribes=True)
        mirror = Mirror(world, 60.0)
        world.run_until(200.0)
        world.served[0].start()
        world.run_until(800.0)
    return mirror


def test_the_service_refuses_no_copy_of_a_mirror() -> None:
    assert mirrored().refused == []


def test_a_group_that_is_joined_without_a_look_at_its_offsets_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "OFFSETS_REST_S", 0.0)
    assert mirrored().refused
