"""Prometheus metrics of Streams applications, beside those that every group has."""

from prometheus_client import Gauge

from assignors.streams.result import StreamsDecision
from coordinator.fallback import Source
from coordinator.guard import record_bytes
from coordinator.metrics import Metrics
from coordinator.planner_streams import PlannedTasks
from coordinator.streams_report import Report, report

KINDS = ("active_stateful", "active_stateless", "standby", "warmup")
PROCESSES_MAX = 500  # of one application with series of their own


class StreamsMetrics:
    """Takes plans that the broker has: the runtime's observer of Streams decisions."""

    def __init__(self, common: Metrics) -> None:
        self._common = common
        self._previous: dict[str, StreamsDecision] = {}
        self._shown: dict[str, set[str]] = {}

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"bellwether_streams_{name}", text, ["group", *labels], registry=common.registry)

        self.tasks = gauge("tasks", "Copies of tasks in the latest plan.", "kind")
        self.process_tasks = gauge("process_tasks", "Copies of tasks on one process.", "process", "kind")
        self.processes = gauge("processes", "Processes in the latest plan.")
        self.withheld = gauge("withheld_tasks", "Tasks handed out one round later.")
        self.cross_rack = gauge("cross_rack_partitions", "Source partitions without a replica in their process's rack.")
        self.standby_lag = gauge("standby_lag_records", "The largest known lag of a standby, as of its last report.")
        self.standby_lag_age = gauge("standby_lag_age_seconds", "Age of that report when the plan was made.")
        self.lags_known = gauge("lags_known", "0 while end offsets cannot be read.")
        self.probing_at = gauge("probing_timestamp_seconds", "When Kafka's own probing rebalance is due, 0 for never.")

    def on_decision(self, planned: PlannedTasks) -> None:
        decision, timings = planned.chosen.decision, planned.timings
        group, common = decision.raw.group_id, self._common
        found = report(self._previous.get(group), decision)
        self._previous[group] = decision
        common.rebalances.labels(group, found.cause.kind.value, "led").inc()
        common.changed(group, found.cause)
        common.generation.labels(group).set(decision.raw.generation)
        common.members.labels(group).set(found.threads)
        common.degraded.labels(group).set(len(decision.crew.outsiders))
        for kind in ("kept", "moved", "new", "lost"):
            common.moves.labels(group, kind).inc(getattr(decision.moves, kind))
        common.decision.labels(group).observe(timings.plan_s)
        common.metadata.labels(group).observe(timings.metadata_s)
        common.sync.labels(group).observe(timings.sync_s)
        common.metadata_age.labels(group).set(max(0.0, timings.joined_at - decision.cluster.read_at))
        common.record_size.labels(group).set(record_bytes(decision.raw, decision.assignments))
        if planned.chosen.source is not Source.PLAN:
            common.fallbacks.labels(group, planned.chosen.source.value).inc()
        self._record(group, decision, found)

    def _record(self, group: str, decision: StreamsDecision, found: Report) -> None:
        self.processes.labels(group).set(len(found.processes))
        self.withheld.labels(group).set(found.withheld)
        self.cross_rack.labels(group).set(found.cross_rack)
        self.lags_known.labels(group).set(decision.lags_known)
        self.probing_at.labels(group).set((found.probing_at_ms or 0) / 1000)
        self.standby_lag.labels(group).set(float("nan") if found.standby_lag is None else found.standby_lag)
        age_ms = found.standby_lag_age_ms
        self.standby_lag_age.labels(group).set(float("nan") if age_ms is None else age_ms / 1000)
        for kind in KINDS:
            self.tasks.labels(group, kind).set(sum(getattr(p, kind) for p in found.processes))
        shown = {str(p.process_id): p for p in found.processes[:PROCESSES_MAX]}
        for gone in self._shown.get(group, set()) - shown.keys():
            for kind in KINDS:
                self.process_tasks.remove(group, gone, kind)
        self._shown[group] = set(shown)
        for name, process in shown.items():
            for kind in KINDS:
                self.process_tasks.labels(group, name, kind).set(getattr(process, kind))
