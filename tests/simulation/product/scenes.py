"""What a service has to come through, one trouble at a time, while it leads a group at rest."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.simulation.product.world import ServedWorld
from tests.simulation.run import must_lead, must_settle

SEARCHED = 60  # seeds
LED_S = 300.0
GROUP_AUTHORIZATION_FAILED = 30


@dataclass(frozen=True)
class Villain:
    """`begins` may be called again every `again_s`; `ends` puts everything right. `rests`: the group has to come to
    rest while it lasts."""

    begins: Callable[[ServedWorld], None]
    ends: Callable[[ServedWorld], None]
    lasts_s: float
    again_s: float = 0.0
    rests: bool = False


def suitable(*, streams: bool) -> int:
    """A seed whose group may be taken over, without a hostile member."""
    return next(seed for seed in range(SEARCHED) if (w := ServedWorld(seed)).streams is streams and not w.hostile)


def led(world: ServedWorld) -> None:
    """From the start until one instance leads the group at rest."""
    world.config = replace(world.config, adopt="take-over", standby=False)
    for instance in world.served:
        instance.config = world.config
    world.served[0].start()
    world.run_until(5.0)
    for member in world.members:
        member.start()
    must_settle(world)
    must_lead(world)


def lived_through(world: ServedWorld, villain: Villain) -> None:
    """The promises hold while it lasts; then the group comes to rest, and is led. Raises ViolationError."""
    until = world.clock.now + villain.lasts_s
    villain.begins(world)
    while world.clock.now < until:
        world.run_until(min(until, world.clock.now + (villain.again_s or villain.lasts_s)))
        if villain.again_s:
            villain.begins(world)
    if villain.rests and (unsettled := world.checks.unsettled()):
        world.violate(f"not at rest {villain.lasts_s:.0f} s later: {unsettled}")
    villain.ends(world)
    for instance in world.served[:1]:
        instance.start()  # what supervises it does so
    for member in world.members:
        if not member.running:
            member.start()
    must_settle(world)
    must_lead(world)


def _slow_brokers(world: ServedWorld) -> None:
    world.network.latency_s = (0.05, 0.4)


def _quick_brokers(world: ServedWorld) -> None:
    world.network.latency_s = (0.0005, 0.003)


def _hanging_solver(world: ServedWorld) -> None:
    world.served[0].slow_plan_s = 600.0
    world.members[0].crash()


def _answering_solver(world: ServedWorld) -> None:
    world.served[0].slow_plan_s = 0.0


def _pause(world: ServedWorld) -> None:
    for member in world.members:
        member.pause(90.0)


def _keep_offsets(world: ServedWorld) -> None:
    world.offsets_are_told = False
    world.members[0].crash()
    for process in world.processes[:1]:
        process.state.clear()  # its disk is lost: what it gets back has to be restored first
    world.clock.after(60.0, world.members[0].start)


def _tell_offsets(world: ServedWorld) -> None:
    world.offsets_are_told = True


def _flicker(world: ServedWorld) -> None:
    world.refuses_with = 0 if world.refuses_with else GROUP_AUTHORIZATION_FAILED


def _allow(world: ServedWorld) -> None:
    world.refuses_with = 0


def _second(world: ServedWorld) -> None:
    world.served[1].start()


def _no_second(world: ServedWorld) -> None:
    world.served[1].crash()


def _nothing(world: ServedWorld) -> None:
    """It has ended by itself."""
    del world


VILLAINS = {
    "brokers are slow": Villain(_slow_brokers, _quick_brokers, 300.0),
    "the solver hangs": Villain(_hanging_solver, _answering_solver, 120.0),
    "the application stands still": Villain(_pause, _nothing, 100.0),
    "committed offsets are not told": Villain(_keep_offsets, _tell_offsets, 600.0, rests=True),
    "an ACL flickers": Villain(_flicker, _allow, 60.0, again_s=7.0),
    "a second process starts under the same instance id": Villain(_second, _no_second, 120.0, again_s=20.0),
}
