"""The file with hosts and their racks, read again when it has changed.

It has one address or CIDR with its rack per line, with spaces or a comma between; `#` begins a comment, and a line with
`<none>`, which kubectl writes for a missing value, is left out. Or it is a JSON object: {"10.1.0.0/24": "az1"}.
"""

from collections.abc import Iterable
from functools import partial
from pathlib import Path

import structlog

from bellwether_kafka.bounded import ChangingFile, OutsideTextError, json_of, read_file
from bellwether_kafka.coordinator.planning.racks.networks import Network, Networks, network

BYTES_MAX = 4_000_000  # about a hundred thousand lines
ABSENT = "<none>"
REST_S = 1.0


log = structlog.get_logger(__name__)


class RackFileError(Exception):
    """Raised if the file cannot be used; the message is one sentence."""


class RackFile:
    """A rack file. `networks` are those in force. `refresh` is for one thread at a time."""

    def __init__(self, path: Path) -> None:
        """Reads the file. Raises RackFileError."""
        self.path = path
        self.version = 1
        self._file = ChangingFile(path, REST_S)
        self.networks = _read(path)

    def refresh(self, now: float) -> None:
        """Reads the file again if it has changed and then rested for REST_S. `now` is in seconds, by any clock. Blocks.
        If the file cannot be used, that is logged once, and what was read before stays in force."""
        try:
            networks = self._file.read_again(partial(_read, self.path), now)
        except RackFileError as error:
            _log_refused(self.path, error)
            return
        if networks is None:
            return
        self.networks = networks
        self.version += 1
        log.info("rack_file_read", file=str(self.path))


def networks_of(data: bytes) -> Networks:
    """Returns the networks in a file. Raises OutsideTextError with a clause, also if there are none: that is what a
    failed `kubectl ... > FILE` leaves, and members without a rack would be moved."""
    try:
        text = data.decode("utf-8-sig")  # some editors begin a file with a mark
    except UnicodeDecodeError:
        raise OutsideTextError("it is not UTF-8") from None
    entries = _of_json(text) if text.lstrip().startswith("{") else _of_lines(text)
    racks: dict[Network, str] = {}
    for where, host, rack in entries:
        try:
            net = network(host)
        except ValueError as error:
            raise OutsideTextError(f"{where}: {error}") from None
        if racks.setdefault(net, rack) != rack:
            raise OutsideTextError(f"{where}: {host} has two racks, {racks[net]} and {rack}")
    if not racks:
        raise OutsideTextError("it gives no address a rack")
    return Networks.of(racks)


def _of_json(text: str) -> Iterable[tuple[str, str, str]]:
    table = json_of(text, unique=True)
    for host, rack in table.items():
        if not isinstance(rack, str) or not rack:
            raise OutsideTextError(f"the rack of {host} is no text")
        yield "JSON", host, rack


def _of_lines(text: str) -> Iterable[tuple[str, str, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].replace(",", " ").split()
        if not words or ABSENT in words:
            continue
        if len(words) != 2:
            raise OutsideTextError(f"line {number} is no pair of an address or CIDR and a rack")
        yield f"line {number}", words[0], words[1]


def _read(path: Path) -> Networks:
    try:
        return networks_of(read_file(path, BYTES_MAX))
    except OSError as error:
        raise RackFileError(f"The file {path} of racks.file cannot be read ({error.strerror}).") from None
    except OutsideTextError as error:
        raise RackFileError(f"The file {path} of racks.file cannot be used: {error}; correct it.") from None


def _log_refused(path: Path, error: RackFileError) -> None:
    log.error("rack_file_refused", file=str(path), reason=f"{error} What was read before stays in force.")
