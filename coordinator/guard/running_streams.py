"""Kafka Streams in the guarded process: its process id, and whether it has closed while the process lives on."""

from dataclasses import dataclass

from bellwether_kafka.coordinator.guard.proc import sends_heartbeats
from bellwether_kafka.coordinator.guard.state_directory import Lock, StateDirectory


@dataclass(frozen=True, slots=True)
class RunningStreams:
    """Kafka Streams while the process held its state directory. `heartbeats`: a heartbeat thread was seen."""

    lock: Lock
    process_id: str | None = None
    heartbeats: bool = False


def updated(before: RunningStreams | None, directory: StateDirectory, lock: Lock) -> RunningStreams:
    """Returns what is known with this lock, which the process holds. A lock that differs from the previous one belongs
    to a new start of Streams."""
    streams = before if before is not None and before.lock == lock else RunningStreams(lock)
    if streams.process_id and streams.heartbeats:
        return streams
    heartbeats = streams.heartbeats or sends_heartbeats(lock.holder or 0)
    return RunningStreams(lock, streams.process_id or directory.process_id(), heartbeats)


def has_closed(streams: RunningStreams, lock: Lock) -> bool:
    """Returns whether Streams has closed, although its process may live on.

    Streams releases its lock when all its threads have ended (`KafkaStreams#close`, also after an exception). A process
    also loses the lock if it opens and closes the lock file again, so in addition a heartbeat thread must have been
    seen and be gone.
    """
    given_back = lock.holder is None and lock.file == streams.lock.file
    return given_back and streams.heartbeats and not sends_heartbeats(streams.lock.holder or 0)
