"""What a measurement of any side gives, how long all are measured, and by which clock."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

LEAST_WARM_RUNS = 2
LEAST_RUNS = 5
MOST_RUNS = 200
# The peers read it too. "cpu": CPU time of the deciding thread, for machines that are busy with other work.
CLOCK = "BENCH_CLOCK"

T = TypeVar("T")


def now() -> float:
    """Seconds by the clock that is asked for."""
    return time.thread_time() if os.environ.get(CLOCK) == "cpu" else time.perf_counter()


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """Returns the milliseconds that the work took, and its result."""
    start = now()
    result = work()
    return (now() - start) * 1000, result


def timed_runs(work: Callable[[], T], least: int, seconds: float, most: int = sys.maxsize) -> Iterator[tuple[float, T]]:
    """Yields `timed` of at least so many runs, and of more until the time is up."""
    until = time.perf_counter() + seconds
    for run in range(most):
        if run >= least and time.perf_counter() >= until:
            return
        yield timed(work)


@dataclass(frozen=True, slots=True)
class Phases:
    """Milliseconds of one run, by phase."""

    decode: float
    assign: float
    encode: float

    @property
    def total(self) -> float:
        return self.decode + self.assign + self.encode


@dataclass(frozen=True, slots=True)
class Outcome:
    """All measured runs of one side and the assignment bytes of the last one, in the order of the members.

    `first` is the very first run of the process in milliseconds: real rebalances are rare, and their leaders cold.
    """

    first: float
    runs: tuple[Phases, ...]
    assignments: tuple[bytes, ...]

    @property
    def best(self) -> Phases:
        return min(self.runs, key=lambda run: run.total)

    @property
    def median(self) -> Phases:
        return sorted(self.runs, key=lambda run: run.total)[len(self.runs) // 2]
