"""Prometheus metrics of the lag of groups, both led and only observed."""

from prometheus_client import Gauge

from bellwether_kafka.coordinator.observation import VERDICTS, GroupLag, Observation
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
