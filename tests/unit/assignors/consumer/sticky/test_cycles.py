"""The search for negative cycles, on graphs that are small enough to see."""

import numpy as np

from bellwether_kafka.assignors.consumer.sticky.cycles import Relax, loops, relaxations
from bellwether_kafka.assignors.shared import IntArray, LongArray

FAR = 1_000


def dense(cost: list[list[int]]) -> Relax:
    """Arcs from rows to columns."""
    table = np.array(cost, dtype=np.int64)

    def relax(distance: IntArray | LongArray) -> tuple[LongArray, LongArray]:
        through = distance[:, None] + table
        return through.min(axis=0), through.argmin(axis=0)

    return relax


def test_without_a_negative_cycle_it_ends() -> None:
    """0 -> 1 -> 2 gains 3, and the way back costs as much."""
    cost = [[FAR, -1, FAR], [FAR, FAR, -2], [3, FAR, FAR]]
    rebalances = [
        (last.tolist(), cheaper.tolist()) for last, cheaper in relaxations(dense(cost), np.zeros(3, np.int64))
    ]
    assert rebalances == [([-1, 0, 1], [1, 2]), ([-1, 0, 1], [2])]


def test_a_negative_cycle_becomes_a_loop_of_last_arcs() -> None:
    cost = [[FAR, -1, FAR], [FAR, FAR, -2], [2, FAR, FAR]]
    for number, (last, _) in enumerate(relaxations(dense(cost), np.zeros(3, np.int64))):
        if cycles := loops(last):
            assert sorted(cycles[0]) == [0, 1, 2]
            return
        assert number < 3


def test_loops_of_a_map() -> None:
    assert loops(np.array([1, 0, 0, -1, 4, 3])) == [[0, 1], [4]]
