"""Capacity, after YARN and Heron: a process's number in a client tag (cores, memory, ...) weighs the balance instead of
its threads. Every process then has within one task of its weighted share of the stateful tasks, and of all tasks too,
unless both together are impossible."""

import numpy as np

from bellwether_kafka.assignors.shared import FloatArray, IntArray, LongArray
from bellwether_kafka.assignors.streams.application import StreamsView
from bellwether_kafka.assignors.streams.placing import Evener

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
