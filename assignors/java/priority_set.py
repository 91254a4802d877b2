"""Kafka's ConstrainedPrioritySet: the least loaded process among those that qualify.

In Java it is a heap whose priorities (the loads) change while processes are queued. While the heap is in order, the
answer is the lightest process, by (load / capacity, process). It gets out of order in only one way: a movement takes a
task from a queued process D and gives it to a process S, which is pushed back first and may stop below the stale place
of D (docs/internals/streams.md#highavailabilitytaskassignor). For that, S must not be lighter than D is now, but
lighter than D was; otherwise no comparison on the way has a different result. From then on no process is below one that
is heavier than both it and D before the movement, and sifting keeps this invariant. So a process can only be overtaken
by one that is at most as heavy as that ceiling. If one of these qualifies too, the answer depends on the layout, which
is then rebuilt by replaying the operations on the heap. Emptying the heap restores its order.

Replaying costs as much as in Java, so it is bounded: after `STEPS` heap operations in one assignment the lightest
process is taken, which is the purpose of the set. Only thousands of processes and tasks reach this bound.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from bellwether_kafka.assignors.java.queue import JavaHeap, hash_order

STEPS = 50_000


class Loaded(Protocol):
    """Processes with the number of tasks and of threads of each. Loads change between calls."""

    load: list[int]
    capacity: list[int]


# Operations on the heap. (source, destination, gained, lost): loads changed by these amounts, then the source was
# offered, then the destination. (process,): it was polled. (): no process qualified, and all were popped and pushed
# back.
_Event = tuple[int, ...]


class PrioritySet:
    """The set of all processes, initially offered in order; then polled and offered to in the order in which Java does
    it."""

    def __init__(self, place: Loaded, hashes: Callable[[], Sequence[int]], steps: int = STEPS) -> None:
        self._place = place
        self._hashes = hashes
        self._steps = steps
        self._ceiling: tuple[float, int] | None = None
        self._hashed = False
        self._events: list[_Event] = []
        self._replayed = 0
        self._heap: JavaHeap | None = None
        self._load: list[int] = []
        self._weight: list[float] = []

    def poll(self, wanted: Sequence[int]) -> int | None:
        """Returns the lightest of the wanted processes. Returns None if there are none; all processes are then pushed
        back."""
        if len(wanted) == 1:
            self._events.append((wanted[0],))
            return wanted[0]
        if not wanted:
            self._push_back_all()
            return None
        lightest = min(wanted, key=self._priority)
        if self._contended(wanted, lightest):
            return self._polled_from_heap(wanted, lightest)
        self._events.append((lightest,))
        return lightest

    def offer(self, source: int, destination: int, *, gained: int = 0, lost: int = 0, polled: bool) -> None:
        """Records that loads have just changed and that Java offers the source, then the destination.

        `polled` is whether the source came from `poll`, so that it was not queued.
        """
        self._events.append((source, destination, gained, lost))
        if not lost:
            return
        before = ((self._place.load[destination] + lost) / self._place.capacity[destination], destination)
        if self._ceiling is not None and before <= self._ceiling:
            return
        if not polled or self._priority(destination) <= self._priority(source) < before:
            self._ceiling = before

    def _priority(self, process: int) -> tuple[float, int]:
        return (self._place.load[process] / self._place.capacity[process], process)

    def _contended(self, wanted: Sequence[int], lightest: int) -> bool:
        """Returns whether another wanted process might be popped before the lightest one."""
        ceiling = self._ceiling
        if ceiling is None or self._steps <= 0:
            return False
        return any(self._priority(process) <= ceiling for process in wanted if process != lightest)

    def _push_back_all(self) -> None:
        """Restores the heap's order. If it was in order before, the recorded operations are dropped."""
        if self._ceiling is not None:
            self._events.append(())
            self._ceiling = None
            return
        self._events.clear()
        self._replayed = 0
        self._heap = None
        self._hashed = True

    def _polled_from_heap(self, wanted: Sequence[int], lightest: int) -> int:
        """Replays the operations since the last known state of the heap, then polls it."""
        heap = self._heap or self._start()
        for event in self._events[self._replayed :]:
            if len(event) > 1:
                self._apply(heap, *event)
            else:
                self._pop_until(heap, event)
            if self._steps <= 0:
                return lightest
        polled = self._pop_until(heap, wanted)
        self._events.append((polled,))
        self._replayed = len(self._events)
        return polled

    def _start(self) -> JavaHeap:
        """Returns the heap before the recorded operations: offered in order, or pushed back after having been
        emptied."""
        load, capacity = list(self._place.load), self._place.capacity
        for event in self._events:
            if len(event) > 1:
                source, destination, gained, lost = event
                load[source] -= gained
                load[destination] += lost
        self._load = load
        self._weight = [tasks / room for tasks, room in zip(load, capacity, strict=True)]
        order: Sequence[int] = range(len(load))
        if self._hashed:
            order = hash_order(sorted(order, key=lambda p: (self._weight[p], p)), self._hashes())
        heap = self._heap = JavaHeap(self._weight)
        for process in order:
            heap.add(process)
        self._steps -= len(load)
        return heap

    def _pop_until(self, heap: JavaHeap, wanted: Sequence[int]) -> int:
        """Pops until a wanted process comes, then pushes back the others in the order of a hash set."""
        rejected: list[int] = []
        popped = -1
        while len(heap):
            process = heap.poll()
            if process in wanted:
                popped = process
                break
            rejected.append(process)
        for process in hash_order(rejected, self._hashes()):
            heap.add(process)
        self._steps -= 2 * len(rejected) + 1
        return popped

    def _apply(self, heap: JavaHeap, source: int, destination: int, gained: int, lost: int) -> None:
        for process, change in ((source, gained), (destination, -lost)):
            self._load[process] += change
            self._weight[process] = self._load[process] / self._place.capacity[process]
        heap.offer(source)
        heap.offer(destination)
        self._steps -= 2
