"""The topology file of an application, read again when it has changed."""

from collections.abc import Callable
from pathlib import Path

import structlog

from bellwether_kafka.assignors.streams.application import Topology, TopologyError
from bellwether_kafka.coordinator.topology.file import load_topology

Stamp = tuple[int, int, int] | None

log = structlog.get_logger(__name__)


class WatchedFile:
    """`path` as it is at the start has been read. `read` reads it, and raises TopologyError for a file that cannot be
    used. For one thread at a time."""

    def __init__(self, path: Path, read: Callable[[], Topology]) -> None:
        self._path = path
        self._read = read
        self._seen = _stamp(path)

    def newer(self) -> Topology | None:
        """What is in the file, if it is another one than at the last call. One that cannot be used is logged once, and
        what was read before stays in force. One that is being written is read at the next call. Blocks."""
        stamp = _stamp(self._path)
        if stamp == self._seen:
            return None
        try:
            topology = self._read()
        except TopologyError as error:
            self._seen = stamp
            self._log_refused(str(error))
            return None
        if _stamp(self._path) != stamp:  # half of it may have been written only
            return None
        self._seen = stamp
        if topology.obstacle:
            self._log_refused(f"The topology file {self._path} cannot be led with: {topology.obstacle}.")
            return None
        return topology

    def _log_refused(self, reason: str) -> None:
        kept = f"{reason} What was read before stays in force."
        log.error("topology_file_refused", file=str(self._path), reason=kept)


def topology_of_application(path: Path, application_id: str) -> Topology:
    """The topology of a file, of this very application. Raises TopologyError with one sentence."""
    topology = load_topology(path)
    if topology.application_id != application_id:
        raise TopologyError(
            f"The topology file {path} is of the application '{topology.application_id}', not of '{application_id}';"
            " correct topology or application_id."
        )
    return topology


def _stamp(path: Path) -> Stamp:
    """What changes when the file is written or another one is put in its place, also by way of links, as Kubernetes
    does. None where it cannot be read at the moment."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
