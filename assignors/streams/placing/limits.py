"""What an operator's rules leave to the placement of tasks."""

from dataclasses import dataclass

import numpy as np

from bellwether_kafka.assignors.shared import BoolArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TaskLimits:
    """Tasks of one kind may go to the same processes: `kind[t]` numbers them, and `may[kind, p]` marks the processes.

    `away[p]`: process p is being evacuated. It gets nothing, but will come back to its share, so tasks of the others
    move for the sake of balance only as far as that does not provide for it. `free[t]`: task t may go to every process
    that is not away.
    """

    kind: IntArray
    may: BoolArray
    away: BoolArray
    free: BoolArray

    @classmethod
    def of(cls, allowed: BoolArray, away: BoolArray) -> "TaskLimits":
        """Returns the limits for a table of tasks (rows) and processes; nothing limits a task that none may have. If
        all processes are being evacuated, none is."""
        away = away & ~away.all()
        allowed = allowed | ~allowed.any(axis=1, keepdims=True)
        _, first, row = np.unique(np.packbits(allowed, axis=1), axis=0, return_index=True, return_inverse=True)
        kind: IntArray = row.reshape(-1).astype(np.int32)
        may: BoolArray = allowed[first] & ~away
        may |= ~may.any(axis=1, keepdims=True)
        everywhere: BoolArray = np.all(may | away, axis=1)
        return cls(kind=kind, may=may, away=away, free=everywhere[kind])
