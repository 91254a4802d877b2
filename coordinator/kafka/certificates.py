"""Clients made anew where the files of their certificates have changed.

librdkafka reads certificates and keys once, when a client is made. A client that outlives its certificate keeps the
connections that it has and never gets another one. (kafka-python reads the files for every connection.)
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

import structlog
from confluent_kafka import KafkaException

NAMES = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location")

Client = TypeVar("Client")
Stamp = tuple[int, int, int] | None
Stamps = tuple[Stamp, ...]

log = structlog.get_logger(__name__)


class CertificateFiles:
    """The files that these properties name, as they were when last taken."""

    def __init__(self, properties: Mapping[str, Any]) -> None:
        self._paths = [Path(str(properties[name])) for name in NAMES if properties.get(name)]
        self.taken = self.stamps()

    def changed(self) -> bool:
        return self.stamps() != self.taken

    def stamps(self) -> Stamps:
        return tuple(_stamp(path) for path in self._paths)


class Renewed(Generic[Client]):
    """Holds a client; `look` makes another one where the files have changed. Not for two threads at once."""

    def __init__(self, make: Callable[[], Client], properties: Mapping[str, Any]) -> None:
        self._make = make
        self._files = CertificateFiles(properties)
        self.client = make()

    def look(self) -> bool:
        """Whether there is another client now. A certificate without its key yet is left for the next look."""
        if not self._files.changed():
            return False
        stamps = self._files.stamps()  # before they are read: what changes meanwhile is seen by the next look
        try:
            self.client = self._make()
        except KafkaException as half:
            log.warning(
                "certificates_not_taken", reason=f"{half.args[0]}; the files are read again at the next refresh"
            )
            return False
        self._files.taken = stamps
        log.info("certificates_renewed")
        return True


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
