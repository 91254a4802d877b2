"""Watches the work of one application that Bellwether leads, by the reports of its members and by their commits.

Only a report that nothing but another topology explains hands the lead back; everything else is an alert. Offset sums
are sent only in JoinGroup, so only the next JoinGroup shows whether a restarted thread can run its tasks. A rebalance
causes it, while processing goes on: each member that has joined is asked for until it has been seen to work on all of
its tasks. After the last question comes an alert, unless the member restores state. Pure; times are milliseconds by a
clock that is never set.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, Decision, LongArray
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.coordinator.membership import PROGRESS, RebalanceWanted, StepAsideWanted, WorkSuspected
from bellwether_kafka.coordinator.names import listed
from bellwether_kafka.coordinator.triggers.evidence import Doing, Evidence, Fact, Progress
from bellwether_kafka.coordinator.triggers.picture import Findings, Picture, Reading
from bellwether_kafka.protocol.primitives import TaskId

UNKNOWN_RHYTHM_MS = 35_000  # a little more than Kafka's default commit.interval.ms
LEAST_MS = 10_000
OF_RHYTHM = 1.5
ASKED_MAX = 3  # questions about a member
SPACE_MS = 12_000  # between two questions: a report that comes earlier does not count as a second one
AT_ONCE_MS = 60_000  # Kafka's default session is 45 s, during which a dead thread is still listed
SHOWN = 3
CLOSE_MS, FAR_MS = 5_000, 10_000  # between polls: while a member must still show that it works, and otherwise
PARTITIONS_A_SECOND = 2_000  # a large group is polled less often

CAUSES = {
    Doing.WAITS: (
        "it reports that it neither runs nor restores them: the application may be paused (KafkaStreams.pause), or be"
        " another version, with a changelog that the topology file lacks"
    ),
    Doing.RUNS: "by its reports they do not wait for state: the application may be paused, or wait for another system",
    Doing.UNKNOWN: "what it does with them is not known",
}


@dataclass(frozen=True, slots=True)
class Newcomer:
    """A member that has not been seen to work on all of its tasks since it joined. `joined_ms` is later if a broker did
    not answer meanwhile. `asked`: the questions about it."""

    joined_ms: int
    asked: int = 0
    alerted: bool = False

    def patience_ms(self, usual_ms: int | None) -> int:
        """Returns for how long it may commit nothing before the next question."""
        once_ms = UNKNOWN_RHYTHM_MS if usual_ms is None else max(LEAST_MS, int(OF_RHYTHM * usual_ms))
        return once_ms * (1 + self.asked)


@dataclass(slots=True)
class Suspicion:
    """The newcomers of one application."""

    newcomers: dict[str, Newcomer] = field(default_factory=dict)
    _members: frozenset[str] = frozenset()
    _asked_ms: int = 0

    @property
    def watches(self) -> bool:
        """True if a member may still have to show that it works."""
        return any(not newcomer.alerted for newcomer in self.newcomers.values())

    def planned(self, decision: Decision[TaskPlan]) -> None:
        """Takes a delivered plan."""
        before, self._members = self._members, frozenset(m.member_id for m in decision.plan.joined)
        stayed = {m: newcomer for m, newcomer in self.newcomers.items() if m in self._members}
        joined_ms = decision.decided_at_ms
        self.newcomers = dict.fromkeys(sorted(self._members - before), Newcomer(joined_ms=joined_ms)) | stayed

    def unknown(self, now_ms: int) -> None:
        """Starts anew after a broker did not answer, because members could not commit then either."""
        self.newcomers = {m: replace(newcomer, joined_ms=now_ms) for m, newcomer in self.newcomers.items()}

    def alone(self, now_ms: int) -> bool:
        """Takes note that no member is left. Returns whether all of them had joined a moment ago, and none worked."""
        members, newcomers = self._members, self.newcomers
        self.newcomers, self._members = {}, frozenset()
        at_once = all(now_ms - newcomer.joined_ms <= AT_ONCE_MS for newcomer in newcomers.values())
        return bool(members) and members == newcomers.keys() and at_once

    def observe(self, progress: Progress, evidence: Evidence, now_ms: int) -> Findings:
        """Returns an alert on members of which all questions have been asked, and a request that threads report their
        tasks now."""
        names = frozenset(self.newcomers)
        stuck = progress.owned_by(names, progress.silent)
        idle = progress.idle(names)
        self.newcomers = {m: newcomer for m, newcomer in self.newcomers.items() if m in stuck or m in idle}
        if now_ms - self._asked_ms < SPACE_MS:
            return ()
        alert = self._alert(stuck, evidence, now_ms)
        due = [m for m in stuck if self._due(m, progress.usual_ms, evidence, now_ms)]
        if not due:
            return alert
        self._asked_ms = now_ms
        for member in stuck:
            newcomer = self.newcomers[member]
            self.newcomers[member] = replace(newcomer, asked=newcomer.asked + 1)
        open_still = [m for m in due if {evidence.doing(m, task) for task in stuck[m]} != {Doing.RUNS}]
        if not open_still:
            return alert
        what = "works on its tasks: it has records to read and has committed nothing yet"
        return (*alert, RebalanceWanted(f"see whether member {min(open_still)} {what}", PROGRESS))

    def _due(self, member: str, usual_ms: int | None, evidence: Evidence, now_ms: int) -> bool:
        newcomer = self.newcomers[member]
        if newcomer.asked >= ASKED_MAX:
            return False
        waited = now_ms - newcomer.joined_ms >= newcomer.patience_ms(usual_ms)
        return waited or (newcomer.asked > 0 and evidence.asks_again(member))

    def _alert(self, stuck: Mapping[str, tuple[TaskId, ...]], evidence: Evidence, now_ms: int) -> Findings:
        """Returns an alert on the members that have been asked for the last time, once for each."""
        last = [m for m in sorted(stuck) if self.newcomers[m].asked >= ASKED_MAX and not self.newcomers[m].alerted]
        sentences = []
        for member in last:
            newcomer = self.newcomers[member]
            self.newcomers[member] = replace(newcomer, alerted=True)
            by_doing: dict[Doing, list[TaskId]] = {}
            for task in stuck[member]:
                by_doing.setdefault(evidence.doing(member, task), []).append(task)
            worst = next((d for d in (Doing.WAITS, Doing.RESTORES, Doing.RUNS) if d in by_doing), Doing.UNKNOWN)
            if worst is Doing.RESTORES:
                continue
            silent_s = (now_ms - newcomer.joined_ms) // 1000
            sentences.append(
                f"member {member} has committed nothing for task {named(by_doing[worst])} since it joined, for"
                f" {silent_s} s at least, although there are records to read; {CAUSES[worst]}"
            )
        if not sentences:
            return ()
        more = f" (and {len(sentences) - 1} more members)" if len(sentences) > 1 else ""
        return (WorkSuspected(sentences[0] + more),)


@dataclass(slots=True)
class WorkWatch:
    """The watch on one application. `stall_ms`: for how long a task may commit nothing. `reports`: members report which
    of their tasks they run, as those of Streams do."""

    stall_ms: int
    reports: bool = True
    progress: Progress = field(default_factory=Progress)
    evidence: Evidence = field(default_factory=Evidence)
    suspicion: Suspicion = field(default_factory=Suspicion)
    plan: object = None  # the last plan as it was delivered
    decision: Decision[TaskPlan] | None = None  # the same, dated by the clock of this watch
    _has_input: bool = False
    _stalled: tuple[TaskId, ...] = ()  # tasks that an alert has named

    @property
    def interval_ms(self) -> int:
        """The time between two polls."""
        size = self.decision.cluster.partition_total if self.decision is not None else 0
        least = CLOSE_MS if self.suspicion.watches else FAR_MS
        return max(min(least, self.stall_ms // 4), 1000 * size // PARTITIONS_A_SECOND)

    def planned(self, decision: Decision[TaskPlan]) -> Findings:
        """Takes a plan that the broker has accepted."""
        committed = self.progress.committed()
        self.decision = decision
        self.progress.planned(decision)
        if not self.reports:
            return ()
        facts = self.evidence.planned(decision, self.suspicion.newcomers, committed)
        self.suspicion.planned(decision)
        return (StepAsideWanted(sentence(facts)),) if facts else ()

    def alone(self, now_ms: int) -> Findings:
        """Concludes what follows if no member is left in the group."""
        if not self.suspicion.alone(now_ms) or not self._has_input:
            return ()
        what = f"all instances have ended within {AT_ONCE_MS // 1000} s of their first tasks, and committed nothing"
        check = "check why they ended, and whether the topology is that of the application"
        return (WorkSuspected(f"{what}; {check}"),)

    def unknown(self, now_ms: int) -> None:
        """Records that a broker did not answer."""
        self.progress.unknown(now_ms)
        self.evidence.unknown(now_ms)
        self.suspicion.unknown(now_ms)

    def refresh(self, decision: Decision[TaskPlan], committed: LongArray, ends: LongArray, now_ms: int) -> Findings:
        """Takes the offsets of the flat partitions of `decision`."""
        if decision is not self.decision:
            return ()  # there is a new plan
        read = decision.plan.tasks.task_of != NOBODY  # offsets of other topics are not read
        self.progress.observe(np.where(read, committed, -1), np.where(read, ends, -1), now_ms)
        self._has_input = self._has_input or bool(self.progress.waits.any())
        newcomers = self.suspicion.observe(self.progress, self.evidence, now_ms)
        alerted = any(isinstance(finding, WorkSuspected) for finding in newcomers)
        return (*newcomers, *(() if alerted else self._stalls(now_ms)))

    def _stalls(self, now_ms: int) -> Findings:
        """Returns an alert on tasks that make no progress, once for the same tasks."""
        stalled = self.progress.stalled(self.stall_ms, now_ms)
        if not {*stalled} - {*self._stalled}:
            self._stalled = self._stalled if stalled else ()
            return ()
        self._stalled = stalled
        what = f"task {named(stalled)} has records to read and commits nothing for {self.stall_ms / 1000:g} s"
        return (WorkSuspected(f"{what}; state may be restored meanwhile" if self._restores(stalled) else what),)

    def _restores(self, tasks: tuple[TaskId, ...]) -> bool:
        """Returns whether the owner of one of these tasks restored it by its last report, or has not reported on it."""
        decision = self.decision
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


def work(picture: Picture, watch: WorkWatch | None) -> tuple[WorkWatch | None, Findings]:
    """Hands the lead of an application back, alerts, or asks its members for reports."""
    config, now_ms = picture.config, int(picture.now * 1000)
    if config is None:
        return None, ()
    watch = watch or WorkWatch(config.task_stall_ms, reports=not config.stateful)
    if picture.member.alone:
        return watch, watch.alone(now_ms)
    findings: Findings = ()
    decision = picture.decision
    if decision is not None and picture.planned is not watch.plan:
        watch.plan = picture.planned
        findings = watch.planned(replace(decision, decided_at_ms=now_ms))
    if picture.unanswered is Reading.OFFSETS:
        watch.unknown(now_ms)
    if picture.offsets is not None and watch.decision is not None:
        findings += watch.refresh(watch.decision, *picture.offsets, now_ms)
    return watch, findings


def work_wants(picture: Picture, watch: WorkWatch | None) -> Mapping[Reading, float]:
    if watch is None or watch.decision is None or picture.member.alone:
        return {}
    return {Reading.OFFSETS: watch.interval_ms / 1000}


def sentence(facts: tuple[Fact, ...]) -> str:
    """Returns the threads' reports that contradict the topology as a sentence."""
    shown = "; ".join(fact.sentence for fact in facts[:SHOWN])
    more = f", and {len(facts) - SHOWN} more such reports" if len(facts) > SHOWN else ""
    return f"the topology is not the application's: {shown}{more}"


def named(tasks: tuple[TaskId, ...] | list[TaskId]) -> str:
    return listed([*map(str, tasks)], SHOWN)
