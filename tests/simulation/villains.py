"""What a service has to come through, one trouble at a time, while it leads a group at rest."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.simulation.run import must_lead, must_settle
from tests.simulation.world import World

SEARCHED = 60  # seeds
CHANGED_S, REBALANCES_MAX = 60.0, 2
GROUP_AUTHORIZATION_FAILED = 30


@dataclass(frozen=True)
class Villain:
    """`begins` may be called again every `again_s`; `ends` puts everything right. `rests`: the group has to come to
    rest while it lasts."""

    begins: Callable[[World], None]
    ends: Callable[[World], None]
    lasts_s: float
    again_s: float = 0.0
    rests: bool = False
    ends_process: bool = False  # which otherwise has to live on


def suitable(*, streams: bool) -> int:
    """A seed whose group may be taken over, without a hostile member."""
    return next(seed for seed in range(SEARCHED) if (w := World(seed)).streams is streams and not w.hostile)


def led(world: World) -> None:
    """From the start until one instance leads the group at rest."""
    world.config = replace(world.config, adopt="take-over", standby=False)
    for instance in world.instances:
        instance.config = world.config
    world.instances[0].start()
    world.run_until(5.0)
    for member in world.members:
        member.start()
    must_settle(world)
    must_lead(world)


def lived_through(world: World, villain: Villain) -> None:
    """The promises hold while it lasts; then the group comes to rest, and is led. Raises ViolationError."""
    until = world.clock.now + villain.lasts_s
    villain.begins(world)
    while world.clock.now < until:
        world.run_until(min(until, world.clock.now + (villain.again_s or villain.lasts_s)))
        if villain.again_s:
            villain.begins(world)
    if not villain.ends_process and not world.instances[0].up:
        world.violate("the process has ended by itself")
    if villain.rests and (unsettled := world.checks.unsettled()):
        world.violate(f"not at rest {villain.lasts_s:.0f} s later: {unsettled}")
    villain.ends(world)
    for instance in world.instances[:1]:
        instance.start()  # what supervises it does so
    for member in world.members:
        if not member.running:
            member.start()
    must_settle(world)
    must_lead(world)


def _slow_brokers(world: World) -> None:
    world.network.latency_s = (0.05, 0.4)


def _quick_brokers(world: World) -> None:
    world.network.latency_s = (0.0005, 0.003)


def _hanging_solver(world: World) -> None:
    world.instances[0].slow_plan_s = 600.0
    world.members[0].crash()


def _answering_solver(world: World) -> None:
    world.instances[0].slow_plan_s = 0.0


def _pause(world: World) -> None:
    for member in world.members:
        member.pause(90.0)


def _keep_offsets(world: World) -> None:
    world.offsets_are_told = False
    world.members[0].crash()
    for process in world.processes[:1]:
        process.state.clear()  # its disk is lost: what it gets back has to be restored first
    world.clock.after(60.0, world.members[0].start)


def _tell_offsets(world: World) -> None:
    world.offsets_are_told = True


def _flicker(world: World) -> None:
    world.refuses_with = 0 if world.refuses_with else GROUP_AUTHORIZATION_FAILED


def _allow(world: World) -> None:
    world.refuses_with = 0


def _second(world: World) -> None:
    world.instances[1].start()


def _no_second(world: World) -> None:
    world.instances[1].crash()


def _nothing(world: World) -> None:
    """It has ended by itself."""
    del world


VILLAINS = {
    "brokers are slow": Villain(_slow_brokers, _quick_brokers, 300.0),
    "the solver hangs": Villain(_hanging_solver, _answering_solver, 120.0),
    "the application stands still": Villain(_pause, _nothing, 100.0),
    "committed offsets are not told": Villain(_keep_offsets, _tell_offsets, 600.0, rests=True),
    "an ACL flickers": Villain(_flicker, _allow, 60.0, again_s=7.0),
    "a second process starts under the same instance id": Villain(
        _second, _no_second, 120.0, again_s=20.0, ends_process=True
    ),
}


def approached_slowly(world: World) -> None:
    """An instance comes to a group that members lead, of brokers that answer so slowly that a take-over would not end
    in time. Raises ViolationError if members are disturbed in vain."""
    for member in world.members:
        member.start()
    world.run_until(120.0, lambda: not world.checks.unsettled())
    world.config = replace(world.config, adopt="take-over", standby=False)
    _slow_brokers(world)
    world.run_until(world.clock.now + 30.0)
    generation = world.broker.group.generation
    world.instances[0].config = world.config
    world.instances[0].start()
    led = world.run_until(world.clock.now + 120.0, world.checks.bellwether_leads)
    if not led and world.broker.group.generation != generation:
        world.violate("members were disturbed in vain: brokers are too slow for a take-over")


def changed(world: World) -> None:
    """Members of a group at rest go and come back, one after the other: two rebalances each are enough. Raises
    ViolationError."""
    for member in world.members:
        for change in (member.close, member.start):
            before = world.broker.group.generation
            change()
            world.run_until(world.clock.now + CHANGED_S)
            rebalances = world.broker.group.generation - before
            if rebalances > REBALANCES_MAX or world.checks.unsettled():
                world.violate(f"{rebalances} rebalances after {member.name} came or went; {world.checks.unsettled()}")
