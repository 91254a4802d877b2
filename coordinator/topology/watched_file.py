"""The topology file of an application, read again when it has changed."""

from collections.abc import Callable
from pathlib import Path

import structlog

from bellwether_kafka.assignors.streams.application import Topology, TopologyError
from bellwether_kafka.bounded import ChangingFile
from bellwether_kafka.coordinator.topology.file import load_topology

log = structlog.get_logger(__name__)


class WatchedFile:
    """A file that is read again when it changes. `path` has been read before in its present state. `read` reads it and
    raises TopologyError if it cannot be used. Not for several threads at a time."""

    def __init__(self, path: Path, read: Callable[[], Topology]) -> None:
        self._path = path
        self._read = read
        self._file = ChangingFile(path)

    def newer(self) -> Topology | None:
        """Returns the topology if the file has changed since the last call, else None. Blocks. If the file cannot be
        used, that is logged once, and the previous topology stays in force."""
        try:
            topology = self._file.read_again(self._read)
        except TopologyError as error:
            self._log_refused(str(error))
            return None
        if topology is None or not topology.obstacle:
            return topology
        self._log_refused(f"The topology file {self._path} cannot be led with: {topology.obstacle}.")
        return None

    def _log_refused(self, reason: str) -> None:
        kept = f"{reason} What was read before stays in force."
        log.error("topology_file_refused", file=str(self._path), reason=kept)


def topology_of_application(path: Path, application_id: str) -> Topology:
    """Returns the topology of a file, which must be of this application. Raises TopologyError with one sentence."""
    topology = load_topology(path)
    if topology.application_id != application_id:
        raise TopologyError(
            f"The topology file {path} is of the application '{topology.application_id}', not of '{application_id}';"
            " correct topology, or the group's name."
        )
    return topology
