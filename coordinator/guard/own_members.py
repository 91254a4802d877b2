"""What the guard knows of its process: which members of the group belong to it, which partitions they had, and whether
Kafka Streams runs in it."""

from dataclasses import replace

from bellwether_kafka.coordinator import control
from bellwether_kafka.coordinator.guard import members, running_streams
from bellwether_kafka.coordinator.guard.guard_options import GuardOptions
from bellwether_kafka.coordinator.guard.guarded import Guarded
from bellwether_kafka.coordinator.guard.running_streams import RunningStreams
from bellwether_kafka.coordinator.guard.state_directory import Lock, StateDirectory
from bellwether_kafka.coordinator.membership import DescribeAnswer
from bellwether_kafka.protocol.primitives import TopicPartition


class OwnMembers:
    """The members of one process. `had`: the partitions of its members when they last had any. `streams_closed`:
    Streams has closed while the process lived, and its memberships were ended."""

    def __init__(self, process: Guarded, options: GuardOptions) -> None:
        self.directory = StateDirectory(options.state_dir / options.group_id) if options.state_dir else None
        self.had: frozenset[TopicPartition] = frozenset()
        self.streams_closed = False
        self._process = process
        self._options = options
        self._seen = members.SeenMembers()
        self._streams: RunningStreams | None = None

    @property
    def process_id(self) -> str | None:
        """The process id of Kafka Streams."""
        return self._streams.process_id if self._streams is not None else None

    def take(self, answer: DescribeAnswer) -> None:
        if not self._process.ended:  # members that join after its end belong to another process
            self._seen = members.updated(self._seen, answer, joins=self._may_have_joined())
            self.had = control.owned(answer, self.now().member_ids) or self.had

    def _may_have_joined(self) -> bool:
        """Returns whether the process may have members. `KafkaStreams` locks its state directory before it joins."""
        if self.directory is None or self._streams is not None or self.streams_closed:
            return True
        return self.take_lock(self.directory, self.directory.lock())

    def take_lock(self, directory: StateDirectory, lock: Lock) -> bool:
        """Records the state of the lock of the state directory. Returns whether the guarded process holds it."""
        unchanged = self._streams is not None and self._streams.lock == lock
        if lock.holder is None or not (unchanged or self._process.is_own(lock.holder)):
            return False
        self._streams, self.streams_closed = running_streams.updated(self._streams, directory, lock), False
        return True

    def has_closed_streams(self, lock: Lock) -> bool:
        return self._streams is not None and running_streams.has_closed(self._streams, lock)

    def forget_streams(self) -> None:
        """Records that Streams has closed and its memberships are ended."""
        self._streams, self.streams_closed = None, True

    def now(self) -> members.Belonging:
        return self._belonging(self._options.client_ids)

    def of_streams(self) -> members.Belonging:
        return self._belonging(())

    def late(self, answer: DescribeAnswer, before: members.Belonging) -> members.Belonging:
        """Returns the Streams members of this answer that were not known before. A client id that was ever shared has
        none: the new member may belong to another process that has just restarted."""
        seen = members.updated(self._seen, answer)
        present = self._belonging((), replace(seen, copied=seen.shared))
        return replace(present, member_ids=tuple(m for m in present.member_ids if m not in before.member_ids))

    def _belonging(self, client_ids: tuple[str, ...], seen: members.SeenMembers | None = None) -> members.Belonging:
        named = members.Identity(self._options.group_id, self.process_id, client_ids)
        return members.belonging(named, self._seen if seen is None else seen, self._process.lived_s)

    def is_gone(self) -> bool:
        """Returns whether no process is left that could be one of its members. For Streams the lock of the state
        directory decides; other processes that the guarded one started may live on."""
        streams = self.process_id is not None or self.streams_closed
        by_directory = self.directory is not None and streams and not self._options.client_ids
        return self.is_unheld() if by_directory else self._process.is_gone_whole() and self.is_unheld()

    def is_unheld(self) -> bool:
        return self.directory is None or self.directory.lock().holder is None
