"""Converts a plan on processes to a plan on threads so that tasks stay on their threads as long as these are even.

Kafka assigns stateless tasks anew in each rebalance, together with a number of standbys that changes with every
warm-up, and stateful ones by lag, which a task has until it is restored. So tasks move between threads of one process,
and each runs nowhere until the next rebalance assigns it.

A copy stays on its thread too, and a task that the process takes over runs on the thread of its copy, because a thread
converts a standby to an active task and back without closing a store. Between two threads the one with the copy must
close it, and the other one fails to lock its directory and retries a second later
(docs/internals/client-quirks.md#java-streams-threads).

Active tasks are balanced on their own: a standby is no work for a stream thread.
"""

from itertools import pairwise

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, BoolArray, IntArray, lookup, offsets, task_code
from bellwether_kafka.assignors.streams.application import StreamsPlan, StreamsView, ThreadPlan
from bellwether_kafka.assignors.streams.threads.deal import assign_threads


def keep_threads(view: StreamsView, plan: StreamsPlan, dealt: IntArray, copies: "_Copies") -> IntArray:
    """Returns the thread of each active task: the one that runs it, else the one with its copy, else that of `dealt`,
    then evened out. Stateful tasks are even on their own and all tasks together, as in Kafka. If nothing would stay and
    all is even, it returns `dealt`."""
    process_of = np.repeat(np.arange(view.size), view.capacity)
    placed = plan.active != NOBODY
    here = (lookup(process_of, view.running_on, NOBODY) == plan.active) & placed
    copy = copies.thread(plan.active, np.arange(view.tasks.size, dtype=np.int32))
    beside = (copy != NOBODY) & ~here & placed
    wanted = np.where(here, view.running_on, np.where(beside, copy, dealt)).astype(np.int32)
    # If standbys stay, Kafka's distribution may be uneven.
    first = offsets(view.capacity)
    counts = np.bincount(wanted[placed], minlength=int(first[-1]))
    touched = np.maximum.reduceat(counts, first[:-1]) - np.minimum.reduceat(counts, first[:-1]) > 1
    if (dealt == wanted).all() and not touched.any():
        return dealt
    touched[plan.active[here | beside]] = True
    mine: BoolArray = placed & lookup(touched, plan.active, False)
    if plan.deadlines:  # until then nothing moves: a process is expected back, and then these threads are even again
        mine &= ~here & ~beside
    stateful = view.tasks.stateful
    _Threads(view, plan, wanted, here, beside, mine & stateful, counted=stateful).even()
    _Threads(view, plan, wanted, here, beside, mine & ~stateful, counted=np.ones_like(stateful)).deal()
    return wanted


def keep_standbys(view: StreamsView, plan: StreamsPlan, active: IntArray, copies: "_Copies") -> IntArray:
    """Returns the thread of each standby: the one with the copy, unless that has more than one above its share. Others
    are distributed so that all threads could take over their part of the tasks of any one process. `active` has the
    threads of active tasks."""
    deal = _StandbyDeal(view, plan, active)
    new = []
    for at, thread in enumerate(copies.thread(plan.standby_process, plan.standby_task).tolist()):
        if thread == NOBODY or not deal.room[thread]:
            new.append(at)
        else:
            deal.give(at, thread)
    for at in new:
        deal.give(at, deal.best(at))
    if _is_settled(view, plan):
        deal.even()
    return np.array(deal.threads, dtype=np.int32)


def _is_settled(view: StreamsView, plan: StreamsPlan) -> bool:
    """Returns whether no running task leaves its process, now or later. Then copies may change threads, because no task
    waits for them."""
    if plan.deadlines or plan.evacuated.any() or plan.probing:
        return False
    process_of = np.repeat(np.arange(view.size), view.capacity)
    leaves = (view.running_on != NOBODY) & (lookup(process_of, view.running_on, NOBODY) != plan.active)
    return not leaves.any() and np.array_equal(plan.destination, plan.active)


class _StandbyDeal:
    """The distribution of standbys to threads, by position in the plan. `room` is how many more each thread should
    have."""

    def __init__(self, view: StreamsView, plan: StreamsPlan, active: IntArray) -> None:
        task, process = plan.standby_task, plan.standby_process
        source = (plan.destination if len(plan.destination) else plan.active)[task]
        if len(view.home):
            source = np.where(view.home[task] == process, process, source)  # it should get these back
        share = -(-np.bincount(process, minlength=view.size) // view.capacity) + 1
        self.room = np.repeat(share, view.capacity).tolist()
        self.threads = [NOBODY] * len(task)
        self._first = offsets(view.capacity).tolist()
        self._process, self._source = process.tolist(), source.tolist()
        runs = active[view.tasks.stateful & (active != NOBODY)]
        self._runs = np.bincount(runs, minlength=len(self.room)).tolist()
        # The standbys of one process's tasks on one thread.
        self._behind: dict[tuple[int, int], list[int]] = {}

    def give(self, at: int, thread: int) -> None:
        self.threads[at] = thread
        self.room[thread] -= 1
        self._behind.setdefault((thread, self._source[at]), []).append(at)

    def best(self, at: int) -> int:
        source = self._source[at]
        return min(self._mine(self._process[at]), key=lambda t: (self._after(t, source), -self.room[t], t))

    def even(self) -> None:
        """Moves copies to other threads of their process now where it would otherwise have to do so when it takes tasks
        over."""
        for process, source in sorted(set(zip(self._process, self._source, strict=True))):
            mine = self._mine(process)
            while True:
                after = {thread: self._after(thread, source) for thread in mine if self._behind.get((thread, source))}
                heavy = max(after, key=after.__getitem__)
                light = min(mine, key=lambda t: (self._after(t, source), -self.room[t], t))
                if after[heavy] - self._after(light, source) <= 1:
                    break
                at = self._behind[heavy, source].pop()
                self.room[heavy] += 1
                self.give(at, light)

    def _mine(self, process: int) -> range:
        return range(self._first[process], self._first[process + 1])

    def _after(self, thread: int, source: int) -> int:
        """Returns how many stateful tasks the thread would run if it took over its copies of this process's tasks."""
        return int(self._runs[thread]) + len(self._behind.get((thread, source), ()))


class _Copies:
    """The threads that themselves reported stateful tasks: they run them or keep copies of them."""

    def __init__(self, view: StreamsView) -> None:
        self._tasks = view.tasks.size
        thread, task = view.thread_tasks.row, view.thread_tasks.values
        process_of = np.repeat(np.arange(view.size), view.capacity)
        self._codes, first = np.unique(task_code(process_of[thread], task, self._tasks), return_index=True)
        self._threads = thread[first]

    def thread(self, process: IntArray, task: IntArray) -> IntArray:
        """Returns the thread of each pair, NOBODY if no thread of the process has reported the task."""
        if not len(self._codes):
            return np.full(len(task), NOBODY, dtype=np.int32)
        wanted = task_code(process, task, self._tasks)
        at = np.minimum(np.searchsorted(self._codes, wanted), len(self._codes) - 1)
        return np.where(self._codes[at] == wanted, self._threads[at], NOBODY).astype(np.int32)


class _Threads:
    """The threads of some processes, and those of their tasks that may change threads."""

    def __init__(
        self,
        view: StreamsView,
        plan: StreamsPlan,
        threads: IntArray,
        here: BoolArray,
        beside: BoolArray,
        movable: BoolArray,
        *,
        counted: BoolArray,
    ) -> None:
        self._threads = threads
        self._first = offsets(view.capacity).tolist()
        self._process = plan.active
        self._free = np.flatnonzero(movable & ~here & ~beside).tolist()
        self._bound = [*np.flatnonzero(movable & here).tolist(), *np.flatnonzero(movable & beside).tolist()]
        self._counts = np.bincount(threads[counted & (threads != NOBODY)], minlength=self._first[-1]).tolist()

    def deal(self) -> None:
        """Moves tasks that run on none of the threads to the lightest ones; then evens out."""
        for task in self._free:
            self._counts[self._threads[task]] -= 1
        for task in self._free:
            process = int(self._process[task])
            lightest = min(range(self._first[process], self._first[process + 1]), key=self._counts.__getitem__)
            self._threads[task] = lightest
            self._counts[lightest] += 1
        self.even()

    def even(self) -> None:
        """Moves tasks while two threads of a process differ by more than one: first tasks that are bound to no thread,
        then tasks whose thread has a copy, then running ones."""
        counts, first = self._counts, self._first
        uneven = [p for p, (at, end) in enumerate(pairwise(first)) if max(counts[at:end]) - min(counts[at:end]) > 1]
        if not uneven:
            return
        movable: dict[int, list[int]] = {}
        wanted = set(uneven)
        for task in (*self._bound, *self._free):
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
    """Returns Kafka's distribution of tasks to threads, unless the plan keeps threads. Every copy gets a thread of its
    process."""
    dealt = assign_threads(view, plan)
    active = np.full(view.tasks.size, NOBODY, dtype=np.int32)
    active[dealt.active.values] = dealt.active.row
    if plan.keeps_threads and len(view.running_on):
        copies = _Copies(view)
        active = keep_threads(view, plan, active, copies)
        return ThreadPlan(active, keep_standbys(view, plan, active, copies))
    thread = dealt.standby.row
    process = np.repeat(np.arange(view.size), view.capacity)
    given = task_code(process[thread], dealt.standby.values, view.tasks.size)
    order = np.argsort(given)
    at = np.searchsorted(given[order], task_code(plan.standby_process, plan.standby_task, view.tasks.size))
    return ThreadPlan(active, thread[order][at])
