"""Watches each member that has joined until it has been seen to work on all of its tasks, and asks for its reports.

Offset sums are sent only in JoinGroup, so only the next JoinGroup shows whether a restarted thread can run its tasks. A
rebalance causes it, while processing goes on. After the last question comes an alert, unless the member restores state.
Pure; times are milliseconds by a clock that is never set.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from bellwether_kafka.assignors.shared import Decision
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.coordinator.names import listed
from bellwether_kafka.coordinator.triggers.work.evidence import Doing, Evidence
from bellwether_kafka.coordinator.triggers.work.progress import Progress
from bellwether_kafka.coordinator.triggers.work.verdict import Alert
from bellwether_kafka.protocol.primitives import TaskId

UNKNOWN_RHYTHM_MS = 35_000  # a little more than Kafka's default commit.interval.ms
LEAST_MS = 10_000
OF_RHYTHM = 1.5
ASKED_MAX = 3  # questions about a member
SPACE_MS = 12_000  # between two questions: a report that comes earlier does not count as a second one
AT_ONCE_MS = 60_000  # Kafka's default session is 45 s, during which a dead thread is still listed
SHOWN = 3

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

    def forget(self) -> None:
        self.newcomers, self._members = {}, frozenset()

    def unknown(self, now_ms: int) -> None:
        """Starts anew after a broker did not answer, because members could not commit then either."""
        self.newcomers = {m: replace(newcomer, joined_ms=now_ms) for m, newcomer in self.newcomers.items()}

    def alone(self, now_ms: int) -> bool:
        """Takes note that no member is left. Returns whether all of them had joined a moment ago, and none worked."""
        members, newcomers = self._members, self.newcomers
        self.forget()
        at_once = all(now_ms - newcomer.joined_ms <= AT_ONCE_MS for newcomer in newcomers.values())
        return bool(members) and members == newcomers.keys() and at_once

    def observe(self, progress: Progress, evidence: Evidence, now_ms: int) -> tuple[str, Alert | None]:
        """Returns why threads should report their tasks now, "" for no reason, and an alert on members of which all
        questions have been asked."""
        names = frozenset(self.newcomers)
        stuck = progress.owned_by(names, progress.silent)
        idle = progress.idle(names)
        self.newcomers = {m: newcomer for m, newcomer in self.newcomers.items() if m in stuck or m in idle}
        if now_ms - self._asked_ms < SPACE_MS:
            return "", None
        alert = self._alert(stuck, evidence, now_ms)
        due = [m for m in stuck if self._due(m, progress.usual_ms, evidence, now_ms)]
        if not due:
            return "", alert
        self._asked_ms = now_ms
        for member in stuck:
            newcomer = self.newcomers[member]
            self.newcomers[member] = replace(newcomer, asked=newcomer.asked + 1)
        open_still = [m for m in due if {evidence.doing(m, task) for task in stuck[m]} != {Doing.RUNS}]
        if not open_still:
            return "", alert
        what = "works on its tasks: it has records to read and has committed nothing yet"
        return f"see whether member {min(open_still)} {what}", alert

    def _due(self, member: str, usual_ms: int | None, evidence: Evidence, now_ms: int) -> bool:
        newcomer = self.newcomers[member]
        if newcomer.asked >= ASKED_MAX:
            return False
        waited = now_ms - newcomer.joined_ms >= newcomer.patience_ms(usual_ms)
        return waited or (newcomer.asked > 0 and evidence.asks_again(member))

    def _alert(self, stuck: Mapping[str, tuple[TaskId, ...]], evidence: Evidence, now_ms: int) -> Alert | None:
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
            return None
        more = f" (and {len(sentences) - 1} more members)" if len(sentences) > 1 else ""
        return Alert(sentences[0] + more)


def named(tasks: tuple[TaskId, ...] | list[TaskId]) -> str:
    return listed([*map(str, tasks)], SHOWN)
