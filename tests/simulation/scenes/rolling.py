"""An application whose leader may not be removed, led by a member, through rolling restarts: it is adopted, nobody who
lives is removed, and all promises hold.

Ghosts are known from the world, as soon as a process that is back is listed; that proof is tested elsewhere. What is
simulated is the order: Bellwether comes into the rebalance, then ghosts are removed.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.membership import Adopt, NotLeading, Obstacle, State
from tests.simulation.instance import Instance
from tests.simulation.scenes.absences import remove

if TYPE_CHECKING:
    from tests.simulation.world import World

UUID_LENGTH = 36
GUARD = Obstacle(NotLeading.MEMBER_LEADS, "it is exactly once")
REFRESH_S, WAIT_S, IN_FRONT_POLL_S = 0.25, 3.0, 0.02
REST_S, LED_S, BACK_S = 120.0, 30.0, (1.0, 6.0)


class Ghosts:
    """The watch over ghosts beside an instance. `removed`: how many."""

    def __init__(self, world: "World", instance: Instance, *, comes_before: bool = True) -> None:
        self.world, self.instance = world, instance
        self.removed = 0
        self._comes_before = comes_before
        self._refresh()

    def _refresh(self) -> None:
        dead = self._dead()
        if not dead:
            self.world.clock.after(REFRESH_S, self._refresh)
            return
        machine = self.instance.machine
        if machine is not None and machine.state is State.WATCHING and self._comes_before:
            self.instance.post(membership.DeathsProven(self.world.broker.group.describe(), dead))
        self.world.clock.after(IN_FRONT_POLL_S, lambda: self._remove(dead, self.world.clock.now + WAIT_S))

    def _remove(self, dead: tuple[str, ...], limit: float) -> None:
        machine = self.instance.machine
        waits = machine is not None and machine.state is State.APPROACHING and not self._in_front()
        if waits and self.world.clock.now < limit:
            self.world.clock.after(IN_FRONT_POLL_S, lambda: self._remove(dead, limit))
            return
        self.removed += len(dead)
        remove(self.world, dead, "the watch over ghosts")
        self.world.clock.after(REFRESH_S, self._refresh)

    def _in_front(self) -> bool:
        machine = self.instance.machine
        listed = {m.member_id for m in self.world.broker.group.describe().members}
        return machine is not None and machine.in_front in listed

    def _dead(self) -> tuple[str, ...]:
        """Members of an earlier life of a process, of which a thread of the present one is listed."""
        listed = [m.member_id for m in self.world.broker.group.describe().members]
        dead: list[str] = []
        for process in self.world.processes:
            alive = {thread.member_id for thread in process.threads if thread.running}
            of_process = {name for thread in process.threads for name in self._names(thread.name, listed)}
            if alive & set(listed):
                dead += sorted(of_process - alive)
        return tuple(dead)

    @staticmethod
    def _names(thread: str, listed: list[str]) -> list[str]:
        return [member_id for member_id in listed if member_id[: -UUID_LENGTH - 1] == thread]


def led_by_a_member(world: "World", adopt: Adopt = "take-over") -> Instance:
    """At rest; then an instance comes, which may remove no live leader."""
    for thread in world.members:
        thread.start()
    world.run_until(REST_S, lambda: _rests(world) and world.clock.now > REST_S / 2)
    instance = world.instances[0]
    instance.config = replace(instance.config, adopt=adopt, takeover_obstacle=GUARD, standby=False)
    instance.start()
    world.run_until(world.clock.now + 10.0)
    return instance


def rolled(world: "World", instance: Instance) -> bool:
    """Every process is restarted, one after the other, until the instance leads; whether it does."""
    for process in world.processes:
        world.log(f"---- {process.name} is restarted ----")
        process.threads[0].crash()  # Kafka Streams does not leave when it is closed
        world.run_until(world.clock.now + world.more.uniform(*BACK_S))
        process.threads[0].start()
        world.run_until(world.clock.now + REST_S, lambda: _rests(world) and all(t.running for t in world.members))
        world.run_until(world.clock.now + LED_S / 2)
        if instance.leads:
            return True
    return False


def _rests(world: "World") -> bool:
    return world.broker.group.describe().state == "Stable"
