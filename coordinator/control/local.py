"""Orders without a control topic: a process that leads alone keeps them in memory, and commands on the same machine
send them through a socket.

The socket is a Unix socket with an abstract name (Linux): it needs no folder, so it works in a container with a
read-only root, and it disappears with its process. Both sides get the peer's credentials from the kernel and accept
only the same user in the same process namespace. A request is one line of JSON: {} to read, {"key": ..., "value": ...}
to give an order, with the value null to withdraw it. The answer is also one line, with "bootstrap", "records" and
"error".

Hand-backs must survive a restart, so they are also kept in a small file (`HandBackFile`). A container without a
persistent folder needs a control topic instead.
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
from bellwether_kafka.coordinator.control.fields import RecordError
from bellwether_kafka.coordinator.control.handed_back import HandedBack
from bellwether_kafka.coordinator.control.order_kinds import ORDER_TRAITS
from bellwether_kafka.coordinator.control.record_codec import decode
from bellwether_kafka.coordinator.control.records import InstanceHeartbeat, Order, Record, Stopped, traits_of
from bellwether_kafka.coordinator.control.topic import ControlTopicError, OnRecord

PREFIX = "bellwether-orders-"
SOCKETS = Path("/proc/net/unix")  # lists abstract names with an @
REQUEST_BYTES_MAX = 65_536
ANSWER_BYTES_MAX = 50_000_000  # orders, and the heartbeat of a process with every group of a cluster
FILE_BYTES_MAX = 10_000_000
ANSWER_TIMEOUT_S = 5.0
WITHOUT_TOPIC = tuple(kind.value for kind, traits in ORDER_TRAITS.items() if not traits.needs_topic)

_CREDENTIALS = struct.Struct("3i")  # struct ucred of Linux: process, user, group

log = structlog.get_logger(__name__)


class HandBackFile:
    """A JSON file of hand-backs by key, in $XDG_STATE_HOME/bellwether or ~/.local/state/bellwether. There is one file
    per set of brokers, since two clusters may have groups of the same name."""

    def __init__(self, bootstrap: str, folder: Path | None = None) -> None:
        self._path = state_file("handed-back", bootstrap, folder)

    def read(self) -> dict[str, HandedBack]:
        """Returns the hand-backs by key, empty if there is no file. A file that cannot be read is logged."""
        try:
            return self._kept()
        except OSError as error:
            log.warning("hand_backs_not_read", reason=str(error), remedy=f"make {self._path} a file that can be read")
            return {}

    def write(self, record: HandedBack) -> None:
        """Adds a record to the file, which may have others of other processes. A failure is logged: the record is then
        lost in a restart."""
        try:
            kept = {**self._kept(), record.key: record}
            write_state(self._path, json.dumps({key: each.to_json() for key, each in kept.items()}))
        except OSError as error:
            log.warning("hand_back_not_kept", reason=str(error), remedy="set control_topic, or XDG_STATE_HOME")

    def _kept(self) -> dict[str, HandedBack]:
        """Reads the file. Raises OSError if it exists and cannot be read: it must not be overwritten then."""
        with suppress(FileNotFoundError, ValueError, AttributeError):
            kept = _records(json_of(read_small(self._path, FILE_BYTES_MAX)[0]))
            return {record.key: record for _, record in kept if isinstance(record, HandedBack)}
        return {}


def state_file(kind: str, bootstrap: str, folder: Path | None = None) -> Path:
    """Returns the path of a state file for one set of brokers."""
    name = blake2b(",".join(sorted(_brokers(bootstrap))).encode(), digest_size=8).hexdigest()
    return (folder or state_folder()) / f"{kind}-{name}.json"


def write_state(path: Path, text: str) -> None:
    """Writes a state file atomically, since another process may read it meanwhile, and waits until it is on the disk:
    it is for a restart, perhaps of the machine. Raises OSError."""
    # Not by the process id, which processes of containers that share a volume may have in common.
    aside = path.with_suffix(f".{secrets.token_hex(8)}")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with aside.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)  # of a write that failed, as on a full disk
    with suppress(OSError):  # some file systems refuse this of a folder, and one may be written but not read
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def state_folder() -> Path:
    """Returns the folder for state files of this user."""
    base = os.environ.get("XDG_STATE_HOME", "")
    if not base:  # for a user without a home this stays "~", a relative folder
        base = os.path.expanduser("~/.local/state")  # noqa: PTH111 - Path.expanduser raises where there is no home
    return Path(base) / "bellwether"


class LocalOrders:
    """The process's side, with the methods of a control topic that the controller uses. To be used in the event loop in
    which `start` was called. `bootstrap` is bootstrap.servers, by which commands distinguish clusters."""

    topic = ""

    def __init__(self, bootstrap: str, folder: Path | None = None) -> None:
        self._bootstrap = bootstrap
        self._file = HandBackFile(bootstrap, folder)
        self._records: dict[str, Record] = {}
        self._on_record: OnRecord = lambda _key, _record: None
        self._listening: asyncio.Task[None] | None = None
        self._written_one_by_one = asyncio.Lock()
        self._writing: set[asyncio.Task[None]] = set()

    def start(self, on_record: OnRecord, on_caught_up: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        # Called later, as with a topic, because the controller also writes while it handles a record.
        self._on_record = lambda key, record: discard(loop.call_soon(on_record, key, record))
        for key, record in self._file.read().items():
            self._set(key, record)
        loop.call_soon(on_caught_up)
        self._listening = loop.create_task(self._listen())

    def write(self, record: Record) -> None:
        self._set(record.key, record)
        if isinstance(record, HandedBack):
            task = asyncio.get_running_loop().create_task(self._write(record))
            self._writing.add(task)
            task.add_done_callback(self._writing.discard)

    def withdraw(self, key: str) -> None:
        self._set(key, None)

    async def close(self) -> None:
        if self._writing:
            await asyncio.wait(self._writing, timeout=ANSWER_TIMEOUT_S)
        if self._listening is not None:
            self._listening.cancel()
            with suppress(asyncio.CancelledError):
                await self._listening

    async def _write(self, record: HandedBack) -> None:
        """Writes to the file in a thread, because a disk may be slow."""
        async with self._written_one_by_one:
            await asyncio.to_thread(self._file.write, record)

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
            pass  # the client has gone, sent nothing, or sent too much
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
        ordered = isinstance(record, Order) and not traits_of(record).needs_topic
        if record is None or not (ordered or isinstance(record, Stopped)):
            raise RecordError(
                f"without a control topic only {', '.join(WITHOUT_TOPIC[:-1])} and {WITHOUT_TOPIC[-1]} can be ordered"
            )
        self._set(key, record)


def discard(_: object) -> None:
    """Ignores the result of a callback."""


@dataclass(frozen=True, slots=True)
class LocalProcess:
    """A running process of Bellwether on this machine, with its state when it answered."""

    name: str
    bootstrap: str
    records: Mapping[str, Record]

    def serves(self, group: str) -> bool:
        return any(isinstance(record, InstanceHeartbeat) and group in record.groups for record in self.records.values())

    def is_on(self, bootstrap: str) -> bool:
        """Returns whether it has a broker in common with these bootstrap.servers."""
        return not _brokers(self.bootstrap).isdisjoint(_brokers(bootstrap))


def local_processes(bootstrap: str) -> list[LocalProcess]:
    """Returns this user's processes on this machine that use the same cluster and have no control topic."""
    answers = (_asked(name, {}) for name in _names())
    return [process for process in answers if process is not None and process.is_on(bootstrap)]


class LocalChannel:
    """The command's side: reads and writes the orders of these processes."""

    def __init__(self, processes: Iterable[LocalProcess]) -> None:
        self._names = [process.name for process in processes]

    def read(self) -> dict[str, Record]:
        return {key: record for name in self._names for key, record in self._ask(name, {}).items()}

    def write(self, *records: tuple[bytes, bytes | None]) -> None:
        """Gives orders, or withdraws them. Raises ControlTopicError if a process has gone or refuses one."""
        for key, value in records:
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
    """Returns the names of Bellwether's sockets. Connections are listed under the same name, so duplicates are
    removed."""
    try:
        lines = SOCKETS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    last = (line.rpartition(" ")[2] for line in lines)
    return sorted({name.removeprefix("@") for name in last if name.startswith(f"@{PREFIX}")})


def _asked(name: str, request: Mapping[str, Any]) -> LocalProcess | None:
    """Sends a request to a process and returns its answer. None if the process has gone or belongs to another user.
    Raises ControlTopicError if it refuses the request."""
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
    """Returns whether the peer is of the same user, in a visible process. A process in another container, which may
    have the same user number and network, has the process id 0 here."""
    credentials = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process, user, _ = _CREDENTIALS.unpack(credentials)
    return bool(process > 0 and user == os.geteuid())


def _brokers(bootstrap: str) -> frozenset[str]:
    return frozenset(broker.strip().lower() for broker in bootstrap.split(","))
