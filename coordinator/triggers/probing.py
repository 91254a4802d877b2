"""Decides when the leader of a Streams application should rebalance by itself: for warm-ups that have caught up, and
for standbys that have fallen behind.

Pure; times are epoch milliseconds. Offset sums are sent only in JoinGroup, so each lag has a date and ages. Two reports
of one copy give its restore rate, and the rate predicts when a warm-up will have caught up. A probe at that time
promotes it, whereas Kafka's own leader waits for the next probing.rebalance.interval.ms (the tick). The number of early
probes is limited: after repeatedly wrong predictions only the tick is left. While an operator's order waits for
warm-ups, probes continue, each after twice the time, until all warm-ups are promoted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

from bellwether_kafka.assignors.shared import Decision
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.assignors.streams.application import UNKNOWN_OFFSET_SUM
from bellwether_kafka.coordinator.membership import PROGRESS, RebalanceWanted
from bellwether_kafka.coordinator.planning import Planned
from bellwether_kafka.coordinator.triggers.picture import Findings, Picture, Reading
from bellwether_kafka.protocol.primitives import ProcessId, TaskId

EARLY_MAX = 4  # early probes in a row without a promotion
QUIET_MS = 3_000  # no rebalance this soon after the last one
MEASURE_MS = 5_000  # if no rate is known, get a second report after this time
RETRY_MS = 30_000  # if end offsets could not be read
MARGIN_MS = 1_000  # added to a prediction, as sums are reported per restored batch
TOGETHER = 0.25  # also wait for warm-ups that need up to this share longer than the first
TOGETHER_MS = 2 * QUIET_MS  # how long warm-ups that have caught up wait for others
RATES_KEPT = 32
ENDS_S = 30.0
EXPECTED = "probe: see which processes have come back, or still run"

CopyKey = tuple[ProcessId, TaskId]


@dataclass(frozen=True, slots=True)
class ReportedCopy:
    """A standby or warm-up in the latest plan. `position` and `end` are sums over changelogs as of the report, in
    records. `reported_at_ms` is None if the process reported nothing of the copy, which is then empty."""

    task: TaskId
    process_id: ProcessId
    warmup: bool
    position: int
    end: int
    reported_at_ms: int | None

    @property
    def key(self) -> CopyKey:
        return self.process_id, self.task

    @property
    def lag(self) -> int:
        return self.end - self.position


@dataclass(frozen=True, slots=True)
class ProbingFacts:
    """What one delivered plan implies for probing. `probing_at_ms`: Kafka's own tick, the time until which a process is
    expected back, or when it should show that it still runs; None for none. `promotes`: there are copies to promote.
    `deferred`: tasks that only wait for their turn. `caught_up`: tasks whose warm-ups have caught up and wait for the
    next hand-over."""

    decided_at_ms: int
    probing_at_ms: int | None
    unsettled: bool
    copies: tuple[ReportedCopy, ...]
    lags_known: bool = True
    deferred: int = 0
    ordered: bool = False
    caught_up: int = 0
    promotes: bool = True

    @property
    def only_deferred(self) -> bool:
        """True if the next rebalance need not wait for any warm-up."""
        return self.deferred > 0 and not any(copy.warmup for copy in self.copies)

    @classmethod
    def of(cls, decision: Decision[TaskPlan], *, ordered: bool = False) -> "ProbingFacts":
        """Returns the facts of a decision. Copies with an unknown lag are left out, because they prove nothing.
        `ordered`: an operator has ordered the moves."""
        ends = decision.plan.view.tasks.end_sum[decision.plan.target.standby_task].tolist()
        copies = []
        for lag, end in zip(decision.plan.copies, ends, strict=True):
            if UNKNOWN_OFFSET_SUM not in (lag.lag, end):
                at_ms = None if lag.age_ms is None else decision.decided_at_ms - lag.age_ms
                position = end - max(0, lag.lag)
                copies.append(ReportedCopy(lag.task, lag.process_id, lag.warmup, position, end, at_ms))
        return cls(
            decision.decided_at_ms,
            decision.probing_at_ms,
            decision.followup,
            tuple(copies),
            decision.plan.lags_known,
            decision.plan.target.deferred,
            ordered,
            decision.plan.target.waiting,
            decision.plan.target.probing,
        )


@dataclass(slots=True)
class Rates:
    """Rates in records per second, from successive reports: of each copy, of the end of each task's changelogs, and the
    usual restore rate."""

    acceptable_lag: int
    of_copy: dict[CopyKey, float] = field(default_factory=dict)
    of_end: dict[TaskId, float] = field(default_factory=dict)
    _seen: dict[CopyKey, tuple[ReportedCopy, int]] = field(default_factory=dict)
    _ends: dict[TaskId, tuple[int, int]] = field(default_factory=dict)
    _restores: list[float] = field(default_factory=list)

    @property
    def usual(self) -> float | None:
        """The median rate at which copies that were far behind have been restored."""
        return median(self._restores) if self._restores else None

    def learn(self, facts: ProbingFacts) -> None:
        for task, end in {copy.task: copy.end for copy in facts.copies}.items():
            before = self._ends.get(task)
            if before is not None and facts.decided_at_ms > before[1]:
                self.of_end[task] = max(0.0, (end - before[0]) / (facts.decided_at_ms - before[1]) * 1000)
            self._ends[task] = end, facts.decided_at_ms
        self._learn_copies(facts)

    def _learn_copies(self, facts: ProbingFacts) -> None:
        seen = {}
        for copy in facts.copies:
            # A copy that was not reported starts empty when it is assigned.
            at_ms = facts.decided_at_ms if copy.reported_at_ms is None else copy.reported_at_ms
            seen[copy.key] = copy, at_ms
            last, last_ms = self._seen.get(copy.key, (copy, at_ms))
            if copy.reported_at_ms is None or at_ms <= last_ms:
                continue
            rate = max(0.0, (copy.position - last.position) / (at_ms - last_ms) * 1000)
            self.of_copy[copy.key] = rate
            if last.lag > self.acceptable_lag and rate > 0:
                self._restores = [*self._restores, rate][-RATES_KEPT:]
        self._seen = seen
        self.of_copy = {key: rate for key, rate in self.of_copy.items() if key in seen}

    def near_at_ms(self, copy: ReportedCopy, now_ms: int) -> float | None:
        """Returns when this copy will be within the acceptable lag; None if unknown, infinity for never."""
        if copy.lag <= self.acceptable_lag:
            return now_ms
        rate = self.of_copy.get(copy.key) or self.usual
        if rate is None:
            return None
        gain = rate - self.of_end.get(copy.task, 0.0)
        return now_ms + (copy.lag - self.acceptable_lag) / gain * 1000 if gain > 0 else float("inf")


class Prober:
    """The probes of one application. Call `planned` for every delivered plan, and `due` at intervals."""

    def __init__(self, acceptable_lag: int, interval_ms: int, standby_lag_max: int | None = None) -> None:
        self._interval_ms = interval_ms
        self._standby_lag_max = standby_lag_max
        self._rates = Rates(acceptable_lag)
        self._facts: ProbingFacts | None = None
        self._early_at_ms: float | None = None
        self._early_used = 0
        self._lagging_reported_ms = float("-inf")
        self._plan: object = None
        self._ordered = False  # an operator ordered what is planned but not reached yet

    @property
    def wants_ends(self) -> bool:
        """True if `due` can use end offsets that are newer than the plan's."""
        return self._standby_lag_max is not None and self._facts is not None and bool(self._facts.copies)

    @property
    def next_at_ms(self) -> int | None:
        """When the next probe is due; None if there is nothing to promote."""
        if self._facts is None or self._facts.probing_at_ms is None:
            return None
        tick = float(self._facts.probing_at_ms)
        return int(tick if self._early_at_ms is None else min(tick, self._early_at_ms))

    def take(self, planned: Planned[TaskPlan]) -> None:
        """Takes the last plan that the broker has accepted, once."""
        if planned is self._plan:
            return
        decision, self._plan = planned.decision, planned
        self._ordered = bool(planned.ordered) or (self._ordered and decision.probing_at_ms is not None)
        self.planned(ProbingFacts.of(decision, ordered=self._ordered))

    def planned(self, facts: ProbingFacts) -> None:
        before, self._facts = self._facts, facts
        self._rates.learn(facts)
        if facts.probing_at_ms is None or _promoted(before, facts):
            self._early_used = 0
        self._early_at_ms = self._early(facts) if facts.probing_at_ms is not None and facts.promotes else None

    def forget(self) -> None:
        """Forgets the plan, because Bellwether no longer leads. Rates are kept, as they belong to the application."""
        self._facts = self._early_at_ms = self._plan = None
        self._early_used, self._ordered = 0, False

    def due(self, now_ms: int, ends: Mapping[TaskId, int] | None = None) -> str | None:
        """Returns why the group should rebalance now; None if it need not or must not.

        `ends` are the present end sums of changelogs.
        """
        facts = self._facts
        if facts is None or facts.unsettled:
            return None
        if now_ms < facts.decided_at_ms and facts.probing_at_ms is not None:
            return "probe: the clock has been set back, so the time of the next one is not known"
        if now_ms - facts.decided_at_ms < QUIET_MS:
            return None
        if facts.probing_at_ms is not None and now_ms >= facts.probing_at_ms:
            return "probe: see which warm-ups have caught up" if facts.promotes else EXPECTED
        if self._early_at_ms is not None and now_ms >= self._early_at_ms:
            self._early_at_ms = None
            if facts.only_deferred:
                return "next moves: the budget has room again"
            if facts.caught_up:
                return "next hand-over: warm-ups have caught up"
            self._early_used += 1
            if facts.lags_known:
                return "early probe: warm-ups should have caught up"
            return "probe: see whether lags are known again"
        return self._fallen_behind(facts, now_ms, ends or {})

    def _early(self, facts: ProbingFacts) -> float | None:
        now_ms = facts.decided_at_ms
        if facts.only_deferred:
            return now_ms + QUIET_MS
        if facts.caught_up:
            # Warm-ups that have caught up wait for those that nearly have, but not for others.
            predicted = self._predicted(facts)
            return predicted if predicted is not None and predicted <= now_ms + TOGETHER_MS else now_ms + QUIET_MS
        if facts.ordered:
            again = float(now_ms + (QUIET_MS << self._early_used))
            predicted = self._predicted(facts)
            return again if predicted is None else min(again, predicted)
        if self._early_used >= EARLY_MAX:
            return None
        if not facts.lags_known:
            return now_ms + RETRY_MS
        return self._predicted(facts)

    def _predicted(self, facts: ProbingFacts) -> float | None:
        """Returns when the next warm-ups should have caught up; soon if no rate is known, None for never."""
        now_ms = facts.decided_at_ms
        # If no other process has caught up, a task's destination gets an ordinary standby to warm up.
        late = [copy.lag > self._rates.acceptable_lag for copy in facts.copies]
        awaited = [
            c for c, is_late in zip(facts.copies, late, strict=True) if is_late or (c.warmup and not facts.caught_up)
        ]
        times = [self._rates.near_at_ms(copy, now_ms) for copy in awaited]
        finite = sorted(t for t in times if t is not None and t != float("inf"))
        if not finite:
            return now_ms + MEASURE_MS if None in times else None
        latest = finite[0] + max(MARGIN_MS, TOGETHER * (finite[0] - now_ms))
        return max(now_ms + QUIET_MS, max(t for t in finite if t <= latest) + MARGIN_MS)

    def _fallen_behind(self, facts: ProbingFacts, now_ms: int, ends: Mapping[TaskId, int]) -> str | None:
        """Returns a reason if a standby has fallen behind. Considers only copies with a rate, a fresh report and a good
        lag in it: others are unknown, or already known to lag."""
        most = self._standby_lag_max
        if most is None or now_ms - self._lagging_reported_ms < self._interval_ms:
            return None
        for copy in facts.copies:
            rate, end = self._rates.of_copy.get(copy.key), ends.get(copy.task)
            if copy.warmup or rate is None or end is None or copy.reported_at_ms is None or copy.lag > most:
                continue
            age_ms = now_ms - copy.reported_at_ms
            lag = int(end - copy.position - rate * age_ms / 1000)
            if lag > most and age_ms <= self._interval_ms:
                self._lagging_reported_ms = now_ms
                behind = f"the standby of {copy.task} on {copy.process_id} is about {lag} records behind"
                return f"{behind}, by a report of {age_ms // 1000} s ago"
        return None


def _promoted(before: ProbingFacts | None, now: ProbingFacts) -> bool:
    """Returns whether the last probe had an effect: a warm-up of the plan before is no warm-up now."""
    still = {copy.key for copy in now.copies if copy.warmup}
    return before is not None and any(copy.warmup and copy.key not in still for copy in before.copies)


def probing(picture: Picture, prober: Prober | None) -> tuple[Prober | None, Findings]:
    """Asks for the rebalance that promotes warm-ups, or replaces standbys that have fallen behind."""
    config, planned = picture.config, picture.planned
    if config is None or planned is None:
        return prober, ()
    configs = config.configs
    prober = prober or Prober(
        configs.acceptable_recovery_lag, configs.probing_rebalance_interval_ms, config.standby_lag_max
    )
    prober.take(planned)
    reason = prober.due(picture.wall_ms, picture.end_sums) if picture.rests else None
    return prober, (RebalanceWanted(reason, PROGRESS),) if reason else ()


def probing_wants(picture: Picture, prober: Prober | None) -> Mapping[Reading, float]:
    return {Reading.END_SUMS: ENDS_S} if prober is not None and prober.wants_ends and picture.rests else {}


def probing_keeps(prober: Prober | None) -> Prober | None:
    """Keeps the rates, which do not depend on who leads the application."""
    if prober is not None:
        prober.forget()
    return prober
