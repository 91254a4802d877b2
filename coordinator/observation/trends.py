"""The lag of each group over the last hours, for the curves of the overview. Kept in memory of a fixed size."""

from array import array
from collections.abc import Callable
from dataclasses import dataclass

from bellwether_kafka.coordinator import clocks
from bellwether_kafka.coordinator.observation.lag import GroupLag, LagSummary
from bellwether_kafka.coordinator.observation.observation import Observation

POINTS = 68  # even, so that values can be merged in pairs
STEP_MS_MIN = 10_000  # the interval at which observed groups are refreshed
STEP_MS_MAX = 320_000  # 68 of these are a little more than six hours
BRIDGED_MS = 150_000  # the longest gap between two refreshes that is filled; their longest interval is two minutes
UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class Curve:
    """`values` are lags in records, one for each `step_ms` from `from_ms` (epoch) on; None where unknown."""

    from_ms: int
    step_ms: int
    values: tuple[int | None, ...]


class Trend:
    """The total lag of one group over time, at most POINTS values. Each is the largest of its step, so that no peak is
    lost. The step is STEP_MS_MIN at first and doubles when there are too many values. At STEP_MS_MAX the oldest value
    is dropped instead.
    """

    __slots__ = ("_first", "_step_ms", "_values")

    def __init__(self) -> None:
        self._step_ms = STEP_MS_MIN
        self._first = 0  # the number of the first step since 1970
        self._values = array("q")

    def add(self, at_ms: int, lag: int | None) -> None:
        """Adds the lag of one refresh. If the clock went back by more than a step, all values before are dropped."""
        if self._values and at_ms // self._step_ms < self._first + len(self._values) - 2:
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
        """Extends the values up to this step. Steps without a refresh repeat the value before if the gap is at most
        BRIDGED_MS, else they are UNKNOWN."""
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
    """The lag of a group at the last refresh, None if its offsets could not be read, and its curve."""

    summary: LagSummary | None
    curve: Curve


class LagTrends:
    """The lags of all groups over time. Register its `on_*` methods with the runtime. `clock` is in epoch seconds."""

    def __init__(self, clock: Callable[[], float] = clocks.wall) -> None:
        self._clock = clock
        self._trends: dict[str, Trend] = {}
        self._newest: dict[str, LagSummary | None] = {}

    def of(self, group: str) -> LagNow | None:
        """Returns the lag and the curve of a group, None if it was never refreshed."""
        trend = self._trends.get(group)
        return LagNow(self._newest[group], trend.curve()) if trend is not None else None

    def on_observation(self, seen: Observation) -> None:
        if seen.kind in ("missing", "other"):
            self.on_gone(seen.group_id)
        else:
            self._take(seen.group_id, seen.seen_at_ms, seen.group_lag)

    on_led_seen = on_observation

    def on_lag(self, group: str, group_lag: GroupLag | None) -> None:
        """Takes the lag of a group that Bellwether leads, None if its offsets could not be read."""
        self._take(group, group_lag.at_ms if group_lag is not None else int(self._clock() * 1000), group_lag)

    def on_gone(self, group: str) -> None:
        self._trends.pop(group, None)
        self._newest.pop(group, None)

    def _take(self, group: str, at_ms: int, group_lag: GroupLag | None) -> None:
        summary = group_lag.summary() if group_lag is not None else None
        self._newest[group] = summary
        self._trends.setdefault(group, Trend()).add(at_ms, summary.lag if summary is not None else None)
