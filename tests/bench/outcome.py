"""What a measurement of either side gives, and how long both are measured."""

from dataclasses import dataclass

LEAST_WARM_RUNS = 2
LEAST_RUNS = 5
MOST_RUNS = 200


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
