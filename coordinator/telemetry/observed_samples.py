"""Lag, traffic and changes of members of groups that are only observed, as events for the pipeline. They follow from
looks that have been made anyway: brokers are asked nothing, so nobody knows bytes.
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

SLACK_MS = 1_000  # looks are not on the millisecond


@dataclass(frozen=True, slots=True)
class Published:
    """What has been published of a group."""

    at_ms: int
    decision: Decision[GroupPlan]


class ObservedSamples:
    """All observed groups. Give its `on_*` methods to the runtime as observers. A group that another process of ours
    leads is left to that one."""

    def __init__(self, publisher: Publishes, interval_ms: int) -> None:
        self._publisher = publisher
        self._events = SampleEvents(publisher)
        self._interval_ms = interval_ms
        self._published: dict[str, Published] = {}

    def on_observation(self, seen: Observation) -> None:
        """One look. Without a shadow plan it does not tell who has what, so nothing is published."""
        shadow, found = seen.shadow, seen.group_lag
        if shadow is None or found is None or seen.bellwether_members:
            return
        published, decision = self._published.get(seen.group_id), shadow.decision
        if published is not None and seen.seen_at_ms - published.at_ms < self._interval_ms - SLACK_MS:
            return
        self._published[seen.group_id] = Published(seen.seen_at_ms, decision)
        followed = Followed.of(decision, shadow.held)
        self._events.publish(followed, sample_of(followed.cluster, found, seen.seen_at_ms))
        for record in membership_records(published.decision, decision) if published is not None else ():
            change = {**record, "generation": UNKNOWN, "changed_at_ms": seen.seen_at_ms}
            self._publisher.offer("membership", change)

    def on_gone(self, group: str) -> None:
        self._published.pop(group, None)
        self._events.forget(group)


def sample_of(cluster: ClusterView, found: GroupLag, at_ms: int) -> TrafficSample:
    """The offsets of a look in the coordinates of `cluster`. Pure."""
    firsts = np.cumsum([0, *found.counts.values()]).tolist()
    places = {
        topic: (first, min(count, int(cluster.counts[cluster.index[topic]])))
        for (topic, count), first in zip(found.counts.items(), firsts, strict=False)
        if topic in cluster.index
    }
    end, committed = (
        flat(cluster, {topic: column[first : first + count] for topic, (first, count) in places.items()})
        for column in (found.end, found.committed)
    )
    start, size = np.zeros_like(end), np.full_like(end, UNKNOWN)
    return TrafficSample(at_ms, start, end, committed, size)
