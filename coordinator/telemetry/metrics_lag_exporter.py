"""Lag metrics with the names and labels of kafka-lag-exporter, for existing dashboards and alerts.

Source: README and Metrics.scala of https://github.com/seglo/kafka-lag-exporter. The earliest offset and the exporter's
metrics of its own polling are missing. They are off by default, because each partition has its own series.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from bellwether_kafka.coordinator.observation import GroupLag, Observation, PartitionLag
from bellwether_kafka.coordinator.telemetry.metrics import client_of

PARTITIONS_MAX = 20_000  # a group with more gets only the series of the whole group
UNKNOWN = float("nan")
NOT_KNOWN = -1  # the unknown offset in a GroupLag
GROUP = ("cluster_name", "group")
PARTITION = (*GROUP, "topic", "partition", "member_host", "consumer_id", "client_id")
_OF_GROUP, _OF_PARTITION = "kafka_consumergroup_group_", "kafka_partition_"
FAMILIES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    f"{_OF_PARTITION}latest_offset": ("The end of a partition.", ("cluster_name", "topic", "partition")),
    f"{_OF_GROUP}offset": ("The committed offset.", PARTITION),
    f"{_OF_GROUP}lag": ("Records that are not consumed yet.", PARTITION),
    f"{_OF_GROUP}lag_seconds": ("Wait of the oldest unread record.", PARTITION),
    f"{_OF_GROUP}max_lag": ("The largest known lag in records.", GROUP),
    f"{_OF_GROUP}max_lag_seconds": (
        "The largest lag in time; a lower bound if it is older than the first refresh.",
        GROUP,
    ),
    f"{_OF_GROUP}sum_lag": ("Records that are not consumed yet, of all partitions whose lag is known.", GROUP),
    f"{_OF_GROUP}topic_sum_lag": ("The same by topic.", (*GROUP, "topic")),
}

Members = Mapping[str, tuple[str, str]]  # member_host and client_id by member id


class LagExporterMetrics(Collector):
    """A collector that makes its metrics at each scrape. Register its `on_*` methods with the runtime and the collector
    with the registry."""

    labelnames = {name: labels for name, (_, labels) in FAMILIES.items()}  # noqa: RUF012 - as mutable as FAMILIES

    def __init__(self, cluster_name: str) -> None:
        self._cluster = cluster_name
        self._lags: dict[str, tuple[GroupLag, Members]] = {}

    def describe(self) -> Iterable[GaugeMetricFamily]:
        return _families().values()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        families, ends = _families(), dict[tuple[str, str], int | None]()  # groups may read the same topics
        for group, (group_lag, members) in list(self._lags.items()):
            self._group(families, group, group_lag)
            for partition in group_lag.partitions() if len(group_lag.lag) <= PARTITIONS_MAX else ():
                place = partition.topic, str(partition.partition)
                ends[place] = partition.end if partition.end is not None else ends.get(place)
                host, client = members.get(partition.member or "", ("", ""))
                self._partition(families, (group, *place, host, partition.member or "", client), partition)
        for place, end in ends.items():
            families[f"{_OF_PARTITION}latest_offset"].add_metric((self._cluster, *place), _number(end))
        yield from families.values()

    def on_observation(self, seen: Observation) -> None:
        members = {m.member_id: (m.client_host.removeprefix("/"), m.client_id) for m in seen.members}
        self._take(seen.group_id, seen.group_lag, members)

    on_led_seen = on_observation

    def on_lag(self, group: str, group_lag: GroupLag | None) -> None:
        """Records the lag of a group that Bellwether leads, None if its offsets could not be read."""
        named = filter(None, group_lag.member) if group_lag is not None else ()
        self._take(group, group_lag, {member: ("", client_of(member)) for member in named})

    def on_gone(self, group: str) -> None:
        self._lags.pop(group, None)

    def _take(self, group: str, group_lag: GroupLag | None, members: Members) -> None:
        if group_lag is not None:
            self._lags[group] = group_lag, members
        elif group in self._lags:  # its series remain, with NaN
            group_lag, members = self._lags[group]
            self._lags[group] = _unread(group_lag), members

    def _group(self, families: Mapping[str, GaugeMetricFamily], group: str, group_lag: GroupLag) -> None:
        summary, labels = group_lag.summary(), (self._cluster, group)
        families[f"{_OF_GROUP}max_lag"].add_metric(labels, _number(summary.lag_max))
        families[f"{_OF_GROUP}max_lag_seconds"].add_metric(labels, _seconds(summary.lag_ms))
        families[f"{_OF_GROUP}sum_lag"].add_metric(labels, _number(summary.lag))
        for topic, lags in group_lag.by_topic().items():
            known_lags = [lag for lag in lags if lag is not None]
            total = sum(known_lags) if known_lags else UNKNOWN
            families[f"{_OF_GROUP}topic_sum_lag"].add_metric((*labels, topic), total)

    def _partition(
        self, families: Mapping[str, GaugeMetricFamily], labels: tuple[str, ...], partition: PartitionLag
    ) -> None:
        values = {
            "offset": _number(partition.committed),
            "lag": _number(partition.lag),
            "lag_seconds": _seconds(partition.lag_ms),
        }
        for name, value in values.items():
            families[f"{_OF_GROUP}{name}"].add_metric((self._cluster, *labels), value)


def _unread(group_lag: GroupLag) -> GroupLag:
    no = np.full_like(group_lag.lag, NOT_KNOWN)
    return replace(group_lag, committed=no, start=no, end=no, lag=no, lag_ms=no, lag_ms_min=no)


def _families() -> dict[str, GaugeMetricFamily]:
    return {name: GaugeMetricFamily(name, text, labels=labels) for name, (text, labels) in FAMILIES.items()}


def _number(value: float | None) -> float:
    return UNKNOWN if value is None else value


def _seconds(value_ms: int | None) -> float:
    return UNKNOWN if value_ms is None else value_ms / 1000
