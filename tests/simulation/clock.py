"""Virtual time: a heap of things to do. Equal times happen in the order in which they were asked for."""

import heapq
from collections.abc import Callable
from itertools import count

Work = Callable[[], None]


class Handle:
    """One thing to do, until it is done or cancelled."""

    __slots__ = ("at", "number", "work")

    def __init__(self, at: float, number: int, work: Work) -> None:
        self.at, self.number = at, number
        self.work: Work | None = work

    def cancel(self) -> None:
        self.work = None

    def __lt__(self, other: "Handle") -> bool:
        return (self.at, self.number) < (other.at, other.number)


class Clock:
    """Seconds since the world began."""

    def __init__(self) -> None:
        self.now = 0.0
        self.steps = 0
        self._heap: list[Handle] = []
        self._numbers = count()

    def at(self, when: float, work: Work) -> Handle:
        handle = Handle(max(when, self.now), next(self._numbers), work)
        heapq.heappush(self._heap, handle)
        return handle

    def after(self, delay_s: float, work: Work) -> Handle:
        return self.at(self.now + delay_s, work)

    def step(self, until: float) -> bool:
        """Does the next thing due by `until`; False when there is none, and then it is `until`."""
        while self._heap and self._heap[0].at <= until:
            handle = heapq.heappop(self._heap)
            work, handle.work = handle.work, None
            if work is None:
                continue
            self.now = max(self.now, handle.at)
            self.steps += 1
            work()
            return True
        self.now = until
        return False
