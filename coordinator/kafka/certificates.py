"""Clients made anew where the files of their certificates have changed.

librdkafka reads certificates and keys once, when a client is made. A client that outlives its certificate keeps the
connections that it has and never gets another one. (kafka-python reads the files for every connection.)
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any, Generic, TypeVar

import structlog
from confluent_kafka import KafkaException

from bellwether_kafka.coordinator.kafka.outside import GRACE_S, DaemonThreads

NAMES = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location")

Client = TypeVar("Client")
Stamp = tuple[int, int, int] | None
Stamps = tuple[Stamp, ...]

log = structlog.get_logger(__name__)


class CertificateFiles:
    """The files that these properties name, as they were when last taken."""

    def __init__(self, properties: Mapping[str, Any]) -> None:
        self.named = [Path(str(properties[name])) for name in NAMES if properties.get(name)]
        self.taken = self.stamps()

    def stamps(self) -> Stamps:
        return tuple(_stamp(path) for path in self.named)


class Renewed(Generic[Client]):
    """Holds a client; `refresh` puts another one in its place where the files have changed. Not for two threads at
    once.

    The files are read in a daemon thread: one on a network file system that has died is never read to its end.
    """

    def __init__(self, make: Callable[[], Client], properties: Mapping[str, Any]) -> None:
        self._make = make
        self._files = CertificateFiles(properties)
        self._threads = DaemonThreads("certificates", 1)
        self._reading: Future[tuple[Stamps, Client] | None] | None = None
        self.client = make()

    def refresh(self) -> bool:
        """Whether there is another client now. While the files are read, the one that is there serves; what comes after
        GRACE_S is taken by a later look."""
        if not self._files.named:
            return False
        reading, wait_s = (self._reading, 0.0) if self._reading is not None else (self._begun(), GRACE_S)
        if not wait([reading], wait_s).done:
            self._reading = reading
            return False
        self._reading = None
        found = reading.result()
        if found is None:
            return False
        self._files.taken, self.client = found
        log.info("certificates_renewed")
        return True

    def _begun(self) -> "Future[tuple[Stamps, Client] | None]":
        reading: Future[tuple[Stamps, Client] | None] = Future()

        def read() -> None:
            try:
                reading.set_result(self._read())
            except BaseException as error:  # noqa: BLE001 - raised by the look that waits
                reading.set_exception(error)

        self._threads.add(read)
        return reading

    def _read(self) -> tuple[Stamps, Client] | None:
        """None where nothing has changed. A certificate without its key yet is left for a later look."""
        stamps = self._files.stamps()  # before they are read: what changes meanwhile is seen by a later look
        if stamps == self._files.taken:
            return None
        try:
            return stamps, self._make()
        except KafkaException as half:
            log.warning(
                "certificates_not_taken", reason=f"{half.args[0]}; the files are read again at the next refresh"
            )
            return None


class Delegate(Generic[Client]):
    """Passes everything on to whatever client there is now, so that others can hold on to it."""

    def __init__(self, renewed: Renewed[Client]) -> None:
        self._renewed = renewed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._renewed.client, name)


def _stamp(path: Path) -> Stamp:
    """What changes when a file is written or another one put in its place; None where it cannot be seen."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
