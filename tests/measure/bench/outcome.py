"""What a measurement of any side gives, how long all are measured, and by which clock."""

import os
import time
from dataclasses import dataclass

LEAST_WARM_RUNS = 2
LEAST_RUNS = 5
MOST_RUNS = 200
# The peers read it too. "cpu": CPU time of the deciding thread, for machines that are busy with other work.
CLOCK = "BENCH_CLOCK"


def now() -> float:
    """Seconds by the clock that is asked for."""
    return time.thread_time() if os.environ.get(CLOCK) == "cpu" else time.perf_counter()


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
