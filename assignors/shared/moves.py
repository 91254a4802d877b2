"""What changes between two plans."""

from dataclasses import dataclass

from bellwether_kafka.assignors.shared.model import NOBODY, IntArray


@dataclass(frozen=True, slots=True)
class Moves:
    """Partitions by what happens to them between two plans: `new` had no owner before, `lost` has none after."""

    kept: int
    moved: int
    new: int
    lost: int


def moves(before: IntArray, after: IntArray) -> Moves:
    """Compares two owner arrays in the same coordinates."""
    had, has = before != NOBODY, after != NOBODY
    kept = int((had & (before == after)).sum())
    both = int((had & has).sum())
    return Moves(kept=kept, moved=both - kept, new=int(has.sum()) - both, lost=int(had.sum()) - both)
