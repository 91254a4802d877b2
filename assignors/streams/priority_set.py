"""Kafka's ConstrainedPrioritySet: the least loaded process among those that qualify.

In Java it is a heap whose priorities (the loads) change while processes are queued. As long as the heap is in order the
answer is simply the lightest process, by (load / capacity, process). It gets out of order in one way only: a movement
takes a task from a queued process and gives it to another one, which is pushed back first and may come to rest below
the stale place of the former (streams-protocol reference §4.1). From then on, and only where several processes qualify,
the answer depends on the layout of the heap; then the layout is rebuilt by replaying what happened to it.

Replaying costs what it costs in Java, so it is bounded: past `STEPS` heap operations in one assignment the lightest
process is taken, which is what the set is for. Processes and tasks must be in the thousands to get there.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from assignors.model import NOBODY
from assignors.streams.java_queue import JavaHeap, hash_order
from assignors.streams.placement import Placement

STEPS = 200_000


@dataclass(frozen=True, slots=True)
class _Polled:
    """The heap was popped until one of `wanted` came (all of it if that is empty); the others were pushed back."""

    wanted: frozenset[int]


@dataclass(frozen=True, slots=True)
class _Offered:
    """Loads changed by these amounts, then the source was offered, then the destination."""

    source: int
    destination: int
    gained: int
    lost: int


class PrioritySet:
    """All processes, offered in order once; then polls and offers in the order in which Java makes them."""

    __slots__ = ("_events", "_hashed", "_hashes", "_heap", "_load", "_place", "_replayed", "_steps", "_unsure", "_weight")

    def __init__(self, place: Placement, hashes: Callable[[], Sequence[int]], steps: int = STEPS) -> None:
        self._place = place
        self._hashes = hashes
        self._steps = steps
        self._unsure = False
        self._hashed = False
        self._events: list[_Polled | _Offered] = []
        self._replayed = 0
        self._heap: JavaHeap | None = None
        self._load: list[int] = []
        self._weight: list[float] = []

    def poll(self, wanted: Iterable[int]) -> int | None:
        """The lightest of the wanted processes; None, after which all were pushed back anew, if there are none."""
        choice = list(wanted)
        if not choice:
            self._push_back_all()
            return None
        if len(choice) > 1 and self._unsure and self._steps > 0:
            return self._ask(frozenset(choice))
        found = choice[0] if len(choice) == 1 else self._lightest(choice)
        self._events.append(_Polled(frozenset((found,))))
        return found

    def offer(self, source: int, destination: int, *, gained: int, lost: int, polled: bool) -> None:
        """Says that loads have just changed and that Java offers the source, then the destination.

        `polled` tells whether the source came from `poll`, so that it was not queued.
        """
        self._events.append(_Offered(source, destination, gained, lost))
        if not lost or self._unsure:
            return
        load, capacity = self._place.load, self._place.capacity
        now = (load[destination] / capacity[destination], destination)
        before = ((load[destination] + lost) / capacity[destination], destination)
        self._unsure = not polled or now <= (load[source] / capacity[source], source) < before

    def _lightest(self, choice: list[int]) -> int:
        load, capacity = self._place.load, self._place.capacity
        return min(choice, key=lambda p: (load[p] / capacity[p], p))

    def _push_back_all(self) -> None:
        """After this the heap is in order, whatever it was before; if it was, then what happened to it is forgotten."""
        if self._unsure:
            self._events.append(_Polled(frozenset()))
            self._unsure = False
            return
        self._events.clear()
        self._replayed = 0
        self._heap = None
        self._hashed = True

    def _ask(self, wanted: frozenset[int]) -> int:
        """Replays what happened since the heap was last in a known state, then polls it for real."""
        heap = self._heap or self._start()
        for event in self._events[self._replayed :]:
            if isinstance(event, _Polled):
                self._pop_until(heap, event.wanted)
            else:
                self._apply(heap, event)
            if self._steps <= 0:
                return self._lightest(list(wanted))
        found = self._pop_until(heap, wanted)
        self._events.append(_Polled(frozenset((found,))))
        self._replayed = len(self._events)
        return found

    def _start(self) -> JavaHeap:
        """The heap at the start of the recorded events: offered in order, or pushed back after having been emptied."""
        load, capacity = list(self._place.load), self._place.capacity
        for event in self._events:
            if isinstance(event, _Offered):
                load[event.source] -= event.gained
                load[event.destination] += event.lost
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

    def _pop_until(self, heap: JavaHeap, wanted: frozenset[int]) -> int:
        """Pops until a wanted process comes, pushes back the others in the order of a hash set."""
        rejected: list[int] = []
        found = NOBODY
        while len(heap):
            process = heap.poll()
            if process in wanted:
                found = process
                break
            rejected.append(process)
        for process in hash_order(rejected, self._hashes()):
            heap.add(process)
        self._steps -= 2 * len(rejected) + 1
        return found

    def _apply(self, heap: JavaHeap, event: _Offered) -> None:
        for process, change in ((event.source, event.gained), (event.destination, -event.lost)):
            self._load[process] += change
            self._weight[process] = self._load[process] / self._place.capacity[process]
        heap.offer(event.source)
        heap.offer(event.destination)
        self._steps -= 2
