"""What one stage of a chain did, for consumer groups and Streams applications alike."""

from collections.abc import Callable
from dataclasses import dataclass, field

from bellwether_kafka.assignors.shared.model import IntArray

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class StageReport:
    """What one stage did: its own score before and after, whether its plan was taken, and why in one sentence.

    `owner` is where everything was after it, so that `explain` can name the stage that moved something. `took_s` is
    how long it took, 0.0 without a clock. `orders` are the sentences of operators behind it, "" for none.
    """

    stage: str
    hard: bool
    before: float
    after: float
    taken: bool
    reason: str
    owner: IntArray | None = field(default=None, compare=False, repr=False)
    took_s: float = field(default=0.0, compare=False, repr=False)
    orders: str = ""


def no_clock() -> float:
    """Time stands still: durations are 0.0."""
    return 0.0
