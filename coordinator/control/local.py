"""Orders without a control topic: a process that leads alone keeps them in memory, and commands on its machine hand
them over through a socket.

The socket is a Unix one with an abstract name (Linux): it needs no folder, which a container with a read-only root does
not have, and it ends with its process. Both sides let the kernel say who is at the other end, and talk to nobody but
the same user in the same process namespace. A request is one line of JSON: {} to read, {"key": ..., "value": ...} to
give an order, with the value null to withdraw it. The answer is one, too, with "bootstrap", "records" and "error".

That a group was handed back must outlast the process: it is kept in a small file (`HandBackFile`), where there is a
folder for it. A container that keeps no folder needs a control topic for that.
"""

import asyncio
import json
import os
import secrets
import socket
import struct
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import structlog

from bellwether_kafka.bounded import json_of, read_small
from bellwether_kafka.coordinator.control.handed_back import HandedBack
from bellwether_kafka.coordinator.control.records import (
    InstanceHeartbeat,
    Order,
    OrderKind,
    Record,
    RecordError,
    Stopped,
    decode,
)
from bellwether_kafka.coordinator.control.topic import ControlTopicError, OnRecord

PREFIX = "bellwether-orders-"
SOCKETS = Path("/proc/net/unix")  # lists abstract names with an @
REQUEST_BYTES_MAX = 65_536
ANSWER_BYTES_MAX = 50_000_000  # orders, and the heartbeat of a process with every group of a cluster
FILE_BYTES_MAX = 10_000_000
ANSWER_TIMEOUT_S = 5.0
KINDS = (
    OrderKind.LEAVE,
    OrderKind.RELEASE,
    OrderKind.PAUSE,
    OrderKind.REBALANCE,
)  # a restart may forget these; DRAIN needs a standby

_CREDENTIALS = struct.Struct("3i")  # struct ucred of Linux: process, user, group

log = structlog.get_logger(__name__)


class HandBackFile:
    """The records of hand-backs, by key, as JSON: in $XDG_STATE_HOME/bellwether, or ~/.local/state/bellwether. A file
    for each set of brokers, since two clusters may have groups of one name."""

    def __init__(self, bootstrap: str, folder: Path | None = None) -> None:
        self._path = state_file("handed-back", bootstrap, folder)

    def read(self) -> dict[str, HandedBack]:
        """What was kept; nothing where there is no such file. One that cannot be read is logged."""
        try:
            return self._kept()
        except OSError as error:
            log.warning("hand_backs_not_read", reason=str(error), remedy=f"make {self._path} a file that can be read")
            return {}

    def write(self, record: HandedBack) -> None:
        """Beside those of other groups, which other processes may have kept. Where that fails a restart forgets it,
        which the log says."""
        try:
            kept = {**self._kept(), record.key: record}
            write_state(self._path, json.dumps({key: each.to_json() for key, each in kept.items()}))
        except OSError as error:
            log.warning("hand_back_not_kept", reason=str(error), remedy="set control_topic, or XDG_STATE_HOME")

    def _kept(self) -> dict[str, HandedBack]:
        """Raises OSError where a file is there and cannot be read: it may have records, which must not be lost."""
        with suppress(FileNotFoundError, ValueError, AttributeError):
            kept = _records(json_of(read_small(self._path, FILE_BYTES_MAX)[0]))
            return {record.key: record for _, record in kept if isinstance(record, HandedBack)}
        return {}


def state_file(kind: str, bootstrap: str, folder: Path | None = None) -> Path:
    """Where what concerns one set of brokers is kept."""
    name = blake2b(",".join(sorted(_brokers(bootstrap))).encode(), digest_size=8).hexdigest()
    return (folder or state_folder()) / f"{kind}-{name}.json"


def write_state(path: Path, text: str) -> None:
    """Writes a state file whole or not at all: another process may read it meanwhile. Raises OSError."""
    aside = path.with_suffix(f".{os.getpid()}")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    aside.write_text(text, encoding="utf-8")
    aside.replace(path)


def state_folder() -> Path:
    """Where a process of this user keeps what outlasts it."""
    base = os.environ.get("XDG_STATE_HOME", "")
    if not base:  # a user without a home has "~", which is a folder like any other
        base = os.path.expanduser("~/.local/state")  # noqa: PTH111 - Path.expanduser raises where there is no home
    return Path(base) / "bellwether"


class LocalOrders:
    """The process's side: what the controller asks of a control topic. Belongs to the event loop in which `start` was
    called. `bootstrap` is bootstrap.servers, by which commands tell clusters apart."""

    topic = ""

    def __init__(self, bootstrap: str, folder: Path | None = None) -> None:
        self._bootstrap = bootstrap
        self._file = HandBackFile(bootstrap, folder)
        self._records: dict[str, Record] = {}
        self._on_record: OnRecord = lambda _key, _record: None
        self._listening: asyncio.Task[None] | None = None

    def start(self, on_record: OnRecord, on_caught_up: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        # Later, as from a topic: the controller writes while it carries out what it has heard.
        self._on_record = lambda key, record: discard(loop.call_soon(on_record, key, record))
        for key, record in self._file.read().items():
            self._set(key, record)
        loop.call_soon(on_caught_up)
        self._listening = loop.create_task(self._listen())

    def write(self, record: Record) -> None:
        self._set(record.key, record)
        if isinstance(record, HandedBack):
            self._file.write(record)

    def withdraw(self, key: str) -> None:
        self._set(key, None)

    async def close(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
            with suppress(asyncio.CancelledError):
                await self._listening

    def _set(self, key: str, record: Record | None) -> None:
        self._records.pop(key, None)
        if record is not None:
            self._records[key] = record
        self._on_record(key, record)

    async def _listen(self) -> None:
        try:
            name = f"\0{PREFIX}{secrets.token_hex(8)}"
            server = await asyncio.start_unix_server(self._serve, name, limit=REQUEST_BYTES_MAX)
        except OSError as error:
            log.warning("local_orders_unavailable", reason=str(error), remedy="set control_topic to take orders")
            return
        async with server:
            await server.serve_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                if is_same_user(writer.get_extra_info("socket")):
                    answer = self._answer(await reader.readline())
                    writer.write(json.dumps(answer).encode() + b"\n")
                    await writer.drain()
        except (OSError, TimeoutError, ValueError):
            pass  # it has gone, says nothing, or says more than an order needs
        finally:
            writer.close()

    def _answer(self, request: bytes) -> dict[str, Any]:
        error = ""
        try:
            self._handle(json_of(request))
        except (AttributeError, KeyError, TypeError, ValueError) as refused:
            error = str(refused) if isinstance(refused, RecordError) else "the request is not understood"
        records = {key: record.to_json() for key, record in self._records.items()}
        return {"bootstrap": self._bootstrap, "records": records, "error": error}

    def _handle(self, request: Mapping[str, Any]) -> None:
        if not request:
            return
        key, value = request["key"], request["value"]
        if value is None:
            if isinstance(self._records.get(key), Order):
                self._set(key, None)
            return
        record = decode(key.encode(), json.dumps(value).encode())
        ordered = isinstance(record, Order) and record.kind in KINDS
        if record is None or not (ordered or isinstance(record, Stopped)):
            raise RecordError("without a control topic only leave, release, pause and rebalance can be ordered")
        self._set(key, record)


def discard(_: object) -> None:
    """For a callback whose result nobody wants."""


@dataclass(frozen=True, slots=True)
class LocalProcess:
    """A running process of Bellwether's on this machine, as it was when it was asked."""

    name: str
    bootstrap: str
    records: Mapping[str, Record]

    def serves(self, group: str) -> bool:
        return any(isinstance(record, InstanceHeartbeat) and group in record.groups for record in self.records.values())

    def is_on(self, bootstrap: str) -> bool:
        """Whether it has a broker in common with these bootstrap.servers."""
        return not _brokers(self.bootstrap).isdisjoint(_brokers(bootstrap))


def local_processes(bootstrap: str) -> list[LocalProcess]:
    """Those of this user, on this machine, that are on the same cluster and have no control topic."""
    found = (_asked(name, {}) for name in _names())
    return [process for process in found if process is not None and process.is_on(bootstrap)]


class LocalChannel:
    """A command's side: what these processes have been ordered."""

    def __init__(self, processes: Iterable[LocalProcess]) -> None:
        self._names = [process.name for process in processes]

    def read(self) -> dict[str, Record]:
        return {key: record for name in self._names for key, record in self._ask(name, {}).items()}

    def write(self, key: bytes, value: bytes | None) -> None:
        """Gives an order, or withdraws it. Raises ControlTopicError where a process has gone or refuses it."""
        order = {"key": key.decode(), "value": None if value is None else json.loads(value)}
        for name in self._names:
            self._ask(name, order)

    def _ask(self, name: str, request: Mapping[str, Any]) -> Mapping[str, Record]:
        process = _asked(name, request)
        if process is None:
            raise ControlTopicError(
                "The process that leads or observes the group does not answer; see whether it runs."
            )
        return process.records


def _names() -> list[str]:
    """Bellwether's abstract names. A connection bears the name that it was made to, so each is there once or
    more."""
    try:
        lines = SOCKETS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    last = (line.rpartition(" ")[2] for line in lines)
    return sorted({name.removeprefix("@") for name in last if name.startswith(f"@{PREFIX}")})


def _asked(name: str, request: Mapping[str, Any]) -> LocalProcess | None:
    """None where it has gone or is not to be trusted. Raises ControlTopicError where it refuses the request."""
    with suppress(OSError, ValueError, KeyError, AttributeError), socket.socket(socket.AF_UNIX) as line:
        line.settimeout(ANSWER_TIMEOUT_S)
        line.connect(f"\0{name}")
        if is_same_user(line):
            line.sendall(json.dumps(request).encode() + b"\n")
            with line.makefile("rb") as answers:
                answer = json_of(answers.readline(ANSWER_BYTES_MAX))
            if answer["error"]:
                raise ControlTopicError(f"The order was refused: {answer['error']}; name the topic with control_topic.")
            return LocalProcess(name, answer["bootstrap"], dict(_records(answer["records"])))
    return None


def _records(answer: Mapping[str, Any]) -> Iterable[tuple[str, Record]]:
    for key, value in answer.items():
        with suppress(RecordError):
            record = decode(key.encode(), json.dumps(value).encode())
            if record is not None:
                yield key, record


def is_same_user(line: socket.socket) -> bool:
    """Whether Bellwether's own user is at the other end, in a process that Bellwether can see: one of another
    container, which may have the same user number and the same network, has the process id 0 here."""
    credentials = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process, user, _ = _CREDENTIALS.unpack(credentials)
    return bool(process > 0 and user == os.geteuid())


def _brokers(bootstrap: str) -> frozenset[str]:
    return frozenset(broker.strip().lower() for broker in bootstrap.split(","))
