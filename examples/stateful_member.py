"""A stateful consumer on kafka-python whose tasks Bellwether assigns like those of Kafka Streams: it counts the records
of a topic by key, keeps the counts in a local database and a changelog topic, and reports how far it is when it joins.

    python examples/stateful_member.py --bootstrap broker:9092 --group counts --topic orders \
        --changelog counts-changelog --state /var/lib/counts

The changelog has as many partitions as the topic and is compacted. Task p is partition p of both. Counts are exact
after a crash at any moment: a changelog record carries a count and the input offset that follows it, so what
restores the changelog knows where to go on reading. Standard output gets a JSON line for whatever happens. Other
languages need no more than the bytes, which docs/guides/stateful-members.md describes.
"""

import argparse
import json
import logging
import signal
import sqlite3
import sys
import threading
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor, RebalanceProtocol
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment as KafkaAssignment

from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription, stateful
from bellwether_kafka.protocol.primitives import ProcessId, RemoteProtocolError
from bellwether_kafka.protocol.primitives import TopicPartition as Partition

GROUP = 0  # without a topology file, all topics of the group are one topic group


def emit(event: str, **rest: object) -> None:
    sys.stdout.write(json.dumps({"event": event, **rest}) + "\n")
    sys.stdout.flush()


class Store:
    """The local state of all tasks that this process ever had: counts by key, how far they are, and what comes next."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.process_id = self._identity(folder / "process-id")
        self._database = sqlite3.connect(folder / "counts.db")
        self._database.executescript(
            "create table if not exists counts (task integer, key blob, count integer, primary key (task, key));"
            "create table if not exists tasks (task integer primary key, position integer, next integer)"
        )
        self.position: dict[int, int] = dict(self._database.execute("select task, position from tasks"))
        self.next: dict[int, int] = dict(self._database.execute("select task, next from tasks"))

    def count(self, task: int, key: bytes) -> int:
        row = self._database.execute("select count from counts where task = ? and key = ?", (task, key)).fetchone()
        return int(row[0]) if row else 0

    def keep(self, task: int, counts: Mapping[bytes, int], position: int, following: int) -> None:
        """One transaction: a crash leaves the state before or after it."""
        with self._database:
            rows = [(task, key, count) for key, count in counts.items()]
            self._database.executemany("insert or replace into counts values (?, ?, ?)", rows)
            self._database.execute("insert or replace into tasks values (?, ?, ?)", (task, position, following))
        self.position[task], self.next[task] = position, following

    def close(self) -> None:
        self._database.close()

    @staticmethod
    def _identity(file: Path) -> ProcessId:
        """The same after a restart: that is how a process is known to have state already."""
        if not file.exists():
            file.write_text(str(uuid.uuid4()))
        return ProcessId.of_bytes(uuid.UUID(file.read_text()).bytes)


class StatefulAssignor(AbstractPartitionAssignor):  # type: ignore[misc]  # the library is not typed
    """Speaks the protocol for one member. Where no Bellwether leads, `assign` keeps everybody going."""

    name = stateful.PROTOCOL

    def __init__(self, member: "CountingMember") -> None:
        self._member = member
        self._owned: tuple[Partition, ...] = ()
        self._generation = -1

    def supported_protocols(self) -> list[RebalanceProtocol]:
        return [RebalanceProtocol.COOPERATIVE]

    def metadata(self, topics: Iterable[str]) -> bytes:
        """Called for every JoinGroup, so what is reported is what there is now."""
        return ConsumerProtocolSubscription(
            version=3,
            topics=tuple(topics),
            user_data=self._member.report().encode(),
            owned_partitions=self._owned,
            generation_id=self._generation,
            rack_id=self._member.rack,
        ).encode()

    def on_assignment(self, assignment: KafkaAssignment, generation: int) -> None:
        self._owned = tuple(Partition(tp.topic, tp.partition) for tp in assignment.partitions())
        self._generation = generation
        self._member.assigned(assignment.user_data)

    def lost(self) -> None:
        self._owned, self._generation = (), -1

    def assign(self, cluster: Any, members: Iterable[Any]) -> dict[str, KafkaAssignment]:
        """Everything stays where it is; what nobody has goes to the member with most of its state. Members that cannot
        be read (Bellwether's own is one) get nothing."""
        infos: dict[str, stateful.StatefulSubscription] = {}
        owner: dict[Partition, str] = {}
        topics: set[str] = set()
        everybody = [member.member_id for member in members]
        for member in members:
            try:
                infos[member.member_id] = stateful.StatefulSubscription.decode(bytes(member.metadata.user_data or b""))
            except RemoteProtocolError:
                continue
            topics |= set(member.metadata.topics)
            for owned in member.metadata.owned_partitions or ():
                owner |= {Partition(owned.topic, p): member.member_id for p in owned.partitions}
        load = dict.fromkeys(infos, 0)
        given: dict[str, list[Partition]] = {member_id: [] for member_id in everybody}
        for number in sorted({p for topic in topics for p in cluster.partitions_for_topic(topic) or ()}):
            mine = [Partition(t, number) for t in sorted(topics) if number in (cluster.partitions_for_topic(t) or ())]
            holder = next((owner[tp] for tp in mine if tp in owner), None) or _best(infos, load, number)
            load[holder] += 1
            given[holder] += mine
        return {m: KafkaAssignment.decode(_plain(partitions)) for m, partitions in given.items()}


def _best(infos: Mapping[str, stateful.StatefulSubscription], load: Mapping[str, int], number: int) -> str:
    def position(member_id: str) -> int:
        return max((s.position for s in infos[member_id].tasks if s.task == (GROUP, number)), default=-1)

    return min(infos, key=lambda member_id: (-position(member_id), load[member_id], member_id))


def _plain(partitions: list[Partition]) -> bytes:
    active = tuple(stateful.Task(GROUP, number) for number in sorted({tp.partition for tp in partitions}))
    data = stateful.StatefulAssignment(active=active).encode()
    return ConsumerProtocolAssignment(1, tuple(partitions), data).encode()


class CountingMember(ConsumerRebalanceListener):  # type: ignore[misc]  # the library is not typed
    """One member that is one process. Everything happens in `run`; the client's thread only leaves notes."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.rack: str | None = options.rack
        self.stopping = threading.Event()
        self._options = options
        self._store = Store(Path(options.state))
        self._ends: dict[int, int] = {}
        self._ready: set[int] = set()  # active, whole, and read from the right offset
        self._given = stateful.StatefulAssignment()
        self._lock = threading.Lock()
        self._assignor = StatefulAssignor(self)
        brokers = options.bootstrap.split(",")
        self._consumer = KafkaConsumer(
            bootstrap_servers=brokers,
            group_id=options.group,
            client_id=options.client_id,
            partition_assignment_strategy=[self._assignor],
            session_timeout_ms=options.session_ms,
            heartbeat_interval_ms=500,
            auto_offset_reset="earliest",
        )
        self._restorer = KafkaConsumer(bootstrap_servers=brokers, group_id=None, auto_offset_reset="earliest")
        self._producer = KafkaProducer(bootstrap_servers=brokers, acks="all", linger_ms=5)

    def report(self) -> stateful.StatefulSubscription:
        with self._lock:
            tasks = tuple(
                stateful.StatefulTaskState(
                    stateful.Task(GROUP, p), at, max(at, self._ends.get(p, 0)), running=p in self._ready
                )
                for p, at in sorted(self._store.position.items())
            )
        return stateful.StatefulSubscription(self._store.process_id, self.rack, self._options.capacity, (), tasks)

    def assigned(self, user_data: bytes | None) -> None:
        given = stateful.StatefulAssignment.decode(bytes(user_data or b""))
        with self._lock:
            self._given = given
            self._ready &= {task.partition for task in given.active}
        kinds = {"active": given.active, "standby": given.standby, "warmup": given.warmup}
        emit("assigned", **{kind: [task.partition for task in tasks] for kind, tasks in kinds.items()})

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Nothing: reading begins once the state is whole."""

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        with self._lock:
            self._ready -= {tp.partition for tp in revoked}

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        self._assignor.lost()
        self.on_partitions_revoked(lost)

    def run(self) -> None:
        self._consumer.subscribe([self._options.topic], listener=self)
        try:
            while not self.stopping.is_set():
                for tp, records in self._consumer.poll(timeout_ms=50).items():
                    if tp.partition in self._ready:
                        self._count(tp.partition, records)
                self._restore()
        finally:
            for part in (self._consumer, self._restorer, self._producer, self._store):
                part.close()

    def _count(self, task: int, records: list[Any]) -> None:
        """The changelog first: state that is in it and not in the database is restored, the other way round lost."""
        counts: dict[bytes, int] = {}
        sent = []
        for record in records:
            counts[record.key] = counts.get(record.key, self._store.count(task, record.key)) + 1
            value = json.dumps({"count": counts[record.key], "next": record.offset + 1}).encode()
            sent.append(self._producer.send(self._options.changelog, value, record.key, partition=task))
        self._producer.flush()
        position = max(future.get(timeout=10).offset for future in sent) + 1
        with self._lock:
            self._store.keep(task, counts, position, records[-1].offset + 1)
            self._ends[task] = position

    def _restore(self) -> None:
        with self._lock:
            given, ready = self._given, set(self._ready)
        unready = {task.partition for task in given.active} - ready
        wanted = unready | {copy.task.partition for copy in given.copies}
        changelog = {TopicPartition(self._options.changelog, p) for p in wanted}
        if self._restorer.assignment() != changelog:
            self._restorer.assign(sorted(changelog))
            for tp in changelog:
                self._restorer.seek(tp, self._store.position.get(tp.partition, 0))
        if not changelog:
            return
        for tp, records in self._restorer.poll(timeout_ms=20).items():
            self._apply(tp.partition, records)
        ends = {tp.partition: end for tp, end in self._restorer.end_offsets(sorted(changelog)).items()}
        with self._lock:
            self._ends |= ends
        for task in sorted(unready):
            self._begin(task, ends[task])

    def _apply(self, task: int, records: list[Any]) -> None:
        counts = {record.key: json.loads(record.value)["count"] for record in records}
        following = json.loads(records[-1].value)["next"]
        with self._lock:
            self._store.keep(task, counts, records[-1].offset + 1, following)

    def _begin(self, task: int, end: int) -> None:
        """Reading begins behind the last record that is in the state, wherever the group's committed offset is."""
        tp = TopicPartition(self._options.topic, task)
        if self._store.position.get(task, 0) < end or tp not in self._consumer.assignment():
            return
        self._consumer.seek(tp, self._store.next.get(task, 0))
        with self._lock:
            self._ready.add(task)
            self._store.position.setdefault(task, 0)
        emit("running", task=task, position=self._store.position.get(task, 0))


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Counts the records of a topic by key, as a stateful group member.")
    for name in ("bootstrap", "group", "topic", "changelog", "state"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--client-id", default="counter")
    parser.add_argument("--rack")
    parser.add_argument("--capacity", type=int, default=1)
    parser.add_argument("--session-ms", type=int, default=10_000)
    return parser.parse_args(arguments)


def main() -> None:
    logging.disable(logging.WARNING)
    member = CountingMember(options())
    signal.signal(signal.SIGTERM, lambda *_: member.stopping.set())
    signal.signal(signal.SIGINT, lambda *_: member.stopping.set())
    member.run()
    emit("stopped")


if __name__ == "__main__":
    main()
