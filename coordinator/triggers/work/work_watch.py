"""Watches the work of one application that Bellwether leads, by the reports of threads and by the group's commits.

`planned` takes every delivered plan, `refresh` takes offsets at intervals; both return what follows. Pure.
"""

from dataclasses import dataclass, field

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, BoolArray, Decision, LongArray
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.coordinator.triggers.work.evidence import Evidence, Fact
from bellwether_kafka.coordinator.triggers.work.short_lives import AT_ONCE_MS, ShortLives
from bellwether_kafka.coordinator.triggers.work.standstill import Standstill
from bellwether_kafka.coordinator.triggers.work.suspicion import Suspicion
from bellwether_kafka.coordinator.triggers.work.verdict import Alert, HandBack, Verdict

CLOSE_MS, FAR_MS = 5_000, 10_000  # between polls: while a member must still show that it works, and otherwise
PARTITIONS_A_SECOND = 2_000  # a large group is polled less often
REPEAT_AFTER_MS = 600_000
SHOWN = 3


@dataclass(frozen=True, slots=True)
class WorkFinding:
    """The result of a poll: a verdict, and in `ask` why threads should report their tasks, "" for no reason."""

    verdict: Verdict | None = None
    ask: str = ""


@dataclass(slots=True)
class WorkWatch:
    """The watch on one application. `stall_ms`: the shortest time without a commit that counts."""

    stall_ms: int
    standstill: Standstill = field(init=False)
    evidence: Evidence = field(default_factory=Evidence)
    suspicion: Suspicion = field(default_factory=Suspicion)
    short_lives: ShortLives = field(default_factory=ShortLives)
    _committed: LongArray | None = None  # by flat partition of the last plan, as of the last poll
    _decision: Decision[TaskPlan] | None = None
    _alerted: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.standstill = Standstill(self.stall_ms)

    @property
    def interval_ms(self) -> int:
        """The time between two polls."""
        decision = self._decision
        size = decision.cluster.partition_total if decision is not None else 0
        least = CLOSE_MS if self.suspicion.watches else FAR_MS
        return max(min(least, self.stall_ms // 4), 1000 * size // PARTITIONS_A_SECOND)

    def planned(self, decision: Decision[TaskPlan]) -> Verdict | None:
        """Takes a plan that the broker has accepted."""
        before, self._decision = self._decision, decision
        same = before is not None and before.cluster.topics == decision.cluster.topics
        same = same and before is not None and np.array_equal(before.cluster.counts, decision.cluster.counts)
        facts = self.evidence.planned(decision)
        changed = self.suspicion.planned(decision, same_topics=same)
        self.standstill.planned(decision.decided_at_ms, changed=changed, same_topics=same)
        self.short_lives.planned(decision)
        self._committed = self._committed if same else None
        return HandBack(sentence(facts)) if facts else self._short_lived()

    def alone(self, now_ms: int) -> Verdict | None:
        """Concludes what follows if no member is left in the group."""
        ended = self.short_lives.alone(now_ms)
        verdict = self._short_lived()
        if verdict is None and ended and self.short_lives.has_input:
            what = f"all instances have ended within {AT_ONCE_MS // 1000} s of their first tasks, and committed nothing"
            return Alert(f"{what}; check why they ended, and whether the topology is that of the application")
        return verdict

    def _short_lived(self) -> HandBack | None:
        subtopologies = self.short_lives.take()
        if not subtopologies:
            return None
        named = ", ".join(map(str, subtopologies))
        return HandBack(
            f"the topology is not the application's: no instance has kept running with a task of subtopology {named};"
            f" all that were given one ended within {AT_ONCE_MS // 1000} s"
        )

    def forget(self) -> None:
        self._decision = None
        self.evidence.forget()
        self.suspicion.forget()
        self.short_lives.forget()
        self._committed = None
        self.standstill.forget()

    def unknown(self, now_ms: int) -> None:
        """Records that a broker did not answer."""
        self.standstill.unknown(now_ms)

    def refresh(self, decision: Decision[TaskPlan], committed: LongArray, ends: LongArray, now_ms: int) -> WorkFinding:
        """Takes the offsets of the flat partitions of `decision`."""
        if decision is not self._decision:
            return WorkFinding()  # there is a new plan
        read = decision.plan.tasks.task_of != NOBODY  # offsets of other topics are not read
        waiting = self.standstill.waiting(committed[read], ends[read])
        restoring = bool((waiting & ~self._runs(decision)[read]).any())
        verdict = self.standstill.observe(committed[read], ends[read], now_ms, restoring=restoring)
        usual_ms, again = self.standstill.rhythm.usual_ms, self.evidence.asks_again
        unread = np.zeros(len(read), dtype=np.bool_)
        unread[read] = waiting
        ask = self.suspicion.observe(decision, committed, unread, usual_ms, now_ms, again=again)
        before, self._committed = self._committed, committed
        worked = read & (committed != before) if before is not None else np.zeros(len(read), dtype=np.bool_)
        self.short_lives.observe(decision, worked, has_input=bool(waiting.any()))
        return WorkFinding(self._short_lived() or self._once(verdict, now_ms), ask)

    def _runs(self, decision: Decision[TaskPlan]) -> BoolArray:
        """Returns, by flat partition, whether it needs no restoring: its task is stateless, or its thread reported that
        it runs."""
        plan, table = decision.plan, decision.plan.view.tasks
        runs = ~table.stateful
        holder = plan.out.holder.tolist()
        for task in np.flatnonzero(table.stateful).tolist():
            row = holder[task]
            runs[task] = row != NOBODY and self.evidence.runs(plan.joined[row].member_id, table.task_id(task))
        by_partition: BoolArray = np.append(runs, True)[plan.tasks.task_of]
        return by_partition

    def _once(self, verdict: Verdict | None, now_ms: int) -> Verdict | None:
        """Drops an alert that repeats a recent one."""
        if not isinstance(verdict, Alert):
            return verdict
        kind = verdict.reason.partition(";")[2]
        if now_ms - self._alerted.get(kind, -REPEAT_AFTER_MS) < REPEAT_AFTER_MS:
            return None
        self._alerted[kind] = now_ms
        return verdict


def sentence(facts: tuple[Fact, ...]) -> str:
    """Returns the threads' reports that contradict the topology as a sentence."""
    named = "; ".join(fact.sentence for fact in facts[:SHOWN])
    more = f", and {len(facts) - SHOWN} more such reports" if len(facts) > SHOWN else ""
    return f"the topology is not the application's: {named}{more}"
