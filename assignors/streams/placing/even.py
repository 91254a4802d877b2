"""Evens out active tasks with as few moves as possible: first in total over all threads, then each subtopology over all
threads.

KIP-441 promises both kinds of balance; the shipped assignor has only the first, and places everything anew each time.
Here placement starts from the present owners. Tasks that must move prefer processes that already have their state.

* What operators' rules leave to the placement are `TaskLimits`.
* Capacity, after YARN and Heron: a process's number in a client tag (cores, memory, ...) weighs the balance instead of
  its threads. Every process then has within one task of its weighted share of the stateful tasks, and of all tasks too,
  unless both together are impossible (`QuotaEvener`).

Example: process 1 runs 0_0, 0_1 and 1_0 on one thread, process 2 runs 1_1 on another. One task moves, and it is one of
subtopology 0, so that each process has one task of it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from bellwether_kafka.assignors.shared import BoolArray, FloatArray, IntArray, LongArray
from bellwether_kafka.assignors.streams.application import LATEST_OFFSET, PINNED, StreamsView, TaskLags


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


_LEAST_GAIN = 1e-9
_MOST_REPEATS = 10
Remote = Callable[[int, int], int]


class Evener:
    """Evens out one set of tasks. `owner[t]` is the process of each of `tasks`, and is changed in place. `others[p]`
    counts active tasks of process p that stay where they are but count in its load. `remote(task, process)` is the rack
    cost of a place, if racks count. `resumed` are processes that get back the tasks whose home they are, even if that
    does not make the totals more even. Under `limits` tasks go where they may; tasks of a subtopology that may go to
    different processes are evened out apart."""

    def __init__(
        self,
        tasks: IntArray,
        owner: IntArray,
        subtopology: IntArray,
        others: LongArray,
        capacity: IntArray,
        lags: TaskLags,
        remote: Remote | None = None,
        resumed: Sequence[int] = (),
        limits: TaskLimits | None = None,
    ) -> None:
        self.owner = owner
        self._resumed = resumed
        self.remote = remote or (lambda _task, _process: 0)
        self._tasks = tasks
        self._capacity = capacity.astype(np.float64)
        self._lags = lags
        of_row = subtopology[tasks].astype(np.int64)
        if limits is not None:
            of_row = of_row * len(limits.may) + limits.kind[tasks]
        rows, row = np.unique(of_row, return_inverse=True)
        self._may = None if limits is None else limits.may[rows % len(limits.may)]
        self._size = len(capacity)
        self._row = np.full(len(owner), -1, dtype=np.int64)
        self._row[tasks] = row.reshape(-1)
        cell = self._row[tasks] * self._size + owner[tasks]
        self._count = np.bincount(cell, minlength=len(rows) * self._size).reshape(len(rows), self._size)
        self._total = self._count.sum(axis=0) + others
        self._mine: dict[tuple[int, int], set[int]] = defaultdict(set)
        self._begin(capacity, others)
        if limits is not None:
            self._reserve(limits.away)

    def _begin(self, capacity: IntArray, others: LongArray) -> None:
        """Hook for subclasses that need the loads from before the first move."""

    def run(self, *, subtopologies: bool = True) -> None:
        """Evens out the totals, then each subtopology without making the totals uneven."""
        rows = range(len(self._count)) if subtopologies else ()
        if not self._resumed and self._next_pair() is None and not any(map(self._worst_pair, rows)):
            return
        for task, row, process in zip(
            self._tasks.tolist(), self._row[self._tasks].tolist(), self.owner[self._tasks].tolist(), strict=True
        ):
            self._mine[row, process].add(task)
        for process in self._resumed:
            self._take(process, self._lags.at_home(process), self._may_return)
        self._even_totals()
        for _ in range(_MOST_REPEATS):
            while any(self._even_subtopology(row) for row in rows):
                pass
            if self._may is None or self._next_pair() is None:
                return
            # An exchange may have brought a task from where it could not go on to where it can.
            self._even_totals()

    def _worst_pair(self, row: int) -> tuple[int, int] | None:
        """Returns the most and the least loaded process of a subtopology if moving a task between them would improve
        its balance, else None."""
        count = self._count[row]
        giving, taking = (count - 1) / self._capacity, (count + 1) / self._capacity
        if self._may is not None:
            taking[~self._may[row]] = np.inf
        source, destination = int(giving.argmax()), int(taking.argmin())
        return (source, destination) if giving[source] >= taking[destination] else None

    def _reserve(self, away: BoolArray) -> None:
        """Counts processes that are away with what they would take if they were back, and those that would give it
        without. So the others need not take what they would give back, and one that has joined gets its share."""
        total = self._total.copy()
        while away.any():
            giving, taking = self._loads(total)
            giving[away] = -np.inf
            back, here = np.where(away, taking, np.inf), np.where(away, np.inf, taking)
            source, destination = int(giving.argmax()), int((back if back.min() <= here.min() else here).argmin())
            if giving[source] < taking[destination]:
                return
            for counts in (total, self._total) if away[destination] else (total,):
                counts[source] -= 1
                counts[destination] += 1

    def _even_totals(self) -> None:
        """Evens out the totals. Tasks for which a process has warmed up go there first, even if other processes could
        take them too."""
        for process in self._takers():
            self._take(process, self._lags.choices(process), self._can_move)
        while (pair := self._next_pair()) is not None:
            source, destination = pair
            movable = self._count[:, source] > 0
            rows = np.flatnonzero(movable if self._may is None else movable & self._may[:, destination])
            if not len(rows):
                return
            lead = self._count[rows, source] / self._capacity[source]
            lead = lead - self._count[rows, destination] / self._capacity[destination]
            self._move(min(self._mine[int(rows[lead.argmax()]), source]), source, destination)

    def _take(self, process: int, tasks: Iterable[int], may_move: Callable[[int, int], bool]) -> None:
        """Moves those of these tasks to the process that their owners can spare."""
        room = self._capacity[process]
        for task in self._by_harm(tasks, process):
            row, source = int(self._row[task]), int(self.owner[task])
            if row < 0 or source == process:
                continue
            lead = self._count[row, source] / self._capacity[source] > self._count[row, process] / room
            if lead and self._may_take(row, process) and may_move(source, process):
                self._move(task, source, process)

    def _may_take(self, row: int, process: int) -> bool:
        return self._may is None or bool(self._may[row, process])

    def _next_pair(self) -> tuple[int, int] | None:
        """Returns between which processes to move a task to even out the totals, None if they are even."""
        return self._pair(self._total)

    def _pair(self, total: LongArray) -> tuple[int, int] | None:
        """Returns between which processes to move a task if these are the totals, None if they are even."""
        giving, taking = self._loads(total)
        if self._may is None:
            source, destination = int(giving.argmax()), int(taking.argmin())
        else:
            gives, takes = np.where(self._count > 0, giving, -np.inf), np.where(self._may, taking, np.inf)
            sources, destinations = gives.argmax(axis=1), takes.argmin(axis=1)
            row = int((gives.max(axis=1) - takes.min(axis=1)).argmax())
            source, destination = int(sources[row]), int(destinations[row])
        return (source, destination) if giving[source] >= taking[destination] else None

    def _loads(self, total: LongArray) -> tuple[FloatArray, FloatArray]:
        """Returns the load of each process without a task of its own, and with another one. A task should move where
        the first is at least the second."""
        return (total - 1) / self._capacity, (total + 1) / self._capacity

    def _takers(self) -> list[int]:
        """Returns the processes that could take a task from the fullest one for the sake of totals."""
        most = ((self._total - 1) / self._capacity).max()
        takers: list[int] = np.flatnonzero((self._total + 1) / self._capacity <= most).tolist()
        return takers

    def _can_move(self, source: int, destination: int) -> bool:
        """Returns whether moving a task between these makes totals no less even."""
        spare = (self._total[source] - 1) / self._capacity[source]
        return bool(spare >= (self._total[destination] + 1) / self._capacity[destination])

    def _may_return(self, source: int, destination: int) -> bool:
        """Returns whether totals are as even as before after moving a task between these."""
        load = (self._total[destination] + 1) / self._capacity[destination]
        return bool(self._total[source] / self._capacity[source] >= load)

    def _even_subtopology(self, row: int) -> bool:
        """Moves tasks of one subtopology. Returns whether it moved any."""
        moved = False
        while (pair := self._worst_pair(row)) is not None:
            source, destination = pair
            back = -1
            if not self._settled_after(source, destination):
                back = self._in_return(row, source, destination)
                if back < 0:
                    return moved
            self._move(self._choose(row, source, destination), source, destination)
            if back >= 0:
                self._move(self._choose(back, destination, source), destination, source)
            moved = True
        return moved

    def _settled_after(self, source: int, destination: int) -> bool:
        """Returns whether totals stay even if one task moves and none comes back."""
        total = self._total.copy()
        total[source] -= 1
        total[destination] += 1
        return self._pair(total) is None

    def _in_return(self, row: int, source: int, destination: int) -> int:
        """Returns the subtopology whose task should best come back, -1 if any would undo the gain."""
        gain = self._cost(self._count[row, source], source, self._count[row, destination], destination)
        back = self._cost(self._count[:, destination], destination, self._count[:, source], source)
        comes = self._count[:, destination] > 0
        back = np.where(comes if self._may is None else comes & self._may[:, source], back, np.inf)
        back[row] = np.inf
        best = int(back.argmin())
        return best if gain + back[best] < -_LEAST_GAIN else -1

    def _cost(
        self, giver_count: LongArray, giver: int, taker_count: LongArray, taker: int
    ) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        """Returns how moving one task changes the sum of count² / threads, which is smallest if everything is even."""
        gives = (1 - 2 * giver_count) / self._capacity[giver]
        takes = (1 + 2 * taker_count) / self._capacity[taker]
        change: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = gives + takes
        return change

    def _choose(self, row: int, source: int, destination: int) -> int:
        mine = self._mine[row, source]
        stated = self._with_state(mine, destination)
        return min(mine) if stated is None else stated

    def _with_state(self, tasks: Iterable[int], process: int) -> int | None:
        """Returns the task whose home is this process, or else the one of which it has the most state; None if there is
        neither."""
        choices = self._lags.choices(process)
        return next(iter(self._by_harm((task for task in tasks if task in choices), process)), None)

    def _by_harm(self, tasks: Iterable[int], process: int) -> list[int]:
        """Returns the tasks that the process may take over, in the best order.

        Tasks whose home it is come first, then those that it has caught up on. Among caught-up tasks, those that run
        nowhere come first: a process must start them anyway, whereas a running task would have to stop. Among tasks to
        warm up for, running ones come first: they continue meanwhile, whereas one that runs nowhere is on its way to a
        process that has caught up on it. Then come tasks whose racks prefer this process: in an exchange for the sake
        of racks one task may have moved while the other warmed up, and the other should follow.
        """
        lags, home = self._lags.choices(process), self._lags.home

        def harm(task: int) -> tuple[bool, bool, bool, int, int, int]:
            misplaced = not len(home) or int(home[task]) != process
            running = int(self._lags.least[task]) == LATEST_OFFSET
            foreign = self.remote(task, process) - self.remote(task, int(self.owner[task]))
            late = lags[task] > self._lags.acceptable_lag != PINNED
            return (misplaced, late, running != late, foreign, lags[task], task)

        return sorted(tasks, key=harm)

    def _move(self, task: int, source: int, destination: int) -> None:
        row = int(self._row[task])
        self._mine[row, source].remove(task)
        self._mine[row, destination].add(task)
        self._count[row, source] -= 1
        self._count[row, destination] += 1
        self._total[source] -= 1
        self._total[destination] += 1
        self.owner[task] = destination


WEIGHT_MAX = 2**31 - 1
_LISTED = 3


def weights(view: StreamsView, tag: str) -> IntArray | str:
    """Returns the weights of all processes, or why threads must count instead: if one process has no usable tag (for
    example during a rolling change of tags), weights would compare cores with threads."""
    tagged: list[int] = []
    wrong: list[str] = []
    for process in view.processes:
        text = dict(process.tags).get(tag, "")
        weight = int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else 0
        tagged.append(weight)
        if not 0 < weight <= WEIGHT_MAX:
            wrong.append(f"{process.process_id} ({f'{tag}={text}' if text else 'no tag'})")
    if wrong:
        more = f" and {len(wrong) - _LISTED} more" if len(wrong) > _LISTED else ""
        return (
            f"threads weigh instead of the client tag {tag}, which must be a whole number from 1 to {WEIGHT_MAX} on"
            f" every process, but is not on {', '.join(wrong[:_LISTED])}{more}"
        )
    return np.array(tagged, dtype=np.int32)


def quotas(total: int, weight: IntArray, current: LongArray, least: LongArray) -> LongArray:
    """Returns how many of `total` tasks each process should have: its exact share rounded down or up. Processes are
    rounded up in this order: those that must have that many (`least`), those that have that many now (`current`), those
    that lose most by rounding. If `least` exceeds the quota, other processes get fewer."""
    exact = [total * w for w in weight.tolist()]
    whole = sum(weight.tolist())
    floor = np.array([e // whole for e in exact], dtype=np.int64)
    rest = np.array([e % whole for e in exact], dtype=np.int64)
    order = np.lexsort((np.arange(len(floor)), -rest, current <= floor, least <= floor, rest == 0))
    quota = floor
    quota[order[: total - int(floor.sum())]] += 1
    quota = np.maximum(quota, least)
    while (excess := int(quota.sum()) - total) > 0:
        spare = np.flatnonzero(quota > least)
        order = np.argsort(-(quota[spare] - np.array(exact, dtype=np.float64)[spare] / whole), kind="stable")
        quota[spare[order[:excess]]] -= 1
    return quota


def deviation(view: StreamsView, count: LongArray) -> float:
    """Returns the largest distance of a process from its weighted share, in tasks; `view.capacity` holds the
    weights."""
    share = int(count.sum()) * view.capacity / max(1, int(view.capacity.sum(dtype=np.int64)))
    return float(np.abs(count - share).max(initial=0.0))


class QuotaEvener(Evener):
    """Evens out to quotas: totals first, then subtopologies by exchange only."""

    def _begin(self, capacity: IntArray, others: LongArray) -> None:
        self._quota = quotas(int(self._total.sum()), capacity, self._total, others)

    def _loads(self, total: LongArray) -> tuple[FloatArray, FloatArray]:
        """Returns how far processes are above and below their quotas, infinitely far from moving where they are not."""
        over = (total - self._quota).astype(np.float64)
        return np.where(over > 0, over, -np.inf), np.where(over < 0, over, np.inf)

    def _takers(self) -> list[int]:
        takers: list[int] = np.flatnonzero(self._total < self._quota).tolist()
        return takers

    def _can_move(self, source: int, destination: int) -> bool:
        return bool(self._total[source] > self._quota[source] and self._total[destination] < self._quota[destination])

    def _may_return(self, source: int, destination: int) -> bool:
        return self._can_move(source, destination)

    def _settled_after(self, source: int, destination: int) -> bool:  # noqa: ARG002 - totals have their quotas
        return False


def deal_to_quotas(counts: LongArray, capacity: IntArray, tasks: int) -> IntArray:
    """Returns the owners of `tasks` tasks without an owner, in addition to `counts` that are placed; see
    `high_availability.deal`."""
    quota = quotas(int(counts.sum()) + tasks, capacity, counts, np.zeros(len(counts), dtype=np.int64))
    room = np.maximum(quota - counts, 0)
    return np.repeat(np.arange(len(counts), dtype=np.int32), room)[:tasks]
