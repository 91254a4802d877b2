"""Ranks the ways to place changelogs in subtopologies by their fit to the offset sums that members report. Pure."""

import math
from collections.abc import Mapping, Sequence
from itertools import product

from bellwether_kafka.assignors.shared import LongArray
from bellwether_kafka.protocol.primitives import TaskId

_COMBINATIONS_MAX = 20_000
# A guess by offsets must be better than the second best by this factor, and may lack this share of the ends. One that
# leaves a changelog out must be nearer, because a store that is being restored passes every sum on its way.
_MARGIN, _SLACK, _LEFT_OUT_SLACK = 4, 0.1, 0.005

OffsetSum = tuple[TaskId, int]
Ends = Mapping[str, LongArray]  # end offsets by partition
Places = Mapping[str, int | None]  # the subtopology of each changelog, None if it is open


def by_offsets(
    placed: Places, options: Mapping[str, Sequence[int | None]], sums: Sequence[OffsetSum], ends: Ends
) -> dict[str, int | None]:
    """Returns the one placement of open changelogs whose ends nearly equal the offset sums; {} without one."""
    asked = {n for choice in options.values() for n in choice if n is not None}
    sums = [(task, value) for task, value in sums if value > 0 and task.subtopology in asked]
    if not sums or any(t not in ends for t in (*options, *placed)):
        return {}
    kept = {*placed.values()}
    scored = [way for way in ranked_by_offsets(placed, options, sums, ends) if asked <= kept | {*way[2]}]
    if not scored or scored[0][0] > (_LEFT_OUT_SLACK if None in scored[0][2] else _SLACK) * scored[0][1]:
        return {}
    if len(scored) > 1 and scored[1][0] < _MARGIN * max(1, scored[0][0]):
        return {}
    return dict(zip(options, scored[0][2], strict=True))


def ranked_by_offsets(
    placed: Places, options: Mapping[str, Sequence[int | None]], sums: Sequence[OffsetSum], ends: Ends
) -> list[tuple[int, int, tuple[int | None, ...]]]:
    """Returns (records that the sums lack to the ends, sum of the ends, choice) for each choice in which no sum exceeds
    its end, in ascending order; [] if there are too many choices. Sums of subtopologies without a changelog are
    ignored."""
    if math.prod(map(len, options.values())) > _COMBINATIONS_MAX:
        return []
    ways: list[tuple[int, int, tuple[int | None, ...]]] = []
    for choice in product(*options.values()):
        whole = {**placed, **dict(zip(options, choice, strict=True))}
        served = {*whole.values()}
        sums_known = [(_end_sum(task, whole, ends), value) for task, value in sums if task.subtopology in served]
        if all(end >= value for end, value in sums_known):
            expected = sum(end for end, _ in sums_known)
            ways.append((expected - sum(value for _, value in sums_known), expected, choice))
    return sorted(ways, key=lambda way: way[:2])


def _end_sum(task: TaskId, placed: Places, ends: Ends) -> int:
    mine = [t for t, number in placed.items() if number == task.subtopology]
    return sum(int(ends[t][task.partition]) for t in mine if task.partition < len(ends[t]))
