"""From a plan on processes to a plan on threads, where active tasks stay on their threads while that keeps these even.


Kafka deals stateless tasks anew in each rebalance, beside a number of standbys that changes with every warm-up, and
stateful ones by lag, which a task has that is not yet restored. So tasks go from thread to thread of one process, and
each runs nowhere until the next rebalance hands it out. Only active tasks count here: a standby is no work for a stream
thread.
"""

from itertools import pairwise

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, BoolArray, IntArray, look_up, offsets, task_code
from bellwether_kafka.assignors.streams.application import StreamsPlan, StreamsView, ThreadPlan
from bellwether_kafka.assignors.streams.threads.deal import assign_threads


def stay(view: StreamsView, plan: StreamsPlan, dealt: IntArray) -> IntArray:
    """The thread of each active task: `dealt`, with tasks back on their threads and the others beside them. Stateful
    tasks are even on their own and all together, as in Kafka. Where nothing would stay, nothing changes."""
    process_of = np.repeat(np.arange(view.size), view.capacity)
    here = (look_up(process_of, view.running_on, NOBODY) == plan.active) & (plan.active != NOBODY)
    if (dealt[here] == view.running_on[here]).all():
        return dealt
    threads = np.where(here, view.running_on, dealt).astype(np.int32)
    touched = np.zeros(view.size, dtype=np.bool_)
    touched[plan.active[here]] = True
    mine: BoolArray = (plan.active != NOBODY) & look_up(touched, plan.active, False)
    stateful = view.tasks.stateful
    _Threads(view, plan, threads, here, mine & stateful, counted=stateful).even()
    _Threads(view, plan, threads, here, mine & ~stateful, counted=np.ones_like(stateful)).deal()
    return threads


class _Threads:
    """Threads of some processes, and the tasks among them that may change their thread."""

    def __init__(
        self,
        view: StreamsView,
        plan: StreamsPlan,
        threads: IntArray,
        here: BoolArray,
        movable: BoolArray,
        *,
        counted: BoolArray,
    ) -> None:
        self._threads = threads
        self._first = offsets(view.capacity).tolist()
        self._process = plan.active
        self._free = np.flatnonzero(movable & ~here).tolist()
        self._running = np.flatnonzero(movable & here).tolist()
        self._counts = np.bincount(threads[counted & (threads != NOBODY)], minlength=self._first[-1]).tolist()

    def deal(self) -> None:
        """Tasks that run on none of the threads go to the lightest ones; then everything is made even."""
        for task in self._free:
            self._counts[self._threads[task]] -= 1
        for task in self._free:
            process = int(self._process[task])
            lightest = min(range(self._first[process], self._first[process + 1]), key=self._counts.__getitem__)
            self._threads[task] = lightest
            self._counts[lightest] += 1
        self.even()

    def even(self) -> None:
        """Moves tasks while two threads of a process differ by more than one, those that do not run there first."""
        counts, first = self._counts, self._first
        uneven = [p for p, (at, end) in enumerate(pairwise(first)) if max(counts[at:end]) - min(counts[at:end]) > 1]
        if not uneven:
            return
        movable: dict[int, list[int]] = {}
        wanted = set(uneven)
        for task in (*self._running, *self._free):
            if int(self._process[task]) in wanted:
                movable.setdefault(int(self._threads[task]), []).append(task)
        for process in uneven:
            mine = list(range(first[process], first[process + 1]))
            while givers := [t for t in mine if movable.get(t)]:
                source, lightest = max(givers, key=counts.__getitem__), min(mine, key=counts.__getitem__)
                if counts[source] - counts[lightest] <= 1:
                    break
                task = movable[source].pop()
                movable.setdefault(lightest, []).append(task)
                self._threads[task] = lightest
                counts[source] -= 1
                counts[lightest] += 1


def spread(view: StreamsView, plan: StreamsPlan) -> ThreadPlan:
    """Kafka's dealing of tasks to threads, unless the plan wants otherwise. Every copy gets a thread of its process."""
    dealt = assign_threads(view, plan)
    active = np.full(view.tasks.size, NOBODY, dtype=np.int32)
    active[dealt.active.values] = dealt.active.row
    thread = dealt.standby.row
    process = np.repeat(np.arange(view.size), view.capacity)
    given = task_code(process[thread], dealt.standby.values, view.tasks.size)
    order = np.argsort(given)
    at = np.searchsorted(given[order], task_code(plan.standby_process, plan.standby_task, view.tasks.size))
    if plan.stays and len(view.running_on):
        active = stay(view, plan, active)
    return ThreadPlan(active, thread[order][at])
