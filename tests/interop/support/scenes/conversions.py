"""Groups whose members are restarted with another protocol while records arrive, followed by `convert --watch`: what
was predicted beside what the members say, and whether a commit or a record was lost.

A group is restarted in one of three ways. "dynamic": one member after another; each restart takes the partitions of the
member away and moves others. "static": the same with instance ids. "together": all are stopped before the first starts.
"""

import json
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Self

from confluent_kafka import ConsumerGroupTopicPartitions, Producer

from tests.interop.support.bellwether import COMMAND, clean_environment
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import Flock, Member, partitions_of, wait_settled, wait_until
from tests.interop.support.ownership import consumed_gaps
from tests.paths import ROOT

RACKS = ("az1", "az2", "az3")
PARTITIONS = 9
SETTLE_S = 120.0
WATCH_S = 600  # for three restarts on any machine
RECORDS_INTERVAL_S = 0.2
PROPERTIES = {"group.consumer.heartbeat.interval.ms": "1000", "group.consumer.min.heartbeat.interval.ms": "1000"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedOneWay:
    """The last line of the watch, and what its members had then by their own callbacks."""

    group: str
    kind: str
    way: str
    last: Mapping[str, Any]
    lines: int
    owned: int
    cross_rack: int
    took_s: float

    @property
    def differences(self) -> list[str]:
        """What the watch shows otherwise than the members."""
        shown, wrong = self.last["placement"], []
        if not self.last["settled"] or self.last["pending"]:
            wrong.append(f"{self.group}: not settled")
        if (shown["unowned"], shown["cross_rack"]) != (PARTITIONS - self.owned, self.cross_rack):
            wrong.append(f"{self.group}: {shown}, but members own {self.owned} and read {self.cross_rack} across racks")
        return wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumption:
    """What became of the records of one group. `lost` are offsets that no member reported, `backwards` partitions whose
    committed offset fell, `uncommitted` records that were never committed, `again` reports beyond the first."""

    group: str
    records: int
    lost: int
    backwards: int
    uncommitted: int
    again: int


class ConvertibleGroup:
    """Three members of one kind of client, one in each rack, on a topic of their own with one replica a partition."""

    def __init__(self, cluster: KafkaCluster, flock: Flock, name: str, kind: str, way: str) -> None:
        self.name, self.kind, self.way = name, kind, way
        self.backwards = 0
        self._cluster = cluster
        self._committed: dict[int, int] = {}
        cluster.create_topic(name, assignment=[[1 + p % len(RACKS)] for p in range(PARTITIONS)])
        instances = [f"{name}-{rack}" if way == "static" else None for rack in RACKS]
        self.members = [
            flock.member(kind, name, [name], ["range"], rack=rack, instance=instance, session_ms=30_000)
            for rack, instance in zip(RACKS, instances, strict=True)
        ]
        self._settled()

    def convert(self, protocol: str) -> ConvertedOneWay:
        """Restarts the members with this protocol. Raises AssertionError if the watch does not end in time."""
        began = time.monotonic()
        with watched(self._cluster, self.name, *(["--back"] if protocol == "classic" else [])) as lines:
            for batch in [self.members] if self.way == "together" else [[member] for member in self.members]:
                self._restart(batch, protocol)
                self.read_commits()
            owners = self._settled()
        self.read_commits()
        crossing = sum(RACKS[p % len(RACKS)] != member.fields["rack"] for (_, p), member in owners.items())
        return ConvertedOneWay(
            group=self.name,
            kind=self.kind,
            way=self.way,
            last=json.loads(lines[-1]),
            lines=len(lines),
            owned=len(owners),
            cross_rack=crossing,
            took_s=time.monotonic() - began,
        )

    def read_commits(self) -> int:
        """Compares the committed offsets with those read before. Returns their sum."""
        asked = [ConsumerGroupTopicPartitions(self.name)]
        answer = self._cluster.admin.list_consumer_group_offsets(asked)[self.name].result(timeout=30)
        now = {p.partition: max(0, p.offset) for p in answer.topic_partitions or []}
        self.backwards += sum(now.get(p, 0) < offset for p, offset in self._committed.items())
        self._committed = now
        return sum(now.values())

    def consumption(self, ends: Mapping[int, int]) -> Consumption:
        """Waits until every record is consumed and committed. `ends` are the ends of the partitions."""
        records, by_partition = sum(ends.values()), {(self.name, p): end for p, end in ends.items()}

        def complete() -> bool:
            return not consumed_gaps(self.members, by_partition) and self.read_commits() == records

        with suppress(AssertionError):  # the counts say what is missing
            wait_until(complete, SETTLE_S, lambda: "incomplete")
        gaps = consumed_gaps(self.members, by_partition)
        reported = sum(
            last - first + 1 for member in self.members for spans in member.consumed.values() for first, last in spans
        )
        lost = sum(last - first + 1 for spans in gaps.values() for first, last in spans)
        return Consumption(
            group=self.name,
            records=records,
            lost=lost,
            backwards=self.backwards,
            uncommitted=records - self.read_commits(),
            again=reported + lost - records,
        )

    def _restart(self, members: Sequence[Member], protocol: str) -> None:
        for member in members:
            member.stop()
        for member in members:
            member.fields = {**member.fields, "protocol": protocol}
            member.start()
        self._settled()

    def _settled(self) -> dict[tuple[str, int], Member]:
        return wait_settled(self.members, partitions_of({self.name: PARTITIONS}), spread=0, limit_s=SETTLE_S, quiet_s=2)


@contextmanager
def watched(cluster: KafkaCluster, group: str, *options: str) -> Iterator[list[str]]:
    """Yields a list that has the lines of `convert --watch` at the end. Raises AssertionError if it did not succeed."""
    arguments = ["convert", group, "--watch", "--wait", str(WATCH_S), "-o", "json", "--bootstrap", cluster.bootstrap]
    lines: list[str] = []
    with subprocess.Popen(
        [*COMMAND, *arguments, *options],
        cwd=ROOT,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            lines.append(process.stdout.readline())  # it has seen the group as it was before
            yield lines
            rest, complaints = process.communicate(timeout=WATCH_S)
        finally:
            process.kill()
    assert process.returncode == 0, complaints
    lines += rest.splitlines()


class RecordSource:
    """Sends records to every partition of these topics until it is stopped; a context manager."""

    def __init__(self, cluster: KafkaCluster, topics: Sequence[str]) -> None:
        self._producer = Producer(cluster.client_config("admin", "admin") | {"acks": "all"})
        self._places = [(topic, p) for topic in topics for p in range(PARTITIONS)]
        self._sent: dict[tuple[str, int], int] = dict.fromkeys(self._places, 0)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        assert self._producer.flush(30) == 0, "records were not delivered"

    def ends(self, topic: str) -> dict[int, int]:
        """Returns how many records each partition has."""
        return {p: self._sent[topic, p] for p in range(PARTITIONS)}

    def _send(self) -> None:
        while not self._stopping.wait(RECORDS_INTERVAL_S):
            for topic, p in self._places:
                self._producer.produce(topic, b"record", partition=p)
                self._sent[topic, p] += 1
            self._producer.poll(0)
