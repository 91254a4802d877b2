"""Creates librdkafka clients and replaces those whose certificate files have changed, and says what a client's error
means: a missing ACL and how to grant it, or silence, which may pass.

If a login gets no token, librdkafka itself waits ten seconds for one and then reports only that there is none; here an
error with the reason is raised at once. librdkafka reads certificates and keys once, when a client is created. When its
certificate has expired, a client keeps its open connections but cannot open new ones. (kafka-python reads the files for
every connection.)
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any, Generic, TypeVar

import structlog
from confluent_kafka import KafkaError, KafkaException

from bellwether_kafka.bounded import Stamp, stamp_of
from bellwether_kafka.coordinator.kafka.wire import CALLBACK, GRACE_S, DaemonThreads, TokenError, grant

DENIED = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)
# librdkafka requires a group id for every reader and looks up its coordinator node, even if the reader neither joins
# nor commits. Such a reader needs neither a right to the group nor the node.
IRRELEVANT_TO_READERS = frozenset(
    {KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR}
)
# No broker has answered, which may pass.
SILENCE = frozenset(
    getattr(KafkaError, name)  # librdkafka's own errors are public names that begin with an underscore
    for name in ("_TRANSPORT", "_TIMED_OUT", "_MSG_TIMED_OUT", "_ALL_BROKERS_DOWN", "_RESOLVE")
)
# The topic does not exist: an answer of a broker, or what librdkafka has concluded from one.
NO_TOPIC = frozenset(getattr(KafkaError, name) for name in ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC"))


def with_remedy(error: KafkaError, operations: str, topic: str) -> str:
    """Returns the text of a topic request's error, with the remedy if an ACL is missing."""
    remedy = f"; {grant(operations, 'Topic', topic)}" if error.code() in DENIED else ""
    return f"{error.str()}{remedy}"


Client = TypeVar("Client")


class LoginError(KafkaException):  # type: ignore[misc]  # confluent-kafka has no types
    """A login gets no token, perhaps only for now. The text of its error is a clause with the remedy."""

    @property
    def clause(self) -> str:
        return str(self.args[0].str())

    @property
    def sentence(self) -> str:
        return f"{self.clause[:1].upper()}{self.clause[1:]}."


def librdkafka_client(make: Callable[[dict[str, Any]], Client], properties: Mapping[str, Any]) -> Client:
    """Returns `make(properties)`. The properties must come from `librdkafka_properties`. Raises KafkaException."""
    callback = properties.get(CALLBACK)
    if callback is not None:
        try:
            callback()
        except TokenError as error:
            sentence = str(error).rstrip(".")
            clause = f"{sentence[:1].lower()}{sentence[1:]}"
            raise LoginError(KafkaError(KafkaError._AUTHENTICATION, clause)) from None  # noqa: SLF001 - a public name
    return make(dict(properties))


NAMES = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location")

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
