"""Kafka Streams in the guarded process: its process id, and whether it has closed while the process lives on."""

from dataclasses import dataclass

from bellwether_kafka.coordinator.guard.proc import sends_heartbeats
from bellwether_kafka.coordinator.guard.state_directory import Lock, StateDirectory


@dataclass(frozen=True, slots=True)
class RunningStreams:
    """As seen while the process held the lock of its state directory. `heartbeats`: whether a thread of it was seen to
    send them."""

    lock: Lock
    process_id: str | None = None
    heartbeats: bool = False


def updated(before: RunningStreams | None, directory: StateDirectory, lock: Lock) -> RunningStreams:
    """What is known with this lock, which the process holds. Another one than before is of another start of Streams."""
    known = before if before is not None and before.lock == lock else RunningStreams(lock)
    if known.process_id and known.heartbeats:
        return known
    heartbeats = known.heartbeats or sends_heartbeats(lock.holder or 0)
    return RunningStreams(lock, known.process_id or directory.process_id(), heartbeats)


def has_closed(streams: RunningStreams, lock: Lock) -> bool:
    """Whether Streams has closed in a process that may live on. It gives its lock back when all its threads have ended
    (`KafkaStreams#close`, also after an exception). A process loses the lock as well when it opens the file once more
    and closes it: hence no thread may send heartbeats either."""
    given_back = lock.holder is None and lock.file == streams.lock.file
    return given_back and streams.heartbeats and not sends_heartbeats(streams.lock.holder or 0)
