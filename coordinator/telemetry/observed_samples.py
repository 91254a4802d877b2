"""Publishes lag, traffic and changes of members of observed groups as events for the pipeline. They are derived from
refreshes without further requests, so the traffic in bytes is unknown.
"""

from dataclasses import dataclass

import numpy as np

from bellwether_kafka.assignors.shared import ClusterView, Decision, GroupPlan
from bellwether_kafka.coordinator.observation import GroupLag, Observation
from bellwether_kafka.coordinator.telemetry.event_records import membership_records
from bellwether_kafka.coordinator.telemetry.samples import (
    UNKNOWN,
    Followed,
    Publishes,
    SampleEvents,
    TrafficSample,
    flat,
)

SLACK_MS = 1_000  # refreshes are not exactly periodic


@dataclass(frozen=True, slots=True)
class Published:
    """The last published decision of a group and its time."""

    at_ms: int
    decision: Decision[GroupPlan]


class ObservedSamples:
    """Publishes samples of all observed groups. Register its `on_*` methods with the runtime. Groups that another
    Bellwether process leads are skipped, since that process publishes them."""

    def __init__(self, publisher: Publishes, interval_ms: int) -> None:
        self._publisher = publisher
        self._events = SampleEvents(publisher)
        self._interval_ms = interval_ms
        self._published: dict[str, Published] = {}

    def on_observation(self, seen: Observation) -> None:
        """Publishes one observation, unless it has no shadow plan and therefore no owners."""
        shadow, lag = seen.shadow, seen.group_lag
        if shadow is None or lag is None or seen.bellwether_members:
            return
        published, decision = self._published.get(seen.group_id), shadow.decision
        if published is not None and seen.seen_at_ms - published.at_ms < self._interval_ms - SLACK_MS:
            return
        self._published[seen.group_id] = Published(seen.seen_at_ms, decision)
        followed = Followed.of(decision, shadow.present)
        self._events.publish(followed, sample_of(followed.cluster, lag, seen.seen_at_ms))
        for record in membership_records(published.decision, decision) if published is not None else ():
            change = {**record, "generation": UNKNOWN, "changed_at_ms": seen.seen_at_ms}
            self._publisher.offer("membership", change)

    def on_gone(self, group: str) -> None:
        self._published.pop(group, None)
        self._events.forget(group)


def sample_of(cluster: ClusterView, lag: GroupLag, at_ms: int) -> TrafficSample:
    """Returns the offsets with the partition indices of `cluster`. Pure."""
    firsts = np.cumsum([0, *lag.counts.values()]).tolist()
    places = {
        topic: (first, min(count, int(cluster.counts[cluster.index[topic]])))
        for (topic, count), first in zip(lag.counts.items(), firsts, strict=False)
        if topic in cluster.index
    }
    end, committed = (
        flat(cluster, {topic: column[first : first + count] for topic, (first, count) in places.items()})
        for column in (lag.end, lag.committed)
    )
    start, size = np.zeros_like(end), np.full_like(end, UNKNOWN)
    return TrafficSample(at_ms, start, end, committed, size)
