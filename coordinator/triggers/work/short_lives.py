"""Detects processes that end as soon as they get a task: the sign of subtopologies that have changed places.

If a Java thread gets a task with partitions of topics that are not of this subtopology in its own topology, it throws
while it takes the assignment, before it has committed anything, and its instance ends
(docs/reference/client-quirks.md#java-streams-threads). So no process ever survives a task of that subtopology. This is
a fact if

* while Bellwether has led, no thread that owned a partition of the subtopology has joined again, and no such partition
  has been committed;
* processes have ended at once in three plans, and no older one is left that has such a task;
* these tasks had nothing to restore, and the application has records to read.

A single process that works, however briefly, proves a subtopology for as long as Bellwether leads, so later ends and
crashes prove nothing here. Pure; times are milliseconds by a clock that is never set.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from bellwether_kafka.assignors.shared import BoolArray, Decision
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.coordinator.triggers.work.reports import new_reports
from bellwether_kafka.protocol.primitives import ProcessId

AT_ONCE_MS = 60_000  # Kafka's default session is 45 s, during which a dead thread is still listed
PLANS_MIN = 3

Given = Mapping[int, int]  # since when a process has had a task, by subtopology


@dataclass(frozen=True, slots=True)
class _Life:
    """One process. `joins`: how often its threads have joined, by their own count. `ready`: the subtopologies of which
    it got a task that has nothing to restore."""

    members: frozenset[str]
    joins: int
    given: Given = field(default_factory=dict)
    ready: frozenset[int] = frozenset()


@dataclass(slots=True)
class ShortLives:
    """The processes of one application. `planned` takes every delivered plan, in order."""

    _lives: dict[ProcessId, _Life] = field(default_factory=dict)
    _bytes: dict[str, bytes] = field(default_factory=dict)
    _ended: dict[int, set[int]] = field(default_factory=dict)  # by subtopology: when processes that ended had got it
    _proven: set[int] = field(default_factory=set)
    _has_input: bool = False

    def forget(self) -> None:
        self._lives, self._bytes, self._ended = {}, {}, {}
        self._proven, self._has_input = set(), False

    def planned(self, decision: Decision[TaskPlan]) -> None:
        plan, now_ms = decision.plan, decision.decided_at_ms
        if {s.id for s in plan.topology.subtopologies} <= self._proven:
            self._lives = {}
            return
        reports = dict(_thread_reports(decision, self._bytes))
        self._bytes = {m.member_id: m.metadata for m in plan.joined}
        lives: dict[ProcessId, _Life] = {}
        for process in plan.process_map.processes:
            members = frozenset(process.members)
            joins = min((reports[m].joins for m in members if m in reports), default=0)
            before = self._lives.get(process.process_id)
            if before is not None and (members & before.members or joins > before.joins):
                self._prove(reports[m].owned & before.given.keys() for m in members if m in reports)
                lives[process.process_id] = replace(before, members=members, joins=max(joins, before.joins))
                del self._lives[process.process_id]
            else:
                lives[process.process_id] = _Life(members, joins)
        self._end(self._lives.values(), now_ms)
        self._lives = {p: self._give(decision, life) for p, life in lives.items()}

    def alone(self, now_ms: int) -> bool:
        """Ends all processes, because no member is left. Returns whether they ended at once."""
        return self._end(_taken(self._lives), now_ms)

    def observe(self, decision: Decision[TaskPlan], worked: BoolArray, *, has_input: bool) -> None:
        """Takes offsets. `worked`: by flat partition, whether its offset was committed since the last call.
        `has_input`: there are records to read."""
        self._has_input = self._has_input or has_input
        table, of = decision.plan.view.tasks, decision.plan.tasks.task_of
        tasks = np.unique(of[worked & (of >= 0)]).tolist()
        self._prove([{table.task_id(task).subtopology for task in tasks}])

    def take(self) -> tuple[int, ...]:
        """Returns, and forgets, the subtopologies that no process has survived."""
        running = {s for life in self._lives.values() for s, at in life.given.items() if at not in self._newest(s)}
        unsurvived = [s for s, at in self._ended.items() if len(at) >= PLANS_MIN and s not in running]
        if not self._has_input or not unsurvived:
            return ()
        for subtopology in unsurvived:
            del self._ended[subtopology]
        return tuple(sorted(unsurvived))

    @property
    def has_input(self) -> bool:
        return self._has_input

    def _newest(self, subtopology: int) -> set[int]:
        """Returns when the latest processes got this subtopology: they have had no time to show anything."""
        given = [life.given[subtopology] for life in self._lives.values() if subtopology in life.given]
        return {max(given)} if given else set()

    def _prove(self, subtopologies: Iterable[Iterable[int]]) -> None:
        for each in subtopologies:
            self._proven.update(each)
        for subtopology in self._proven & self._ended.keys():
            del self._ended[subtopology]

    def _end(self, lives: Iterable[_Life], now_ms: int) -> bool:
        given = [(s, at) for life in lives for s, at in life.given.items() if s in life.ready]
        unproven = [(s, at) for s, at in given if s not in self._proven and now_ms - at <= AT_ONCE_MS]
        for subtopology, at in unproven:
            self._ended.setdefault(subtopology, set()).add(at)
        return bool(unproven)

    @staticmethod
    def _give(decision: Decision[TaskPlan], life: _Life) -> _Life:
        """Returns the life with the tasks that it gets by this plan."""
        plan, table = decision.plan, decision.plan.view.tasks
        rows = [row for row, member in enumerate(plan.joined) if member.member_id in life.members]
        tasks = np.flatnonzero(np.isin(plan.out.holder, rows)).tolist()
        empty = ~table.stateful | ((table.end_sum == 0) if plan.lags_known else False)
        subtopology = {task: table.task_id(task).subtopology for task in tasks}
        ready = life.ready | {subtopology[task] for task in tasks if empty[task]}
        new = dict.fromkeys(subtopology.values(), decision.decided_at_ms)
        return replace(life, given={**new, **life.given}, ready=ready)


@dataclass(frozen=True, slots=True)
class _ThreadReport:
    """The JoinGroup of one thread."""

    joins: int
    owned: frozenset[int]  # subtopologies of the partitions that it owns


def _thread_reports(decision: Decision[TaskPlan], before: Mapping[str, bytes]) -> Iterator[tuple[str, _ThreadReport]]:
    """Yields the reports that are new in this rebalance."""
    owners = decision.plan.topology.subtopology_of
    for member_id, subscription, info in new_reports(decision, before):
        owned = frozenset(owners[tp.topic] for tp in subscription.owned_partitions if tp.topic in owners)
        yield member_id, _ThreadReport(info.unique_field, owned)


def _taken(lives: dict[ProcessId, _Life]) -> tuple[_Life, ...]:
    taken = tuple(lives.values())
    lives.clear()
    return taken
