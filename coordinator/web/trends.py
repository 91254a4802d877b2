"""How far each group was behind over the last hours, in memory and of a fixed size: the curves of the overview."""

import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass

from bellwether_kafka.coordinator.observation import GroupLag, LagSummary, Observation

POINTS = 68  # even, so that two may become one
STEP_MS_MIN = 10_000  # as often as observed groups are looked at
STEP_MS_MAX = 320_000  # 68 of these are a little more than six hours
BRIDGED_MS = 150_000  # between two looks; the longest interval is two minutes
UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class Curve:
    """`values` are records, one for each `step_ms` from `from_ms` on (epoch); None where nobody knew."""

    from_ms: int
    step_ms: int
    values: tuple[int | None, ...]


class Trend:
    """The total lag of one group, POINTS values at most. Each is the largest of its step, so that no peak is lost. A
    step begins with STEP_MS_MIN and doubles whenever there are too many; beyond STEP_MS_MAX the oldest value goes.
    """

    __slots__ = ("_first", "_step_ms", "_values")

    def __init__(self) -> None:
        self._step_ms = STEP_MS_MIN
        self._first = 0  # the number of the first step since 1970
        self._values = array("q")

    def add(self, at_ms: int, lag: int | None) -> None:
        """One look. What came before is forgotten where the clock went back by more than a step."""
        if self._values and at_ms // self._step_ms < self._first + len(self._values) - 1:
            self._values, self._step_ms = array("q"), STEP_MS_MIN
        if not self._values:
            self._first = at_ms // self._step_ms
        while at_ms // self._step_ms - self._first >= POINTS and self._step_ms < STEP_MS_MAX:
            self._double()
        self._reach(at_ms // self._step_ms)
        self._values[-1] = max(self._values[-1], UNKNOWN if lag is None else lag)

    def curve(self) -> Curve:
        values = tuple(None if value == UNKNOWN else value for value in self._values)
        return Curve(self._first * self._step_ms, self._step_ms, values)

    def _reach(self, number: int) -> None:
        """Makes this step the last one. Steps in which nobody looked are as the one before them, if they are few."""
        values = self._values
        missing = number - (self._first + len(values))
        if missing >= POINTS:
            values, self._first, missing = array("q"), number, 0
        few = missing * self._step_ms <= BRIDGED_MS and len(values) > 0
        values.extend([values[-1] if few else UNKNOWN] * max(0, missing))
        if missing >= 0:
            values.append(UNKNOWN)
        over = max(0, len(values) - POINTS)
        self._first, self._values = self._first + over, values[over:]

    def _double(self) -> None:
        values = self._values
        if self._first % 2:
            values.insert(0, UNKNOWN)
        if len(values) % 2:
            values.append(UNKNOWN)
        self._values = array("q", map(max, values[::2], values[1::2]))
        self._first, self._step_ms = self._first // 2, self._step_ms * 2


@dataclass(frozen=True, slots=True)
class LagNow:
    """What the last look at a group said, None where its offsets could not be read, and how it came to that."""

    summary: LagSummary | None
    curve: Curve


class LagTrends:
    """Of all groups. Give its `on_*` methods to the runtime as observers. `clock` is in seconds, epoch."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._trends: dict[str, Trend] = {}
        self._newest: dict[str, LagSummary | None] = {}

    def of(self, group: str) -> LagNow | None:
        """None for a group that nobody has looked at."""
        trend = self._trends.get(group)
        return LagNow(self._newest[group], trend.curve()) if trend is not None else None

    def on_observation(self, seen: Observation) -> None:
        if seen.kind in ("missing", "other"):
            self.on_gone(seen.group_id)
        else:
            self._take(seen.group_id, seen.seen_at_ms, seen.group_lag)

    def on_lag(self, group: str, found: GroupLag | None) -> None:
        """One look at a group that Bellwether leads, None where its offsets could not be read."""
        self._take(group, found.at_ms if found is not None else int(self._clock() * 1000), found)

    def on_gone(self, group: str) -> None:
        self._trends.pop(group, None)
        self._newest.pop(group, None)

    def _take(self, group: str, at_ms: int, found: GroupLag | None) -> None:
        summary = found.summary() if found is not None else None
        self._newest[group] = summary
        self._trends.setdefault(group, Trend()).add(at_ms, summary.lag if summary is not None else None)
