"""End offsets of changelogs, their sums per task, and the lags of reports behind them.

docs/internals/streams.md#lags has the rules. Overflow is pinned to 2^63-1, as in Java.

The lag of each process on each task, without a table of tasks times processes.

Reports are sparse: a process without a report on a task restores all of it, so its lag is the task's end sum. The
assignors' questions (which processes have caught up, which lags least, which comes first) are answered from the reports
and that one value per task. The order is that of HighAvailabilityTaskAssignor: by raw lag, then process. So an unknown
lag (-3) sorts first, although it never counts as caught up (docs/internals/streams.md#highavailabilitytaskassignor).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, BoolArray, IntArray, LongArray, Ragged, starts, task_code
from bellwether_kafka.assignors.streams.application.task_views import (
    LATEST_OFFSET,
    PINNED,
    UNKNOWN_OFFSET_SUM,
    StreamsView,
    Subtopology,
)
from bellwether_kafka.assignors.streams.application.topology import Topology

MISSING = -1


@dataclass(frozen=True, slots=True, eq=False)
class EndOffsets:
    """End offsets by topic and partition as of `read_at_ms` (epoch). MISSING marks a partition without an answer. For a
    source topic reused as changelog they are the group's committed offsets (0 if none); for a changelog created in this
    rebalance they are 0. `failure` is why the query failed; then no offset is known."""

    ends: Mapping[str, LongArray] = field(default_factory=dict)
    read_at_ms: int = 0
    failure: str | None = None

    @classmethod
    def failed(cls, reason: str) -> "EndOffsets":
        return cls(failure=reason)


def wanted_offsets(topology: Topology, counts: Mapping[str, int]) -> tuple[dict[str, int], dict[str, int]]:
    """Returns (changelogs whose latest offsets are needed, source topics whose committed offsets are needed), each with
    its number of partitions. Topics missing in `counts` are left out."""
    sources = set(topology.source_topics)
    latest = {t: counts[t] for t in topology.changelogs if t not in sources and t in counts}
    committed = {t: counts[t] for t in topology.changelogs if t in sources and t in counts}
    return latest, committed


def end_sums(subtopology: Subtopology, tasks: int, ends: EndOffsets) -> LongArray | str:
    """Returns the sum of end offsets of each task of one subtopology, or a sentence part on what is missing. A source
    topic reused as changelog counts only for the partitions that it has."""
    total = np.zeros(tasks, dtype=np.int64)
    for topic in subtopology.changelogs:
        end = np.asarray(ends.ends.get(topic, ()), dtype=np.int64)[:tasks]
        own_source = topic in subtopology.sources
        if len(end) < tasks and not own_source:
            return f"no end offset of {topic}-{len(end)}"
        if len(end) and int(end.min()) < 0:
            return f"no end offset of {topic}-{int(np.argmax(end < 0))}"
        head = total[: len(end)]
        room = PINNED - head
        head[:] = np.where(end > room, PINNED, head + np.minimum(end, room))
    return total


def lags(offset_sum: LongArray, end_sum: LongArray, *, ends_known: bool) -> LongArray:
    """Converts the offset sums of reports to lags behind the end sums of their tasks. A sum beyond the end means a
    store that must be restored from scratch. Meaningless negative sums count as 0."""
    own = np.where((offset_sum < UNKNOWN_OFFSET_SUM) | (offset_sum == -1), 0, offset_sum)
    if ends_known:
        behind = np.where(own > end_sum, end_sum, end_sum - np.maximum(own, 0))
        return np.where(own < 0, own, behind)
    return np.where(own == LATEST_OFFSET, LATEST_OFFSET, UNKNOWN_OFFSET_SUM).astype(np.int64)


# Up to this many reports per task are compared one by one, which is faster than a search among all reports.
_FEW_REPORTS = 8


def is_caught_up(lag: LongArray, acceptable_lag: int) -> BoolArray:
    """Marks lags that count as caught up: the task runs there (-2), any lag is acceptable, or the lag is known and at
    most `acceptable_lag` records."""
    if acceptable_lag == PINNED:
        return np.ones(len(lag), dtype=np.bool_)
    caught: BoolArray = (lag == LATEST_OFFSET) | ((lag >= 0) & (lag <= acceptable_lag))
    return caught


def has_state(lag: LongArray, end_sum: LongArray) -> BoolArray:
    """Marks lags with usable state: the task runs there, or less than all of it is left to restore."""
    usable: BoolArray = (lag == LATEST_OFFSET) | ((lag >= 0) & (lag < end_sum))
    return usable


@dataclass(frozen=True, eq=False)
class TaskLags:
    """The lags of one view, by task.

    `reporters[t]` are the processes that reported task t, and `reporter_lag` is parallel to them. `caught[t]` are the
    reporters that have caught up, ascending; if `silent_caught[t]`, processes that did not report it have caught up
    too. `caught_count[t]` counts both. `least[t]` is the smallest raw lag of t on any process. `home` is that of the
    view.
    """

    processes: int
    tasks: int
    end_sum: LongArray
    keys: LongArray
    lag: LongArray
    reporters: Ragged
    reporter_lag: LongArray
    caught: Ragged
    caught_count: LongArray
    silent_caught: BoolArray
    least: LongArray
    acceptable_lag: int
    home: IntArray
    _states: dict[int, dict[int, int]] = field(default_factory=dict, init=False, repr=False)
    _choices: dict[int, dict[int, int]] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, view: StreamsView, acceptable_lag: int) -> "TaskLags":
        total, size = view.tasks.size, view.size
        end = view.tasks.end_sum
        order = np.argsort(view.report.values, kind="stable")
        task, by_lag = view.report.values[order], view.report_lag[order]
        reporters = Ragged.of(task, view.report.row[order], total)
        reported = np.diff(reporters.first)
        is_caught = is_caught_up(by_lag, acceptable_lag)
        caught = Ragged.of(task[is_caught], reporters.values[is_caught], total)
        silent = (size - reported) > 0
        silent_caught = is_caught_up(end, acceptable_lag) & silent
        least = np.where(silent, end, np.iinfo(np.int64).max)
        if len(task):
            some = np.flatnonzero(reported)
            least[some] = np.minimum(least[some], np.minimum.reduceat(by_lag, reporters.first[some]))
        return cls(
            processes=size,
            tasks=total,
            end_sum=end,
            keys=view.report.codes(total),
            lag=view.report_lag,
            reporters=reporters,
            reporter_lag=by_lag,
            caught=caught,
            caught_count=np.diff(caught.first) + np.where(silent_caught, size - reported, 0),
            silent_caught=silent_caught,
            least=least,
            acceptable_lag=acceptable_lag,
            home=view.home,
        )

    def at(self, task: IntArray, process: IntArray) -> LongArray:
        """Returns the raw lag of each (task, process) pair."""
        if not len(self.keys):
            return self.end_sum[task]
        begin = self.reporters.first[task]
        count = self.reporters.first[task + 1] - begin
        if (most := int(count.max(initial=0))) <= _FEW_REPORTS:
            lag = self.end_sum[task]
            for n in range(most):
                place = np.minimum(begin + n, len(self.keys) - 1)
                lag = np.where((n < count) & (self.reporters.values[place] == process), self.reporter_lag[place], lag)
            return lag
        wanted = task_code(process, task, self.tasks)
        place = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        return np.where(self.keys[place] == wanted, self.lag[place], self.end_sum[task])

    def behind(self, task: IntArray, process: IntArray) -> BoolArray:
        """Marks pairs whose process has not caught up while another process lags strictly less."""
        lag = self.at(task, process)
        return ~is_caught_up(lag, self.acceptable_lag) & (self.least[task] < lag)

    def reports(self, task: int) -> list[tuple[int, int]]:
        """Returns the reports on the task as (lag, process), unsorted."""
        mine = self.reporters.span(task)
        return list(zip(self.reporter_lag[mine].tolist(), self.reporters.values[mine].tolist(), strict=True))

    def first_before(
        self, task: int, destination: int, allowed: Callable[[int], bool], *, closer: bool = False
    ) -> int | None:
        """Returns the first allowed process by (raw lag, process) that sorts before `destination`, None if there is
        none. With `closer` its lag must be strictly less."""
        reports = self.reports(task)
        reporters = {process for _, process in reports}
        end = int(self.end_sum[task])
        own = next((lag for lag, process in reports if process == destination), end)
        limit = (own, -1 if closer else destination)
        before = [pair for pair in reports if pair < limit and allowed(pair[1])]
        if (end, 0) < limit:
            stop = limit[1] if end == own else self.processes
            silent = (p for p in range(stop) if p not in reporters and allowed(p))
            before += [(end, process) for process in (next(silent, None),) if process is not None]
        return min(before)[1] if before else None

    def caught_up(self, task: int) -> list[int]:
        """Returns the processes that have caught up on the task, ascending."""
        first, processes, silent_caught = self._caught_lists
        caught_up = processes[first[task] : first[task + 1]]
        if not silent_caught[task]:
            return caught_up
        reporters = {process for _, process in self.reports(task)}
        return sorted([*caught_up, *(p for p in range(self.processes) if p not in reporters)])

    def state_of(self, process: int) -> dict[int, int]:
        """Returns the tasks of which the process has usable state, with their lags: running there, or not everything
        left to restore."""
        if process not in self._states:
            start, stop = np.searchsorted(self.keys, (process * self.tasks, (process + 1) * self.tasks))
            task, lag = self.keys[start:stop] - process * self.tasks, self.lag[start:stop]
            usable = has_state(lag, self.end_sum[task])
            self._states[process] = dict(zip(task[usable].tolist(), lag[usable].tolist(), strict=True))
        return self._states[process]

    def choices(self, process: int) -> dict[int, int]:
        """Returns the tasks that suit the process, with its lags: those of which it has state, and those whose home it
        is."""
        if process not in self._choices:
            at_home = {task: int(self.end_sum[task]) for task in self.at_home(process)}
            self._choices[process] = at_home | self.state_of(process)
        return self._choices[process]

    def at_home(self, process: int) -> Sequence[int]:
        """Returns the tasks whose home is this process: it should get them back."""
        return self._at_home.get(process, ())

    @cached_property
    def _at_home(self) -> dict[int, list[int]]:
        at_home: dict[int, list[int]] = {}
        for task in np.flatnonzero(self.home != NOBODY).tolist():
            at_home.setdefault(int(self.home[task]), []).append(task)
        return at_home

    def holders(self, task: int) -> list[tuple[int, int]]:
        """Returns (lag, process) of all usable state of the task, the least lag first."""
        first, holders = self._holder_lists
        return holders[first[task] : first[task + 1]]

    @cached_property
    def _holder_lists(self) -> tuple[list[int], list[tuple[int, int]]]:
        task = self.reporters.row
        usable = has_state(self.reporter_lag, self.end_sum[task])
        task, lag, process = task[usable], self.reporter_lag[usable], self.reporters.values[usable]
        order = np.lexsort((process, lag, task))
        return starts(task, self.tasks).tolist(), list(zip(lag[order].tolist(), process[order].tolist(), strict=True))

    @cached_property
    def _caught_lists(self) -> tuple[list[int], list[int], list[bool]]:
        """`caught` and `silent_caught` as lists, because movements read them task by task, which is slow with
        arrays."""
        return self.caught.first.tolist(), self.caught.values.tolist(), self.silent_caught.tolist()
