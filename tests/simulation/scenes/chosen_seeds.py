"""Seeds whose world suits a scene."""

from tests.simulation.world import World


def dynamic(count: int) -> list[int]:
    """Seeds of applications whose members have no instance ids."""
    return [seed for seed in applications(count) if not any(m.instance_id for m in World(seed).members)]


def applications(count: int) -> list[int]:
    """The first seeds of applications with several processes."""
    several = (seed for seed in range(1_000) if (w := World(seed)).streams and len(w.processes) > 1)
    return [seed for seed, _ in zip(several, range(count), strict=False)]
