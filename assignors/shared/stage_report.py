"""The report of one stage of a chain, for consumer groups and Streams applications alike."""

from collections.abc import Callable
from dataclasses import dataclass, field

from bellwether_kafka.assignors.shared.dense_views import BoolArray, IntArray

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class StageReport:
    """The report of one stage: its own score before and after, whether its plan was taken, and why in one sentence.

    `owner` holds all owners after the stage, so that `explain` can name the stage that moved an item. `took_s` is its
    duration in seconds, 0.0 without a clock. `orders` are the operators' orders behind it, "" for none. `basis` is what
    its weights are made of, "" if it uses none. `released` marks the items that the stage took from their owners before
    the stages before it placed them, None for none.
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
    basis: str = ""
    released: BoolArray | None = field(default=None, compare=False, repr=False)


def no_clock() -> float:
    """Returns 0.0 always, so that all durations are 0.0."""
    return 0.0
