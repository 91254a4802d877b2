"""The weights of partitions, measured by the pipeline or from offsets: clamped and expired before they are used. Pure.

A weight is a rate (bytes or records per second). Wrong weights can make a plan uneven but never invalid (promise P5):
absurd values are clamped, old ones expire, partitions without a weight get the median of their topic, and if too few
weights are known all partitions weigh the same.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from bellwether_kafka.assignors.shared.arrays import BoolArray, FloatArray
from bellwether_kafka.assignors.shared.dense_views import ClusterView
from bellwether_kafka.protocol.primitives import TopicPartition

# A partition counts as no lighter than the median divided by this, and no heavier than the median times this.
RATIO_MAX = 1_000.0
# If a smaller share of partitions than this has a weight, weights are not used.
KNOWN_SHARE_MIN = 0.5
SKEW_MS_MAX = 300_000
RATE_MAX = 1e15  # a petabyte per second; the sum over millions of partitions is still a number


@dataclass(frozen=True, slots=True)
class Weight:
    """One estimate: bytes per second, the end of the last window behind it (epoch milliseconds), and its standard error
    in the same unit, None if its writer gave none."""

    bytes_per_s: float
    estimated_at_ms: int
    error: float | None = None


@dataclass(frozen=True, slots=True)
class Weights:
    """The estimates that are valid now. `error` is the standard error of all estimates together, relative to their sum,
    None if it is not known; `errors` are those of single estimates, in their unit, where writers gave them. `source` is
    a phrase on what they are made of, "" without any."""

    of: Mapping[TopicPartition, float] = field(default_factory=dict)
    error: float | None = None
    errors: Mapping[TopicPartition, float] = field(default_factory=dict)
    source: str = ""

    @classmethod
    def usable(
        cls, estimates: Mapping[TopicPartition, Weight], now_ms: int, age_ms_max: int
    ) -> tuple["Weights", Mapping[str, int]]:
        """Returns the estimates without those that are too old, from the future, or not from 0 to RATE_MAX, and how
        many of each were dropped."""
        kept: dict[TopicPartition, float] = {}
        errors: dict[TopicPartition, float] = {}
        refused = {"old": 0, "from the future": 0, "absurd": 0}
        for partition, weight in estimates.items():
            if not 0 <= weight.bytes_per_s <= RATE_MAX:  # nor not a number
                refused["absurd"] += 1
            elif weight.estimated_at_ms > now_ms + SKEW_MS_MAX:
                refused["from the future"] += 1
            elif now_ms - weight.estimated_at_ms > age_ms_max:
                refused["old"] += 1
            else:
                kept[partition] = weight.bytes_per_s
                if weight.error is not None:
                    errors[partition] = weight.error
        return cls(kept, errors=errors), {reason: n for reason, n in refused.items() if n}

    def clamped(self) -> int:
        """Returns how many partitions have their estimate raised or lowered, in a group that reads all of these
        partitions."""
        values = np.fromiter(self.of.values(), dtype=np.float64, count=len(self.of))
        middle = _middle(values) if len(values) else 0.0
        return int(((values < middle / RATIO_MAX) | (values > middle * RATIO_MAX)).sum())

    def dense(self, cluster: ClusterView, wanted: BoolArray) -> tuple[FloatArray, str]:
        """Returns (the weight of each flat partition, the reason if all weigh the same, else "").

        `wanted` marks the partitions that count. Their mean weight is 1, so that a sum of weights compares to a number
        of partitions.
        """
        raw = self.raw(cluster)
        measured = wanted & ~np.isnan(raw)
        total = int(wanted.sum())
        same = np.ones(len(raw), dtype=np.float64)
        if not total or measured.sum() < total * KNOWN_SHARE_MIN:
            return same, f"weights of {int(measured.sum())} of {total} partitions are known, so all weigh the same"
        median = _middle(raw[measured])
        if median <= 0:
            return same, "nothing is written to any partition, so all weigh the same"
        clamped = np.clip(raw, median / RATIO_MAX, median * RATIO_MAX)
        filled = np.where(np.isnan(clamped), _topic_medians(cluster, clamped, measured, median), clamped)
        return filled / filled[wanted].mean(), ""

    def raw(self, cluster: ClusterView) -> FloatArray:
        """Returns the rate of each flat partition, NaN if there is no estimate."""
        return _flat(self.of, cluster)

    def error_in(self, cluster: ClusterView, wanted: BoolArray) -> float | None:
        """Returns the `error` of the estimates of these partitions, None if one of them has no known error."""
        if not self.errors:
            return self.error
        rates, errors = self.raw(cluster)[wanted], _flat(self.errors, cluster)[wanted]
        total = float(rates.sum())
        return float(np.sqrt((errors**2).sum())) / total if total > 0 and not np.isnan(errors).any() else None


def _flat(values: Mapping[TopicPartition, float], cluster: ClusterView) -> FloatArray:
    """Returns the value of each flat partition, NaN if it has none."""
    flattened = np.full(cluster.partition_total, np.nan)
    if len(values) > len(flattened):  # those of a whole cluster, for one group
        sizes = zip(cluster.topics, cluster.counts.tolist(), strict=True)
        names = (TopicPartition(topic, p) for topic, count in sizes for p in range(count))
        flattened[:] = [values.get(name, np.nan) for name in names]
        return flattened
    for (topic, partition), value in values.items():
        flat = cluster.flat(topic, partition)
        if flat is not None:
            flattened[flat] = value
    return flattened


def _middle(values: FloatArray) -> float:
    """Returns the median, or the mean if the median is 0."""
    median = float(np.median(values))
    return median if median > 0 else float(values.mean())


def _topic_medians(cluster: ClusterView, values: FloatArray, measured: BoolArray, default: float) -> FloatArray:
    """Returns, per flat partition, the median weight of its topic's known partitions, `default` if the topic has
    none."""
    medians = np.full(len(cluster.topics), default)
    for topic in range(len(cluster.topics)):
        inside = slice(int(cluster.first[topic]), int(cluster.first[topic + 1]))
        if measured[inside].any():
            medians[topic] = np.median(values[inside][measured[inside]])
    return np.repeat(medians, cluster.counts)


def heaviest(weights: Weights, most: int) -> Iterable[tuple[TopicPartition, float]]:
    """Returns the `most` heaviest partitions with their weights, heaviest first."""
    return sorted(weights.of.items(), key=lambda item: (-item[1], item[0]))[:most]
