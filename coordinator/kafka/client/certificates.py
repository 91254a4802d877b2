"""Replaces clients whose certificate files have changed.

librdkafka reads certificates and keys once, when a client is created. When its certificate has expired, a client keeps
its open connections but cannot open new ones. (kafka-python reads the files for every connection.)
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any, Generic, TypeVar

import structlog
from confluent_kafka import KafkaException

from bellwether_kafka.bounded import Stamp, stamp_of
from bellwether_kafka.coordinator.kafka.wire import GRACE_S, DaemonThreads

NAMES = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location")

Client = TypeVar("Client")
Stamps = tuple[Stamp, ...]

log = structlog.get_logger(__name__)


class CertificateFiles:
    """The certificate files that the properties name. `taken` is their state when they were last loaded."""

    def __init__(self, properties: Mapping[str, Any]) -> None:
        self.named = [Path(str(properties[name])) for name in NAMES if properties.get(name)]
        self.taken = self.stamps()

    def stamps(self) -> Stamps:
        return tuple(stamp_of(path) for path in self.named)


class Renewed(Generic[Client]):
    """Holds a client; `refresh` replaces it if the files have changed. Not thread-safe.

    The files are read in a daemon thread, because a read from a dead network file system never returns.
    """

    def __init__(self, make: Callable[[], Client], properties: Mapping[str, Any]) -> None:
        self._make = make
        self._files = CertificateFiles(properties)
        self._threads = DaemonThreads("certificates", 1)
        self._reading: Future[tuple[Stamps, Client] | None] | None = None
        self.client = make()

    def refresh(self) -> bool:
        """Returns whether the client was replaced. The old client serves while the files are read. If that takes longer
        than GRACE_S, a later call replaces the client."""
        if not self._files.named:
            return False
        reading, wait_s = (self._reading, 0.0) if self._reading is not None else (self._begun(), GRACE_S)
        if not wait([reading], wait_s).done:
            self._reading = reading
            return False
        self._reading = None
        renewed = reading.result()
        if renewed is None:
            return False
        self._files.taken, self.client = renewed
        log.info("certificates_renewed")
        return True

    def _begun(self) -> "Future[tuple[Stamps, Client] | None]":
        reading: Future[tuple[Stamps, Client] | None] = Future()

        def read() -> None:
            try:
                reading.set_result(self._read())
            except BaseException as error:  # noqa: BLE001 - raised by the `refresh` that waits
                reading.set_exception(error)

        self._threads.add(read)
        return reading

    def _read(self) -> tuple[Stamps, Client] | None:
        """Returns the new stamps and client; None if nothing has changed, or if the files do not fit together yet."""
        stamps = self._files.stamps()  # taken before reading, so that a later call sees changes made meanwhile
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
    """Passes every attribute access on to the current client, so that others can keep a reference to it."""

    def __init__(self, renewed: Renewed[Client]) -> None:
        self._renewed = renewed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._renewed.client, name)
