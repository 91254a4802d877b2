"""Prometheus metrics of groups, led and only observed: their lag, and how long partitions or tasks had no owner; and of
observed ones the shadow plan, and whether Bellwether could lead."""

from collections.abc import Iterable

from prometheus_client import Gauge, Histogram

from bellwether_kafka.assignors.shared import Cost, GroupPlan
from bellwether_kafka.coordinator.membership import Note, NoteKind
from bellwether_kafka.coordinator.observation import (
    VERDICTS,
    GroupLag,
    Observation,
    Pause,
    Pauses,
    SeenRebalance,
    seen_pause,
)
from bellwether_kafka.coordinator.planning import Planned
from bellwether_kafka.coordinator.telemetry.metrics import Metrics

UNKNOWN = float("nan")


class LagMetrics:
    """Lag metrics of all groups. Register its `on_*` methods with the runtime. Unknown values are NaN."""

    def __init__(self, common: Metrics) -> None:
        def gauge(name: str, text: str) -> Gauge:
            return common.gauge(f"lag_{name}", text)

        self.records = gauge("records", "Records that are not consumed yet, of all partitions whose lag is known.")
        self.records_max = gauge("max_records", "The largest lag of one partition, in records.")
        text = "Wait of the oldest unread record; a lower bound if it is older than the first refresh."
        self.seconds = gauge("seconds", text)
        self.unknown = gauge("unknown_partitions", "Partitions whose lag in records is not known.")
        self.written = gauge("written_per_second", "Records written, a mean over five minutes.")
        self.consumed = gauge("consumed_per_second", "Records consumed, a mean over five minutes.")
        self.catch_up = gauge(
            "catch_up_seconds", "Time until all records are read, at these rates; NaN if that is never."
        )
        self.read_at = gauge("timestamp_seconds", "When offsets were last read.")
        self.verdicts = common.gauge("lag_partitions", "Partitions by the verdict on their lag.", "verdict")
        plain = (self.records, self.records_max, self.seconds, self.unknown, self.written, self.consumed)
        self._plain = (*plain, self.catch_up)

    def on_observation(self, seen: Observation) -> None:
        if seen.kind in ("missing", "other"):
            self.on_gone(seen.group_id)
        else:
            self.on_lag(seen.group_id, seen.group_lag)

    on_led_seen = on_observation

    def on_lag(self, group: str, group_lag: GroupLag | None) -> None:
        """Records the lag of a group, None if its offsets could not be read."""
        if group_lag is None:
            for gauge in self._plain:
                gauge.labels(group).set(UNKNOWN)
            for verdict in VERDICTS:
                self.verdicts.labels(group, verdict.value).set(UNKNOWN)
            return
        summary = group_lag.summary()
        self.records.labels(group).set(_number(summary.lag))
        self.records_max.labels(group).set(_number(summary.lag_max))
        self.seconds.labels(group).set(_seconds(summary.lag_ms))
        self.unknown.labels(group).set(summary.unknown)
        self.written.labels(group).set(_number(summary.written_per_s))
        self.consumed.labels(group).set(_number(summary.consumed_per_s))
        self.catch_up.labels(group).set(_seconds(summary.catch_up_ms))
        self.read_at.labels(group).set(group_lag.at_ms / 1000)
        for name, count in summary.verdicts.items():
            self.verdicts.labels(group, name).set(count)

    def on_gone(self, group: str) -> None:
        """Removes the series of a group that this process no longer observes."""
        for gauge in (*self._plain, self.read_at, self.verdicts):
            gauge.remove_by_labels({"group": group})


def _number(value: float | None) -> float:
    return UNKNOWN if value is None else value


def _seconds(value_ms: int | None) -> float:
    return UNKNOWN if value_ms is None else value_ms / 1000


PLANS = ("current", "shadow")


class ObservedMetrics:
    """Records observations. Register its `on_*` methods with the runtime."""

    def __init__(self, common: Metrics) -> None:
        self._common = common

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return common.gauge(f"observed_{name}", text, *labels)

        self.can_be_led = gauge("can_be_led", "1 if a client could lead the group, 0 if its broker assigns.")
        self.unknown = common.unknown
        self.seen_at = gauge("timestamp_seconds", "When the group was last described.")
        self.unowned = gauge("unowned", "Partitions or tasks without an owner.", "plan")
        self.cross_rack = gauge("cross_rack_partitions", "Partitions without a replica in their owner's rack.", "plan")
        self.moved = gauge("shadow_moves", "Partitions or tasks that Bellwether's plan would move.")

    def on_unknown(self, seen: Observation) -> None:
        """Sets `unknown` and keeps the last known values, whose time is `timestamp_seconds`."""
        self._common.expect(seen.group_id, lead=False, ghosts=False)  # needed for groups found by `match`
        self.unknown.labels(seen.group_id).set(1)

    def on_observation(self, seen: Observation) -> None:
        group = seen.group_id
        self._common.expect(group, lead=False, ghosts=False)
        self._common.on_anomalies(group, seen.anomalies, seen.unjudged)
        self.unknown.labels(group).set(0)
        self._common.members.labels(group).set(len(seen.members))
        self.can_be_led.labels(group).set(seen.can_be_led)
        self.seen_at.labels(group).set(seen.seen_at_ms / 1000)
        shadow = seen.shadow
        self.moved.labels(group).set(UNKNOWN if shadow is None else shadow.moves.moved)
        self._common.spread.labels(group).set(UNKNOWN if shadow is None else shadow.current.spread)
        costs: tuple[Cost | None, Cost | None] = (None, None) if shadow is None else (shadow.current, shadow.planned)
        for plan, cost in zip(PLANS, costs, strict=True):
            self.unowned.labels(group, plan).set(UNKNOWN if cost is None else cost.unowned)
        crossing = (None, None) if shadow is None else (shadow.cross_rack, shadow.cross_rack_planned)
        for plan, count in zip(PLANS, crossing, strict=True):
            self.cross_rack.labels(group, plan).set(UNKNOWN if count is None else count)


# Bounds that are common in service level objectives, and the usual session timeouts.
PAUSE_BUCKETS = (0.1, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 15.0, 30.0, 45.0, 60.0, 120.0, 300.0)


class PauseMetrics:
    """Records pauses of led groups from decisions, and of observed groups from rebalances. Register its `on_*` methods
    with the runtime."""

    def __init__(self, common: Metrics) -> None:
        text = "Time that partitions or tasks had no owner; one count for each pause."
        self.pause = Histogram(
            "bellwether_pause_seconds", text, ["group", "cause"], buckets=PAUSE_BUCKETS, registry=common.registry
        )
        self._led: dict[str, Pauses] = {}

    def on_decision(self, planned: Planned[GroupPlan]) -> None:
        group = planned.decision.raw.group_id
        self._count(group, self._led.setdefault(group, Pauses()).delivered(planned))

    def on_rebalance(self, seen: Observation, rebalance: SeenRebalance) -> None:
        pause = seen_pause(seen, rebalance)
        self._count(seen.group_id, () if pause is None else (pause,))

    def on_note(self, group: str, note: Note) -> None:
        """Forgets open pauses when Bellwether stops leading, since it cannot see when they end."""
        if note.kind in (NoteKind.LEFT, NoteKind.WATCHING):
            self._led.pop(group, None)

    def on_gone(self, group: str) -> None:
        self.pause.remove_by_labels({"group": group})

    def _count(self, group: str, pauses: Iterable[Pause]) -> None:
        for pause in pauses:
            self.pause.labels(group, pause.cause.value).observe(pause.seconds)
