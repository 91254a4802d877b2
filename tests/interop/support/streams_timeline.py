"""What happened to the tasks of a Streams application, from the reports of its instances; pure, clocks are theirs.

A task *runs* on an instance between "running" and "suspended" (or the death of the instance): restored and initialized.
It *stalls* while no record of it is processed anywhere although records keep coming; only meaningful under steady load.
All times are wall-clock milliseconds; the instances share one machine's clock.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

# Under EOS downstream tasks see a batch per commit: a pause must be longer than the commit interval to be a stall.
STALL_MS = 500
DEATHS = ("killed", "ended", "launched")


@dataclass(frozen=True, slots=True)
class Happening:
    """One line of an instance's report, or what the driver did to it ("launched", "killed", "ended")."""

    t_ms: int
    instance: str
    event: str
    message: Mapping[str, Any]


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A time during which a task ran on one instance; still running ones end with the timeline."""

    start_ms: int
    end_ms: int
    instance: str


@dataclass(frozen=True)
class Timeline:
    """All reports, in any order; methods take a window [`start_ms`, `end_ms`]."""

    happenings: Sequence[Happening]

    @cached_property
    def ordered(self) -> tuple[Happening, ...]:
        return tuple(sorted(self.happenings, key=lambda h: h.t_ms))

    @cached_property
    def spans(self) -> Mapping[str, tuple[Span, ...]]:
        """Per task the spans in which it ran, in order."""
        spans: dict[str, list[Span]] = defaultdict(list)
        opened: dict[tuple[str, str], int] = {}
        for h in self.ordered:
            if h.event == "running":
                opened[h.instance, h.message["task"]] = h.t_ms
            elif h.event == "suspended":
                since = opened.pop((h.instance, h.message["task"]), None)
                if since is not None:
                    spans[h.message["task"]].append(Span(since, h.t_ms, h.instance))
            elif h.event in DEATHS:
                for instance, task in [key for key in opened if key[0] == h.instance]:
                    spans[task].append(Span(opened.pop((instance, task)), h.t_ms, instance))
        end_ms = self.ordered[-1].t_ms if self.ordered else 0
        for (instance, task), since in opened.items():
            spans[task].append(Span(since, end_ms, instance))
        return {task: tuple(sorted(of_task)) for task, of_task in spans.items()}

    def unowned_ms(self, tasks: Iterable[str], start_ms: int, end_ms: int) -> dict[str, int]:
        """Per task, how long within the window it ran nowhere."""
        return {task: _uncovered(self.spans.get(task, ()), start_ms, end_ms) for task in tasks}

    def overlaps(self) -> list[str]:
        """Tasks that ran on two instances at once; empty is right."""
        pairs = []
        for task, spans in self.spans.items():
            for before, after in pairwise(spans):
                if before.instance != after.instance and after.start_ms < before.end_ms:
                    both = f"{before.instance} and {after.instance}"
                    pairs.append(f"{task} ran on {both} for {before.end_ms - after.start_ms} ms")
        return pairs

    def stalled_ms(self, tasks: Iterable[str], start_ms: int, end_ms: int, stall_ms: int = STALL_MS) -> dict[str, int]:
        """Per task, the sum of its pauses of more than `stall_ms` between two processed records."""
        return {
            task: sum(end - begin for begin, end in of_task)
            for task, of_task in self.pauses(tasks, start_ms, end_ms, stall_ms).items()
        }

    def pauses(
        self, tasks: Iterable[str], start_ms: int, end_ms: int, stall_ms: int = STALL_MS
    ) -> dict[str, list[tuple[int, int]]]:
        """Per task, from when to when it paused for more than `stall_ms` between two processed records."""
        activity: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for h in self.ordered:
            if h.event == "processed":
                for task, (first, last, _) in h.message["tasks"].items():
                    activity[task].append((first, last))
        return {task: _pauses(sorted(activity[task]), start_ms, end_ms, stall_ms) for task in tasks}

    def processed(self, start_ms: int, end_ms: int) -> dict[str, int]:
        """Per task the records processed in reports of this window, repeated ones included."""
        totals: dict[str, int] = defaultdict(int)
        for h in self.within(start_ms, end_ms, "processed"):
            for task, (_, _, records) in h.message["tasks"].items():
                totals[task] += records
        return dict(totals)

    def moves(self, start_ms: int, end_ms: int) -> int:
        """How many times a task began to run on another instance than the one where it ran before."""
        count = 0
        for spans in self.spans.values():
            for before, after in pairwise(spans):
                count += before.instance != after.instance and start_ms <= after.start_ms <= end_ms
        return count

    def owners_at(self, t_ms: int) -> dict[str, str]:
        return {
            task: span.instance
            for task, spans in self.spans.items()
            for span in spans
            if span.start_ms <= t_ms <= span.end_ms
        }

    def restored(self, start_ms: int, end_ms: int) -> int:
        """Records that active tasks read from changelogs before they ran."""
        return sum(h.message["records"] for h in self.within(start_ms, end_ms, "restored"))

    def standby_loaded(self, start_ms: int, end_ms: int) -> int:
        """Records that standby and warm-up tasks read from changelogs, the steady updates included."""
        return sum(h.message["records"] for h in self.within(start_ms, end_ms, "standby"))

    def generations(self, start_ms: int, end_ms: int) -> frozenset[int]:
        """The generations that any thread was assigned in."""
        return frozenset(h.message["generation"] for h in self.within(start_ms, end_ms, "assigned"))

    def late(self, start_ms: int, end_ms: int) -> list[str]:
        """Instances that ended in the window and came back after others had been given something for it: later than
        their session lasts, so that their tasks had to move, by any leader."""
        late_tasks = []
        for end in self.within(start_ms, end_ms, "ended"):
            later = self.within(end.t_ms, end_ms, "assigned")
            back = min((h.message["generation"] for h in later if h.instance == end.instance), default=None)
            gained = (h.message["generation"] for h in later if h.instance != end.instance and h.message["partitions"])
            if back is not None and min(gained, default=back) < back:
                late_tasks.append(end.instance)
        return late_tasks

    def last_change_ms(self, start_ms: int) -> int:
        """When a task or an assignment last changed since `start_ms`; `start_ms` if none did."""
        events = ("running", "suspended", "assigned", "revoked", "lost", "tasks")
        return max((h.t_ms for h in self.ordered if h.event in events and h.t_ms >= start_ms), default=start_ms)

    def within(self, start_ms: int, end_ms: int, event: str) -> list[Happening]:
        return [h for h in self.ordered if h.event == event and start_ms <= h.t_ms <= end_ms]


def _uncovered(spans: Sequence[Span], start_ms: int, end_ms: int) -> int:
    missing, reached = 0, start_ms
    for span in spans:
        if span.end_ms <= reached:
            continue
        if span.start_ms >= end_ms:
            break
        missing += max(0, span.start_ms - reached)
        reached = span.end_ms
    return missing + max(0, end_ms - reached)


def _pauses(activity: Sequence[tuple[int, int]], start_ms: int, end_ms: int, stall_ms: int) -> list[tuple[int, int]]:
    stalls, reached = [], start_ms
    for first, last in [*activity, (end_ms, end_ms)]:
        if last < start_ms or first > end_ms:
            continue
        until = min(first, end_ms)
        if until - reached > stall_ms:
            stalls.append((reached, until))
        reached = max(reached, last)
    return stalls
