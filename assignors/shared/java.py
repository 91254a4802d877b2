"""Priority queues of Java, where Kafka's results depend on their layout: JavaHeap is java.util.PriorityQueue, and
PrioritySet is Kafka's ConstrainedPrioritySet, the least loaded process among those that qualify.

Kafka keeps processes in a heap whose priorities (the loads) change while they are queued, and pushes rejected ones back
in the order of a hash set (`protocol.primitives`). While the heap is in order, the answer is the lightest process, by
(load / capacity, process), and no heap is needed. It gets out of order in only one way: a movement takes a task from a
queued process D and gives it to a process S, which is pushed back first and may stop below the stale place of D
(docs/internals/streams.md#highavailabilitytaskassignor). For that, S must not be lighter than D is now, but lighter
than D was; otherwise no comparison on the way has a different result. From then on no process is below one that is
heavier than both it and D before the movement, and sifting keeps this invariant. So a process can only be overtaken by
one that is at most as heavy as that ceiling. If one of these qualifies too, the answer depends on the layout, which is
then rebuilt by replaying the operations on the heap. Emptying the heap restores its order.

Replaying costs as much as in Java, so it is bounded: after `STEPS` heap operations in one assignment the lightest
process is taken, which is the purpose of the set. Only thousands of processes and tasks reach this bound.
"""

from collections.abc import Callable, Iterable, Sequence
from heapq import heapify
from typing import Protocol

from bellwether_kafka.protocol.primitives import hash_order

STEPS = 50_000
_MOST_DRAINED = 10_000


class JavaHeap:
    """A binary heap of item numbers by weight; weights are read while sifting. Items of equal weight are ordered by
    number, or, if not `numbered`, by their place in the heap."""

    __slots__ = ("_numbered", "_queue", "_weight")

    def __init__(self, weight: Sequence[float], *, numbered: bool = True) -> None:
        self._weight, self._numbered = weight, numbered
        self._queue: list[int] = []

    @classmethod
    def of(cls, items: Iterable[int]) -> "JavaHeap":
        """Returns the heap that Java makes of a collection of numbers that all differ, which weigh what they are. Of
        such numbers Python makes the same array."""
        queue = list(items)
        heapify(queue)
        heap = cls(range(max(queue, default=0) + 1))
        heap._queue = queue
        return heap

    @property
    def items(self) -> list[int]:
        """The array, in its order."""
        return self._queue

    def __len__(self) -> int:
        return len(self._queue)

    def offer(self, item: int) -> None:
        """Adds an item. If it is queued, it leaves its old place first."""
        if item in self._queue:
            self.remove(item)
        self.add(item)

    def add(self, item: int) -> None:
        """Adds an item that is not queued."""
        self._queue.append(item)
        self._sift_up(len(self._queue) - 1, item)

    def poll(self) -> int:
        head = self._queue[0]
        last = self._queue.pop()
        if self._queue:
            self._sift_down(0, last)
        return head

    def remove(self, item: int) -> None:
        """Removes an item: the last one takes its place and moves down, or else up."""
        at = self._queue.index(item)
        moved = self._queue.pop()
        if at == len(self._queue):
            return
        self._sift_down(at, moved)
        if self._queue[at] == moved:
            self._sift_up(at, moved)

    def _sift_up(self, at: int, item: int) -> None:
        queue, weight, numbered = self._queue, self._weight, self._numbered
        mine = weight[item]
        while at > 0:
            parent = queue[above := (at - 1) >> 1]
            theirs = weight[parent]
            if mine > theirs or (mine == theirs and (item >= parent or not numbered)):
                break
            queue[at] = parent
            at = above
        queue[at] = item

    def _sift_down(self, at: int, item: int) -> None:
        queue, weight, numbered = self._queue, self._weight, self._numbered
        size, mine = len(queue), weight[item]
        while (below := 2 * at + 1) < size:
            child = queue[below]
            theirs = weight[child]
            if below + 1 < size:
                right = queue[below + 1]
                other = weight[right]
                if theirs > other or (theirs == other and numbered and child > right):
                    below, child, theirs = below + 1, right, other
            if mine < theirs or (mine == theirs and (item <= child or not numbered)):
                break
            queue[at] = child
            at = below
        queue[at] = item


def drain_order(keys: Sequence[int]) -> list[int]:
    """Returns the order in which a PriorityQueue polls items 0, 1, … that were added in this order with these keys.

    The queue only matters for equal keys. Without any, or with too many items to simulate, this is the sorted order.
    """
    if len(keys) > _MOST_DRAINED or len(set(keys)) == len(keys):
        return sorted(range(len(keys)), key=keys.__getitem__)
    heap = JavaHeap(keys, numbered=False)
    for item in range(len(keys)):
        heap.add(item)
    return [heap.poll() for _ in keys]


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
