"""A process for plans that may not end: those of plug-ins, and of very large groups.

A hanging thread cannot be stopped, but a process can be killed at the deadline, which also frees the memory that a
plug-in has used. So one is started ahead of time and makes one plan after the other; if it is killed, another starts at
once. Small plans of the stock policies take milliseconds and are made in this process.

Parent and child exchange numbered messages over a pipe: the subject, such as a policy, is the first, and each later one
is a call that is given the subject. An answer has the number of what it answers, so a late one is never taken for
another's. Both are Bellwether's code, and a plug-in has the same permissions anyway. The child receives no settings,
and ends when its parent does.
"""

import asyncio
import contextlib
import copyreg
import multiprocessing
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import structlog

from bellwether_kafka.assignors.shared import RefusalCause, RefusalError
from bellwether_kafka.coordinator.planning.threads import in_thread

try:
    import resource
except ImportError:  # not on Windows: no limit then
    resource = None  # type: ignore[assignment]

OWN_VARIABLES = "BELLWETHER_"  # settings, including secrets
# Not with -m, because pickles would name the module `__main__`.
WORKER = "from bellwether_kafka.coordinator.planning.solver import main; main()"
# Address space, not resident memory: numpy alone reserves hundreds of megabytes that it never touches.
MEMORY_BYTES_MAX = 8 << 30
# From these sizes on, pickling costs less than the delay that a long plan causes to heartbeats in Bellwether's process.
LARGE_PARTITIONS = 200_000
LARGE_MEMBERS = 2_000
ENDED = "the process that plans has ended, perhaps out of memory"
NOT_STARTED = "the process that plans has not started; see the log"

Key = TypeVar("Key")
Item = TypeVar("Item")
Value = TypeVar("Value")

log = structlog.get_logger(__name__)


def foreign_code(*objects: object) -> bool:
    """Returns whether any of these objects may be foreign code: its class is not part of Bellwether."""
    return any(type(item).__module__.partition(".")[0] != __package__.partition(".")[0] for item in objects)


@dataclass(slots=True)
class Child:
    """A process and the pipe to it. `loaded` is True once it has the subject, False if it has ended before."""

    process: "subprocess.Popen[bytes]"
    pipe: "Connection[Any, Any]"
    loaded: "asyncio.Future[bool] | None" = None
    last: int = 0  # the number of the last message

    @classmethod
    def start(cls, memory_bytes_max: int) -> "Child":
        """Raises OSError."""
        pipe, theirs = multiprocessing.Pipe()
        environment = {name: value for name, value in os.environ.items() if not name.startswith(OWN_VARIABLES)}
        environment["PYTHONPATH"] = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
        environment["OPENBLAS_NUM_THREADS"] = "1"
        with theirs:
            command = [sys.executable, "-c", WORKER, str(theirs.fileno()), str(memory_bytes_max)]
            process = subprocess.Popen(  # noqa: S603 - this interpreter, with Bellwether's own code
                command, stdin=subprocess.DEVNULL, stdout=2, env=environment, pass_fds=[theirs.fileno()]
            )
        return cls(process, pipe)

    @property
    def ready(self) -> bool:
        loaded = self.loaded is not None and self.loaded.done() and self.loaded.result()
        return loaded and self.process.poll() is None

    def load(self, subject: bytes) -> bool:
        """Returns whether the process has loaded the subject. Blocks."""
        try:
            self.ask(subject)
        except (EOFError, OSError) as error:
            log.warning("solver_not_started", reason=str(error) or f"it ended with exit code {self.process.wait()}")
            return False
        return True

    def call(self, function: Callable[[Any], object]) -> tuple[bool, Any]:
        """Returns (False, value) or (True, error) of the function, given the subject. Blocks."""
        answer = self.ask(pickle.dumps(function, pickle.HIGHEST_PROTOCOL))
        failed, value = pickle.loads(answer)  # noqa: S301 - from Bellwether's own child
        return failed, value

    def ask(self, data: bytes) -> bytes:
        """Sends a message and returns the answer to it. Raises EOFError or OSError if the process ends."""
        self.last += 1
        number = self.last
        try:
            self.pipe.send((number, data))
            while True:
                answered, answer = self.pipe.recv()
                if answered == number:
                    return bytes(answer)
        except (EOFError, OSError):
            self.process.wait()
            raise


class Solver:
    """Makes plans in a process, to which `subject`, such as a policy, is sent once. For one event loop.

    `always`: every plan is made there, because the subject may be foreign code; otherwise only large plans are.
    """

    def __init__(self, subject: object, *, always: bool, memory_bytes_max: int = MEMORY_BYTES_MAX) -> None:
        self.always = always
        self._memory_bytes_max = memory_bytes_max
        self._subject = _pickled(subject)
        self._child: Child | None = None
        self._busy = asyncio.Lock()
        self._closed = False

    def wants(self, members: int, partitions: int) -> bool:
        """Returns whether a plan of this size is made in the process. For a large group's first plan it only starts the
        process."""
        if self._subject is None or self._closed:
            return False
        if self.always:
            return True
        if partitions < LARGE_PARTITIONS and members < LARGE_MEMBERS:
            return False
        self.warm()
        return self.ready

    @property
    def ready(self) -> bool:
        return self._child is not None and self._child.ready

    def warm(self) -> None:
        """Starts the process if it is not running."""
        loading = self._child is not None and self._child.loaded is not None and not self._child.loaded.done()
        if self._subject is None or self._closed or loading or self.ready:
            return
        try:
            self._child = Child.start(self._memory_bytes_max)
        except OSError as error:
            log.warning("solver_not_started", reason=str(error))
            return
        self._child.loaded = in_thread(partial(self._child.load, self._subject))

    async def solve(self, call: Callable[[Any], Value], limit_s: float) -> Value:
        """Returns the result of `call`, which is given the subject. Raises its exception; RefusalError if the process
        dies or does not start; TimeoutError at the limit, after which the process is killed and another one started."""
        async with asyncio.timeout(limit_s), self._busy:
            self.warm()
            child = self._child
            if child is None or child.loaded is None or not await asyncio.shield(child.loaded):
                raise RefusalError(RefusalCause.PLAN, NOT_STARTED)
            try:
                failed, value = await in_thread(partial(child.call, call))
            except (EOFError, OSError, asyncio.CancelledError) as error:  # its memory is wanted back
                log.warning("solver_killed", reason=str(error) or type(error).__name__)
                child.process.kill()
                self._child = None
                self.warm()
                if isinstance(error, asyncio.CancelledError):
                    raise
                raise RefusalError(RefusalCause.PLAN, ENDED) from error
        if failed:
            raise value
        return value  # type: ignore[no-any-return]  # what the call returns

    async def close(self) -> None:
        self._closed = True
        child, self._child = self._child, None
        if child is not None:
            child.process.kill()
            await asyncio.to_thread(child.process.wait)
            if child.loaded is not None:
                await child.loaded


class Solvers:
    """The solvers of all groups of a process."""

    def __init__(self) -> None:
        self._all: list[Solver] = []

    def make(self, subject: object, *, always: bool) -> Solver:
        solver = Solver(subject, always=always)
        self._all.append(solver)
        if always:
            solver.warm()
        return solver

    async def close(self) -> None:
        await asyncio.gather(*(solver.close() for solver in self._all))


def _pickled(subject: object) -> bytes | None:
    try:
        return pickle.dumps(subject, pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001 - whatever a plug-in's own pickling raises
        log.warning("solver_not_used", reason=f"the plug-in cannot be sent to another process: {error}")
        return None


# ---- in the process ------------------------------------------------------------------------------------------------


def main() -> None:
    """Answers messages until the parent closes the pipe. What a plug-in prints is on standard error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C also reaches the child; the parent decides when it ends
    pipe: Connection[Any, Any] = Connection(int(sys.argv[1]))
    if resource is not None:
        with contextlib.suppress(ValueError, OSError):  # a lower limit is set already
            resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]),) * 2)
    messages: queue.Queue[tuple[int, bytes]] = queue.Queue()
    # A thread reads the pipe, so that the end of the parent ends this process even while a plan hangs.
    threading.Thread(target=_receive, args=(pipe, messages), name="messages", daemon=True).start()
    number, sent = messages.get()
    subject = pickle.loads(sent)  # noqa: S301 - from Bellwether's own parent
    pipe.send((number, b""))
    while True:
        number, sent = messages.get()
        pipe.send((number, _solved(subject, sent)))


def _receive(pipe: "Connection[Any, Any]", messages: "queue.Queue[tuple[int, bytes]]") -> None:
    try:
        while True:
            messages.put(pipe.recv())
    except (EOFError, OSError):
        os._exit(0)


def _solved(subject: object, sent: bytes) -> bytes:
    try:
        call: Callable[[object], object] = pickle.loads(sent)  # noqa: S301 - from Bellwether's own parent
        return pickle.dumps((False, call(subject)), pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001 - a plug-in's; the parent has an answer for it
        own = type(error).__module__.partition(".")[0] == "bellwether_kafka"
        told = error if own else RefusalError(RefusalCause.PLAN, f"{type(error).__name__}: {error}"[:1_000])
        return pickle.dumps((True, told), pickle.HIGHEST_PROTOCOL)


def read_only(items: dict[Key, Item]) -> "MappingProxyType[Key, Item]":
    """Returns a read-only mapping, as plans contain them. `pickle` cannot handle MappingProxyType itself."""
    return MappingProxyType(items)


copyreg.pickle(MappingProxyType, lambda mapping: (read_only, (dict(mapping),)))
