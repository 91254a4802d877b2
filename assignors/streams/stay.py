"""Stateless tasks stay on the threads that run them, as long as that keeps the threads of a process even.

Kafka deals them anew in each round, beside a number of standbys that changes with every warm-up, so tasks go from
thread to thread of one process, and each runs nowhere until the next round hands it out. Only active tasks count here:
a standby is no work for a stream thread.
"""

from collections import defaultdict

import numpy as np

from assignors.model import NOBODY, IntArray
from assignors.streams.model import StreamsPlan, StreamsView


def stay(view: StreamsView, plan: StreamsPlan, dealt: IntArray) -> IntArray:
    """The thread of each active task: `dealt`, with stateless tasks back on their threads and the others beside them.

    Processes none of whose stateless tasks runs on one of their threads already keep what was dealt.
    """
    process_of = np.append(np.repeat(np.arange(view.size), view.capacity), NOBODY)
    tasks = np.flatnonzero(~view.tasks.stateful & (plan.active != NOBODY)).astype(np.int32)
    here = process_of[view.running_on[tasks]] == plan.active[tasks]
    if (dealt[tasks[here]] == view.running_on[tasks[here]]).all():
        return dealt
    threads = dealt.copy()
    threads[tasks[here]] = view.running_on[tasks[here]]
    left = tasks[~here & np.isin(plan.active[tasks], plan.active[tasks[here]])]
    placed = threads[threads != NOBODY]
    count = np.bincount(placed, minlength=len(process_of) - 1) - np.bincount(
        threads[left], minlength=len(process_of) - 1
    )
    counts = count.tolist()
    first = np.cumsum([0, *view.capacity.tolist()]).tolist()
    for task in left.tolist():
        process = int(plan.active[task])
        lightest = min(range(first[process], first[process + 1]), key=counts.__getitem__)
        threads[task] = lightest
        counts[lightest] += 1
    _even(view, plan, threads, tasks, counts, first)
    return threads


def _even(
    view: StreamsView, plan: StreamsPlan, threads: IntArray, tasks: IntArray, counts: list[int], first: list[int]
) -> None:
    """Moves stateless tasks to other threads of their process while two of its threads differ by more than one."""
    uneven = [p for p in range(view.size) if max(mine := counts[first[p] : first[p + 1]]) - min(mine) > 1]
    if not uneven:
        return
    movable: dict[int, list[int]] = defaultdict(list)
    for task in tasks[np.isin(plan.active[tasks], uneven)].tolist():
        movable[int(threads[task])].append(task)
    for process in uneven:
        mine = list(range(first[process], first[process + 1]))
        while givers := [t for t in mine if movable[t]]:
            source, lightest = max(givers, key=counts.__getitem__), min(mine, key=counts.__getitem__)
            if counts[source] - counts[lightest] <= 1:
                break
            task = movable[source].pop()
            movable[lightest].append(task)
            threads[task] = lightest
            counts[source] -= 1
            counts[lightest] += 1
