"""Watches the work of one application that Bellwether leads, by the reports of its members and by their commits.

`planned` takes every delivered plan, `refresh` takes offsets at intervals; both return what follows. Only a report that
nothing but another topology explains hands the lead back; everything else is an alert. Pure.
"""

from dataclasses import dataclass, field

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, Decision, LongArray
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.coordinator.triggers.work.evidence import Doing, Evidence, Fact
from bellwether_kafka.coordinator.triggers.work.progress import Progress
from bellwether_kafka.coordinator.triggers.work.suspicion import AT_ONCE_MS, SHOWN, Suspicion, named
from bellwether_kafka.coordinator.triggers.work.verdict import Alert, HandBack, Verdict
from bellwether_kafka.protocol.primitives import TaskId

CLOSE_MS, FAR_MS = 5_000, 10_000  # between polls: while a member must still show that it works, and otherwise
PARTITIONS_A_SECOND = 2_000  # a large group is polled less often


@dataclass(frozen=True, slots=True)
class WorkFinding:
    """The result of a poll: a verdict, and in `ask` why threads should report their tasks, "" for no reason."""

    verdict: Verdict | None = None
    ask: str = ""


@dataclass(slots=True)
class WorkWatch:
    """The watch on one application. `stall_ms`: for how long a task may commit nothing. `reports`: members report which
    of their tasks they run, as those of Streams do."""

    stall_ms: int
    reports: bool = True
    progress: Progress = field(default_factory=Progress)
    evidence: Evidence = field(default_factory=Evidence)
    suspicion: Suspicion = field(default_factory=Suspicion)
    _decision: Decision[TaskPlan] | None = None
    _has_input: bool = False
    _stalled: tuple[TaskId, ...] = ()  # tasks that an alert has named

    @property
    def decision(self) -> Decision[TaskPlan] | None:
        """The last plan."""
        return self._decision

    @property
    def interval_ms(self) -> int:
        """The time between two polls."""
        size = self._decision.cluster.partition_total if self._decision is not None else 0
        least = CLOSE_MS if self.suspicion.watches else FAR_MS
        return max(min(least, self.stall_ms // 4), 1000 * size // PARTITIONS_A_SECOND)

    def planned(self, decision: Decision[TaskPlan]) -> Verdict | None:
        """Takes a plan that the broker has accepted."""
        committed = self.progress.committed()
        self._decision = decision
        self.progress.planned(decision)
        if not self.reports:
            return None
        facts = self.evidence.planned(decision, self.suspicion.newcomers, committed)
        self.suspicion.planned(decision)
        return HandBack(sentence(facts)) if facts else None

    def alone(self, now_ms: int) -> Verdict | None:
        """Concludes what follows if no member is left in the group."""
        if not self.suspicion.alone(now_ms) or not self._has_input:
            return None
        what = f"all instances have ended within {AT_ONCE_MS // 1000} s of their first tasks, and committed nothing"
        return Alert(f"{what}; check why they ended, and whether the topology is that of the application")

    def forget(self) -> None:
        self._decision = None
        self.evidence.forget()
        self.suspicion.forget()
        self.progress.forget()
        self._has_input, self._stalled = False, ()

    def unknown(self, now_ms: int) -> None:
        """Records that a broker did not answer."""
        self.progress.unknown(now_ms)
        self.evidence.unknown(now_ms)
        self.suspicion.unknown(now_ms)

    def refresh(self, decision: Decision[TaskPlan], committed: LongArray, ends: LongArray, now_ms: int) -> WorkFinding:
        """Takes the offsets of the flat partitions of `decision`."""
        if decision is not self._decision:
            return WorkFinding()  # there is a new plan
        read = decision.plan.tasks.task_of != NOBODY  # offsets of other topics are not read
        self.progress.observe(np.where(read, committed, -1), np.where(read, ends, -1), now_ms)
        self._has_input = self._has_input or bool(self.progress.waits.any())
        ask, alert = self.suspicion.observe(self.progress, self.evidence, now_ms)
        return WorkFinding(alert or self._stalls(now_ms), ask)

    def _stalls(self, now_ms: int) -> Alert | None:
        """Returns an alert on tasks that make no progress, once for the same tasks."""
        stalled = self.progress.stalled(self.stall_ms, now_ms)
        if not {*stalled} - {*self._stalled}:
            self._stalled = self._stalled if stalled else ()
            return None
        self._stalled = stalled
        what = f"task {named(stalled)} has records to read and commits nothing for {self.stall_ms / 1000:g} s"
        return Alert(f"{what}; state may be restored meanwhile" if self._restores(stalled) else what)

    def _restores(self, tasks: tuple[TaskId, ...]) -> bool:
        """Returns whether the owner of one of these tasks restored it by its last report, or has not reported on it."""
        decision = self._decision
        if decision is None:
            return False
        owned = self.progress.owned_by(frozenset(m.member_id for m in decision.plan.joined), self.progress.silent)
        open_tasks = {
            task
            for member, ids in owned.items()
            for task in ids
            if self.evidence.doing(member, task) in (Doing.RESTORES, Doing.UNKNOWN)
        }
        return bool(open_tasks & {*tasks})


def sentence(facts: tuple[Fact, ...]) -> str:
    """Returns the threads' reports that contradict the topology as a sentence."""
    shown = "; ".join(fact.sentence for fact in facts[:SHOWN])
    more = f", and {len(facts) - SHOWN} more such reports" if len(facts) > SHOWN else ""
    return f"the topology is not the application's: {shown}{more}"
