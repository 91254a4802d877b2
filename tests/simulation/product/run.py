"""A seed with the service itself, from its beginning to its end; as a command, a trace or a table of many."""

import argparse
import sys

from tests.simulation.checks import ViolationError
from tests.simulation.product.world import ServedWorld
from tests.simulation.run import Result, live, table


def run_seed(seed: int, *, lasting_hostile: bool = False) -> tuple[ServedWorld, str]:
    """The world after it, and the violation, "" for none."""
    with ServedWorld(seed, lasting_hostile=lasting_hostile) as world:
        try:
            live(world)
        except ViolationError as violation:
            return world, str(violation)
    return world, ""


def run_seeds(first: int, count: int) -> Result:
    result = Result()
    for seed in range(first, first + count):
        world, violation = run_seed(seed)
        result.add(world)
        if violation:
            result.failed.append(violation)
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description="Deterministic simulation of groups and the service that leads them.")
    parser.add_argument("--seed", type=int, help="print the trace of this seed")
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds to run without a trace")
    parser.add_argument("--first", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.seed is not None:
        world, violation = run_seed(arguments.seed)
        print("\n".join(world.reported))
        print(violation or "every promise was kept")
        return 1 if violation else 0
    result = run_seeds(arguments.first, arguments.seeds)
    print(table(result))
    return 1 if result.failed else 0


if __name__ == "__main__":
    sys.exit(main())
