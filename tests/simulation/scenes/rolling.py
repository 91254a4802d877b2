"""An application whose leader may not be removed, led by a member, through rolling restarts: it is adopted, nobody who
lives is removed, and all promises hold. Bellwether comes into the rebalance, then it removes the ghosts.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from bellwether_kafka.coordinator.ghosts import GhostOptions
from bellwether_kafka.coordinator.membership import Adopt, NotLeading, Obstacle
from tests.simulation.instance import Instance

if TYPE_CHECKING:
    from tests.simulation.world import World

GUARD = Obstacle(NotLeading.MEMBER_LEADS, "it is exactly once")
REST_S, LED_S, BACK_S = 120.0, 30.0, (1.0, 6.0)


def led_by_a_member(world: "World", adopt: Adopt = "take-over") -> Instance:
    """At rest; then an instance comes, which may remove no live leader."""
    for thread in world.members:
        thread.start()
    world.run_until(REST_S, lambda: _rests(world) and world.clock.now > REST_S / 2)
    world.ghosts = GhostOptions(client_ids_unique=True)
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
