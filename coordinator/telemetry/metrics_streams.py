"""Prometheus metrics of Streams applications, in addition to those of every group."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from prometheus_client import Gauge

from bellwether_kafka.assignors.streams import Report, TaskPlan, report
from bellwether_kafka.coordinator.planning import Planned
from bellwether_kafka.coordinator.telemetry.metrics import Metrics
from bellwether_kafka.coordinator.triggers import ProbingFacts, Rates

KINDS = ("active_stateful", "active_stateless", "standby", "warmup")
PROCESSES_MAX = 500  # with series of their own in one application
TASKS_MAX = 2_000  # copies of tasks with series of their own in one application
UNKNOWN = float("nan")


class Changing:
    """A gauge whose series of a group are replaced as a whole, so that series missing in the next plan are removed."""

    def __init__(self, gauge: Gauge) -> None:
        self._gauge = gauge
        self._shown: dict[str, set[tuple[str, ...]]] = defaultdict(set)

    def show(self, group: str, values: Mapping[tuple[str, ...], float]) -> None:
        """Replaces the series of a group. `values` are by the labels after "group"."""
        for gone in self._shown[group] - values.keys():
            self._gauge.remove(group, *gone)
        self._shown[group] = set(values)
        for labels, value in values.items():
            self._gauge.labels(group, *labels).set(value)


class StreamsMetrics:
    """Metrics that only applications have. Register `on_decision` with the runtime. `by_task` adds the lag of each copy
    of a task."""

    def __init__(self, common: Metrics, *, by_task: bool = False) -> None:
        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return common.gauge(f"streams_{name}", text, *labels)

        def lags(kind: str, text: str) -> tuple[Changing, Changing]:
            records = gauge(f"{kind}_lag_records", f"The largest known lag of a {text}.", "subtopology")
            age = "Age of that report when the plan was made, NaN where a copy starts from nothing."
            return Changing(records), Changing(gauge(f"{kind}_lag_age_seconds", age, "subtopology"))

        self.tasks = gauge("tasks", "Copies of tasks in the latest plan.", "kind")
        self.processes = gauge("processes", "Processes in the latest plan.")
        self.lags_known = gauge("lags_known", "0 while end offsets cannot be read.")
        self.probing_at = gauge("probing_timestamp_seconds", "When Kafka's own probing rebalance is due, 0 for never.")
        self._processes = Changing(gauge("process_tasks", "Copies of tasks on one process.", "process", "kind"))
        self._standby, self._warmup = lags("standby", "standby"), lags("warmup", "warm-up")
        text = "Lag of a copy of a task; only with metrics_by_task."
        self._copies = Changing(gauge("task_lag_records", text, "task", "process", "kind"))
        text = "Median rate at which copies far behind were restored, NaN until two reports of one have shown it."
        self.restore_rate = gauge("restore_records_per_second", text)
        self._rates: dict[str, Rates] = {}
        self._by_task = by_task

    def on_streams_decision(self, planned: Planned[TaskPlan]) -> None:
        decision = planned.decision
        group, summary = decision.raw.group_id, report(decision.plan)
        self.processes.labels(group).set(len(summary.processes))
        self.lags_known.labels(group).set(decision.plan.lags_known)
        self.probing_at.labels(group).set((decision.probing_at_ms or 0) / 1000)
        for kind in KINDS:
            self.tasks.labels(group, kind).set(sum(getattr(p, kind) for p in summary.processes))
        shown = summary.processes[:PROCESSES_MAX]
        self._processes.show(group, {(str(p.process_id), kind): getattr(p, kind) for p in shown for kind in KINDS})
        self._lags(group, summary)
        rates = self._rates.setdefault(group, Rates(decision.plan.configs.acceptable_recovery_lag))
        rates.learn(ProbingFacts.of(decision))
        self.restore_rate.labels(group).set(UNKNOWN if rates.usual is None else rates.usual)
        if self._by_task:
            self._copies.show(group, dict(_copies(decision.plan)))

    def _lags(self, group: str, summary: Report) -> None:
        for (records, age), warmup in ((self._standby, False), (self._warmup, True)):
            lags = [lag for lag in summary.lags if lag.warmup == warmup]
            records.show(group, {(str(lag.subtopology),): lag.lag for lag in lags})
            age.show(group, {(str(lag.subtopology),): _seconds(lag.age_ms) for lag in lags})


def _seconds(age_ms: int | None) -> float:
    return UNKNOWN if age_ms is None else age_ms / 1000


def _copies(plan: TaskPlan) -> Iterator[tuple[tuple[str, ...], float]]:
    for copy in plan.copies[:TASKS_MAX]:
        kind = "warmup" if copy.warmup else "standby"
        yield (str(copy.task), str(copy.process_id), kind), copy.lag if copy.lag >= 0 else UNKNOWN
