"""Samples lag and traffic of led groups between rebalances, for the pipeline. No decision depends on them directly.

`lag_entries` and `traffic_entries` are pure. The bytes of a partition are the growth of its log. If retention deleted
segments meanwhile, they are the number of records times the mean size of records on disk; if the topic was recreated,
they are unknown.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import structlog
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from bellwether_kafka.assignors.shared import NOBODY, ClusterView, Decision, GroupPlan, IntArray, LongArray
from bellwether_kafka.coordinator import clocks
from bellwether_kafka.coordinator.events import ACTIVE, Places
from bellwether_kafka.coordinator.kafka.client import OffsetReader, Offsets, OffsetsError, in_sync_replicas
from bellwether_kafka.coordinator.kafka.wire import Transport, TransportError
from bellwether_kafka.coordinator.membership import Note, NoteKind
from bellwether_kafka.coordinator.planning import Planned
from bellwether_kafka.coordinator.telemetry.event_records import chunks

LIMIT_S = 10.0
UNKNOWN = -1

log = structlog.get_logger(__name__)

Counts = Mapping[str, int]
Sizes = Mapping[tuple[str, int], int]


class Publishes(Protocol):
    """The part of `publish.EventPublisher` that is used here."""

    def offer(self, event: str, record: Mapping[str, Any]) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class Followed:
    """The assignment of a group. `holder` is the key of the owner of each flat partition, None if it has none; `rack`
    is the owner's rack and `task` the Streams task that reads the partition."""

    group_id: str
    cluster: ClusterView
    holder: tuple[str | None, ...]
    rack: tuple[str | None, ...]
    task: tuple[str | None, ...]

    @property
    def counts(self) -> dict[str, int]:
        """The partition counts of topics in which at least one partition has an owner."""
        owned = np.array([name is not None for name in self.holder], dtype=np.bool_)
        topics = set(self.cluster.topic_of()[owned].tolist())
        return {name: int(self.cluster.counts[t]) for t, name in enumerate(self.cluster.topics) if t in topics}

    @classmethod
    def of(cls, decision: Decision[GroupPlan], owner: IntArray | None = None) -> "Followed":
        """Makes a Followed of a decision. `owner` are the owners of all items if not those of the plan."""
        plan = decision.plan
        keys, racks = [*(o.key for o in plan.owners), None], [*(o.rack for o in plan.owners), None]
        items = plan.item_of.tolist()
        target = [*(plan.owner if owner is None else owner).tolist(), NOBODY]  # the last entries belong to NOBODY, -1
        return cls(
            decision.raw.group_id,
            plan.cluster,
            tuple([keys[target[item]] for item in items]),
            tuple([racks[target[item]] for item in items]),
            tuple([plan.state.task(item) if item != NOBODY else None for item in items]),
        )


@dataclass(frozen=True, slots=True, eq=False)
class TrafficSample:
    """Offsets and log sizes of a group's partitions as flat arrays, UNKNOWN if not read. `ids` are the known topic ids,
    by which a recreated topic is recognised."""

    at_ms: int
    start: LongArray
    end: LongArray
    committed: LongArray
    size: LongArray
    ids: Mapping[str, str] = field(default_factory=dict)


def lag_entries(followed: Followed, sample: TrafficSample) -> list[dict[str, Any]]:
    """Returns one entry per partition with an owner. Where the group never committed, the lag is UNKNOWN."""
    places, entries = Places(followed.cluster), []
    has_lag = (sample.end >= 0) & (sample.committed >= 0)
    lag = np.where(has_lag, np.maximum(sample.end - sample.committed, 0), UNKNOWN).tolist()
    committed, end = sample.committed.tolist(), sample.end.tolist()
    for flat, member in enumerate(followed.holder):
        if member is not None:
            place = {name: value for name, value in places(flat).items() if name in ("topic", "partition")}
            offsets = {"committed": committed[flat], "end": end[flat], "lag": lag[flat]}
            entries.append({**place, "task": followed.task[flat], "role": ACTIVE, "member": member, **offsets})
    return entries


def traffic_entries(followed: Followed, before: TrafficSample, now: TrafficSample) -> list[dict[str, Any]]:
    """Returns one entry per partition with an owner. Both samples have the indices of `followed.cluster`."""
    cluster, was, ids = followed.cluster, before.ids, now.ids
    other = [was.get(topic, ids.get(topic)) != ids.get(topic, was.get(topic)) for topic in cluster.topics]
    recreated = np.repeat(other, cluster.counts)
    records, written = (np.where(recreated, UNKNOWN, amounts) for amounts in traffic(before, now))
    places, entries = Places(cluster), []
    for flat, member in enumerate(followed.holder):
        if member is not None:
            more = {"member": member, "rack": followed.rack[flat]}
            entries.append(places(flat) | more | {"records": int(records[flat]), "bytes": int(written[flat])})
    return entries


def traffic(before: TrafficSample, now: TrafficSample) -> tuple[LongArray, LongArray]:
    """Returns (records, bytes) written between two samples, UNKNOWN if they cannot be determined."""
    records = now.end - before.end
    unknown = (before.end < 0) | (now.end < 0) | (records < 0) | (now.start < before.start)
    grown = now.size - before.size
    sized = (before.size >= 0) & (now.size >= 0)
    whole = sized & (now.start == before.start) & (grown >= 0)
    on_disk = np.maximum(now.end - now.start, 1)
    estimate = np.where(now.size >= 0, records * np.maximum(now.size, 0) // on_disk, UNKNOWN)
    written = np.where(whole, grown, estimate)
    written = np.where(records == 0, np.where(now.size >= 0, 0, UNKNOWN), written)
    return np.where(unknown, UNKNOWN, records), np.where(unknown, UNKNOWN, written)


class SampleEvents:
    """Publishes samples as events. Traffic is what was written between two samples."""

    def __init__(self, publisher: Publishes) -> None:
        self._publisher = publisher
        self._samples: dict[str, tuple[Followed, TrafficSample]] = {}

    def publish(self, followed: Followed, sample: TrafficSample) -> None:
        """Publishes the lag, and the traffic since the last sample if the topics are the same."""
        head = {"group": followed.group_id, "sampled_at_ms": sample.at_ms}
        for record in chunks(head, lag_entries(followed, sample)):
            self._publisher.offer("lag", record)
        then, last = self._samples.get(followed.group_id, (None, sample))
        self._samples[followed.group_id] = followed, sample
        if then is None or then.cluster.topics != followed.cluster.topics:
            return
        if np.array_equal(then.cluster.counts, followed.cluster.counts):
            for record in chunks({**head, "since_ms": last.at_ms}, traffic_entries(followed, last, sample)):
                self._publisher.offer("traffic", record)

    def forget(self, group: str) -> None:
        self._samples.pop(group, None)


class Sampler:
    """Samples all led groups. Register its `on_*` methods with the runtime, which must also run `run`."""

    def __init__(
        self, publisher: Publishes, *, interval_ms: int = 30_000, wall_clock: Callable[[], float] = clocks.wall
    ) -> None:
        self._events = SampleEvents(publisher)
        self._interval_s = interval_ms / 1000
        self._wall_clock = wall_clock
        self._followed: dict[str, Followed] = {}
        self._sizes_unknown = False

    def on_decision(self, planned: Planned[GroupPlan]) -> None:
        decision = planned.decision
        self._followed[decision.raw.group_id] = Followed.of(decision)

    def on_note(self, group: str, note: Note) -> None:
        if note.kind in (NoteKind.LEFT, NoteKind.WATCHING):
            self._followed.pop(group, None)
            self._events.forget(group)

    async def beside(self, offsets: OffsetReader, transport: Transport, admin: AdminClient) -> None:
        """Samples until cancelled. Unanswered requests and unexpected errors are logged and do not end it."""
        while True:
            await asyncio.sleep(self._interval_s)
            for followed in list(self._followed.values()):
                try:
                    sample = await self._sample(followed, offsets, transport, admin)
                except (OffsetsError, TransportError, KafkaException, TimeoutError) as error:
                    log.warning("sample_failed", group=followed.group_id, reason=str(error))
                    continue
                except Exception:
                    log.exception("sampler_crashed", group=followed.group_id)
                    continue
                self.publish(followed, sample)

    def publish(self, followed: Followed, sample: TrafficSample) -> None:
        """Publishes one sample."""
        self._events.publish(followed, sample)

    async def _sample(
        self, followed: Followed, offsets: OffsetReader, transport: Transport, admin: AdminClient
    ) -> TrafficSample:
        counts = followed.counts
        at_ms = int(self._wall_clock() * 1000)
        sizes = await self._sizes(counts, transport, admin)
        ids = await self._ids(counts, admin)
        ends, starts, committed = await asyncio.gather(
            offsets.ends(counts, LIMIT_S),
            offsets.starts(counts, LIMIT_S),
            offsets.committed(followed.group_id, counts, LIMIT_S),
        )
        size = {t: np.array([sizes.get((t, p), UNKNOWN) for p in range(n)], dtype=np.int64) for t, n in counts.items()}
        start, end, done, sized = (flat(followed.cluster, values) for values in (starts, ends, committed, size))
        return TrafficSample(at_ms, start, end, done, sized, ids)

    async def _ids(self, counts: Counts, admin: AdminClient) -> Mapping[str, str]:
        """Returns the topic ids. Brokers before Kafka 2.8 have none."""
        if not counts:
            return {}
        asked = admin.describe_topics(TopicCollection(list(counts)), request_timeout=LIMIT_S)
        ids = {}
        for topic, future in asked.items():
            described = await asyncio.to_thread(future.result, LIMIT_S + 1)
            if described.topic_id is not None:
                ids[topic] = str(described.topic_id)
        return ids

    async def _sizes(self, counts: Counts, transport: Transport, admin: AdminClient) -> Sizes:
        """Returns the size in bytes of each partition's largest in-sync replica, as far as brokers report it."""
        try:
            in_sync = await asyncio.to_thread(in_sync_replicas, admin, counts, LIMIT_S)
            largest = await transport.largest_logs(in_sync, counts, in_sync)
            reason = "no broker reports sizes; grant Bellwether's principal the ACL DESCRIBE on Cluster"
        except (TransportError, TimeoutError) as error:
            largest, reason = {}, f"a broker did not report sizes: {error}"
        if not largest and counts and not self._sizes_unknown:
            log.warning("sizes_unknown", reason=reason)
        self._sizes_unknown = not largest
        return largest


def flat(cluster: ClusterView, values: Offsets) -> LongArray:
    """Returns an array with one entry per flat partition, UNKNOWN if it has no value."""
    dense = np.full(cluster.partition_total, UNKNOWN, dtype=np.int64)
    for topic, column in values.items():
        first = int(cluster.first[cluster.index[topic]])
        dense[first : first + len(column)] = column
    return dense
