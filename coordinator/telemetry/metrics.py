"""Prometheus metrics of an instance. No decision depends on them.

Label values are limited: groups come from the settings, reasons from a list. Of values that clients and plug-ins
choose, only the first ones get series; all others count as "other".
"""

from collections.abc import Iterable, Mapping

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, disable_created_metrics

from bellwether_kafka.assignors.shared import NOBODY, Decision, GroupPlan, IntArray, lookup
from bellwether_kafka.coordinator import clocks
from bellwether_kafka.coordinator.ghosts import Conversion, Proof
from bellwether_kafka.coordinator.membership import Note, NoteKind, Role
from bellwether_kafka.coordinator.observation import (
    ANOMALIES,
    Finding,
    FindingKind,
    Observation,
    anomalies_of_plan,
    known_cross_rack,
)
from bellwether_kafka.coordinator.planning import Cause, Planned, Source, record_bytes

REASONS_MAX = 30
UNKNOWN = float("nan")
OTHER = "other"
MEMBER_ID_SUFFIX = 37  # "-" and the UUID that brokers append to the client id
UUID_PARTS = 4
DECISION_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
WAIT_BUCKETS = (0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

# The library would also expose when each counter and histogram was made: an eighth of all series.
disable_created_metrics()  # type: ignore[no-untyped-call]  # the library does not say that it returns None


class SeriesLabels:
    """Limits the number of label values that clients or plug-ins choose. Returns OTHER for further values."""

    def __init__(self, most: int = REASONS_MAX) -> None:
        self._most = most
        self._reasons: set[str] = set()

    def __call__(self, value: str) -> str:
        if value in self._reasons:
            return value
        if len(self._reasons) >= self._most:
            return OTHER
        self._reasons.add(value)
        return value


def client_of(member_id: str) -> str:
    """Returns the client id in a member id: it stays the same when the member rejoins under a new id."""
    head, tail = member_id[:-MEMBER_ID_SUFFIX], member_id[-MEMBER_ID_SUFFIX:]
    return head if head and tail.startswith("-") and tail[1:].count("-") == UUID_PARTS else member_id


class Metrics:
    """The metrics of all groups, in `registry`."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._stage = SeriesLabels()
        self._led: set[str] = set()
        self._of_groups: list[Gauge] = []
        self._planned: set[str] = set()  # groups with figures of a plan
        self._reasons: dict[str, str] = {}  # by group: why it is not led
        self._clients: dict[str, SeriesLabels] = {}
        self.info = Info("bellwether", "This process.", registry=self.registry)
        self._counters()
        self._histograms()
        self._gauges()

    def _counters(self) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"bellwether_{name}", text, ["group", *labels], registry=self.registry)

        text = "Rebalances that ended here: led, ordered (by an operator, or what follows), or refused."
        self.rebalances = counter("rebalances", text, "reason", "outcome")
        text = "Partitions by what a plan did to them: kept, moved, new, lost."
        self.moves = counter("partition_moves", text, "kind")
        self.fallbacks = counter("fallbacks", "Plans made another way than configured.", "reason")
        self.step_asides = counter("step_asides", "Groups handed back to a member.", "reason")
        text = "Dead members removed from the group, by what proved their death."
        self.ghosts = counter("ghosts_removed", text, "proof")
        text = "Members that came or went between two plans, by client id; beyond the first ones as other."
        self.member_changes = counter("member_changes", text, "client")
        self.alerts = counter("alerts", "Alerts that need an operator's attention.")

    def _histograms(self) -> None:
        def seconds(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            labelled = ["group", *labels]
            return Histogram(f"bellwether_{name}_seconds", text, labelled, buckets=buckets, registry=self.registry)

        self.decision = seconds("decision", "From the members' bytes to those of the plan.", DECISION_BUCKETS)
        self.metadata = seconds("metadata", "Reading the metadata of a decision.", WAIT_BUCKETS)
        self.join = seconds("join", "From JoinGroup to its answer, the wait for members included.", WAIT_BUCKETS)
        self.sync = seconds("sync", "From SyncGroup to its answer.", WAIT_BUCKETS)
        text = "Stages of the decisions, Streams' own steps not counted."
        self.stage = seconds("stage", text, DECISION_BUCKETS, "stage")

    def gauge(self, name: str, text: str, *labels: str) -> Gauge:
        """Returns a new gauge in this registry, with the labels "group" and `labels`."""
        made = Gauge(f"bellwether_{name}", text, ["group", *labels], registry=self.registry)
        self._of_groups.append(made)
        return made

    def on_gone(self, group: str) -> None:
        """Removes the series of a group that is no longer observed, which would otherwise keep their last values."""
        self._planned.discard(group)
        for series in (*self._of_groups, self.alerts):
            series.remove_by_labels({"group": group})

    def _gauges(self) -> None:
        gauge = self.gauge
        self.lateness = Gauge(
            "bellwether_loop_lateness_seconds",
            "The largest lateness of a timer in the event loop of the memberships within the last minute.",
            registry=self.registry,
        )
        self.leading = gauge(
            "group_leading", "1 while this process leads the group, 0 while it is to lead it and does not."
        )
        text = "1 while brokers do not answer for the group: the other series are older then."
        self.unknown = gauge("observed_unknown", text)
        text = "1 for the reason why this process does not lead a group that it is to lead."
        self.not_leading = gauge("group_not_leading", text, "reason")
        text = "Anomalies by kind: a number of partitions, topics or applications."
        self.anomalies = gauge("anomalies", text, "kind")
        self.led_at = gauge("led_timestamp_seconds", "When this process last decided for the group or gave it up.")
        self.generation = gauge("generation", "Generation of the latest plan.")
        self.members = gauge("members", "Members of the group, Bellwether not counted.")
        self.degraded = gauge("degraded_members", "Members whose bytes could not be used.")
        self.convertible = gauge("convertible", "1 while nothing in the group prevents a conversion to KIP-848.")
        self.partitions = gauge("partitions", "Partitions with an owner, those that tasks read included.")
        self.cross_rack = gauge(
            "cross_rack_partitions", "Partitions, or tasks' sources, without a replica in their owner's rack."
        )
        self.unowned = gauge("unowned_partitions", "Partitions of subscribed topics, or tasks, without an owner.")
        self.pending = gauge("pending_partitions", "Partitions or tasks handed out one rebalance later.")
        self.spread = gauge("partition_spread", "Most minus fewest partitions per member, or active tasks per process.")
        self._of_plan: Mapping[str, Gauge] = {
            "owned": self.partitions,
            "cross_rack": self.cross_rack,
            "spread": self.spread,
            "pending": self.pending,
        }
        self.metadata_age = gauge("metadata_age_seconds", "Age of the metadata behind the latest plan.")
        text = "Cautious estimate of the broker's record of the group; message.max.bytes limits it."
        self.record_size = gauge("group_record_bytes", text)

    def expect(self, group: str, *, lead: bool, ghosts: bool) -> None:
        """Creates the counters of a group with 0, because Prometheus does not see an increase from no series to 1."""
        if lead:
            self.on_role(group, Role())
        self.alerts.labels(group)
        for source in (Source.CHEAP, Source.PREVIOUS) if lead else ():
            self.fallbacks.labels(group, source.value)
        for proof in Proof if ghosts else ():
            self.ghosts.labels(group, proof.value)

    def on_decision(self, planned: Planned[GroupPlan]) -> None:
        """Records a plan that the broker has accepted. An observer of decisions for the runtime."""
        decision, timings = planned.decision, planned.timings
        group = decision.raw.group_id
        outcome = "ordered" if planned.cause.by_order else "led"
        self.rebalances.labels(group, planned.cause.kind.value, outcome).inc()
        self.changed(group, planned.cause)
        self.generation.labels(group).set(decision.raw.generation)
        self.led_at.labels(group).set(clocks.wall())
        self.unknown.labels(group).set(0)
        for kind in ("kept", "moved", "new", "lost"):
            self.moves.labels(group, kind).inc(getattr(decision.moves, kind))
        self.join.labels(group).observe(timings.join_s)
        self.decision.labels(group).observe(timings.plan_s)
        self.metadata.labels(group).observe(timings.metadata_s)
        self.sync.labels(group).observe(timings.sync_s)
        for report in decision.stages:
            self.stage.labels(group, self._stage(report.stage)).observe(report.took_s)
        self.metadata_age.labels(group).set(max(0.0, timings.joined_at - decision.cluster.read_at))
        self.record_size.labels(group).set(record_bytes(decision.raw, decision.assignments))
        if planned.source is not Source.PLAN:
            self.fallbacks.labels(group, planned.source.value).inc()
        self.record(decision)
        self.on_anomalies(group, anomalies_of_plan(decision.plan, decision.raw.protocol, client_of))

    def on_ghost(self, group: str, proof: Proof) -> None:
        """Counts the removal of one dead member."""
        self.ghosts.labels(group, proof.value).inc()

    def on_conversion(self, group: str, conversion: Conversion) -> None:
        """Records whether the group could be converted to KIP-848."""
        self.convertible.labels(group).set(conversion.ready)

    def on_note(self, group: str, note: Note) -> None:
        """Records a note of Bellwether's membership. An observer of notes for the runtime."""
        if note.kind is NoteKind.LEADING:
            self.led_at.labels(group).set(clocks.wall())
            self._led.add(group)
        elif note.kind is NoteKind.REFUSED:
            self.rebalances.labels(group, note.code, "refused").inc()
        elif note.kind is NoteKind.LEFT:
            self.step_asides.labels(group, note.code).inc()
        elif note.kind is NoteKind.ALERT:
            self.alerts.labels(group).inc()
        if note.kind in (NoteKind.LEFT, NoteKind.WATCHING):
            if group in self._led:
                self.led_at.labels(group).set(clocks.wall())
            self._led.discard(group)

    def on_role(self, group: str, role: Role) -> None:
        """Records whether Bellwether leads. An observer of roles for the runtime. Only the present reason has a
        series."""
        self.leading.labels(group).set(role.leading)
        shown = self._reasons.pop(group, None)
        if shown is not None:
            self.not_leading.remove(group, shown)
        if role.reason is not None:
            self._reasons[group] = role.reason.value
            self.not_leading.labels(group, role.reason.value).set(1)

    def on_anomalies(self, group: str, anomalies: Iterable[Finding], unjudged: Iterable[FindingKind] = ()) -> None:
        """Records all anomalies of a group. The kinds in `unjudged` are unknown now and become NaN."""
        counts: dict[str, float] = dict.fromkeys(unjudged, UNKNOWN)
        counts |= {anomaly.kind: anomaly.count for anomaly in anomalies}
        for kind in ANOMALIES:
            self.anomalies.labels(group, kind.value).set(counts.get(kind, 0))

    def changed(self, group: str, why: Cause) -> None:
        """Counts the members that joined and left, so that the alert on a rebalance storm can name them."""
        label = self._clients.setdefault(group, SeriesLabels())
        for client in sorted(map(client_of, why.members)):
            self.member_changes.labels(group, label(client)).inc()

    def record(self, decision: Decision[GroupPlan]) -> None:
        """Records the figures of one decision."""
        group, plan = decision.raw.group_id, decision.plan
        placed = sum(len(owner.members) for owner in plan.owners)
        degraded = sum(owner.degraded is not None for owner in plan.owners)
        self.members.labels(group).set(placed)
        self.degraded.labels(group).set(degraded + len(decision.raw.others) - placed)
        self.unowned.labels(group).set(decision.cost.unowned)
        crossing = known_cross_rack(plan, plan.owner, decision.cost)
        values = {
            "owned": _owned(plan, plan.owner),
            "cross_rack": UNKNOWN if crossing is None else crossing,
            "spread": decision.cost.spread,
            "pending": int(np.count_nonzero(plan.pending)),
        }
        self._planned.add(group)
        for name, gauge in self._of_plan.items():
            gauge.labels(group).set(values[name])

    def on_led_seen(self, seen: Observation) -> None:
        """Records an observation of a group that is to be led, while no plan of this process is in force. The figures
        are those of the observed assignment, NaN if brokers do not show them. If no broker answers, the last figures
        remain and `unknown` is 1."""
        group, shadow = seen.group_id, seen.shadow
        self.unknown.labels(group).set(seen.unknown is not None)
        if seen.unknown is not None:
            if seen.kind == "unknown":  # nothing was known before
                self.members.labels(group).set(UNKNOWN)
                self.unowned.labels(group).set(UNKNOWN)
            return
        self.on_anomalies(group, seen.anomalies, seen.unjudged)
        self.members.labels(group).set(len(seen.members))
        self.degraded.labels(group).set(sum(bool(member.trouble) for member in seen.members))
        self.unowned.labels(group).set(UNKNOWN if shadow is None else shadow.current.unowned)
        if shadow is None:
            self._forget_plan(group)
            return
        current = shadow.current
        values = {
            "owned": _owned(shadow.decision.plan, shadow.present),
            "cross_rack": UNKNOWN if shadow.cross_rack is None else shadow.cross_rack,
            "spread": current.spread,
        }
        self._planned.add(group)
        for name, gauge in self._of_plan.items():
            gauge.labels(group).set(values.get(name, UNKNOWN))

    def _forget_plan(self, group: str) -> None:
        """Sets the gauges of the last plan, which is outdated, to NaN."""
        for gauge in self._of_plan.values() if group in self._planned else ():
            gauge.labels(group).set(UNKNOWN)


def _owned(plan: GroupPlan, owner: IntArray) -> int:
    """Returns the number of partitions that have an owner, directly or through a task; `owner` are those of all
    items."""
    return int(np.count_nonzero(lookup(owner, plan.item_of, NOBODY) != NOBODY))
