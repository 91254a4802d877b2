"""The process behind `solver.Solver`: reads pickled jobs from standard input and answers on its original standard
output.

A frame is its number and its length, eight bytes each, then a pickle. An answer has the number of what it answers, so
that a late one is never taken for the next. The first frame is the subject, such as a policy, and is answered once it
is loaded. Each further frame is a `Job` and is answered by (False, value) or (True, error).
"""

import contextlib
import copyreg
import os
import pickle
import queue
import signal
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import IO, Generic, TypeVar

from bellwether_kafka.assignors.shared import RefusalCause, RefusalError

try:
    import resource
except ImportError:  # not on Windows: no limit then
    resource = None  # type: ignore[assignment]

HEADER = struct.Struct(">QQ")
MEMORY_VARIABLE = "SOLVER_MEMORY_BYTES"

Key = TypeVar("Key")
Value = TypeVar("Value")
Value_co = TypeVar("Value_co", covariant=True)


@dataclass(frozen=True)  # slots break a frozen generic that is made by its alias (Python 3.11)
class Job(Generic[Value_co]):
    """A call of `make(subject, request)` with the process's subject. Both fields can be pickled."""

    make: Callable[..., Value_co]
    request: object


def read_only(items: dict[Key, Value]) -> MappingProxyType[Key, Value]:
    """Returns a read-only mapping, as plans contain them. `pickle` cannot handle MappingProxyType itself."""
    return MappingProxyType(items)


copyreg.pickle(MappingProxyType, lambda mapping: (read_only, (dict(mapping),)))


def main() -> None:
    """Answers jobs until the parent closes the pipe. Redirects what a plug-in prints to standard error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C also reaches the child; the parent decides when it ends
    _limit_memory(int(os.environ[MEMORY_VARIABLE]))
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    jobs = _jobs(os.fdopen(os.dup(0), "rb"))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    number, sent = jobs()
    subject = pickle.loads(sent)  # noqa: S301 - from Bellwether's own parent
    _answer(out, number, b"ready")
    while True:
        number, sent = jobs()
        _answer(out, number, _solved(subject, sent))


def _solved(subject: object, job: bytes) -> bytes:
    try:
        work: Job[object] = pickle.loads(job)  # noqa: S301 - from Bellwether's own parent
        answer: tuple[bool, object] = (False, work.make(subject, work.request))
        return pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001 - a plug-in's; the parent has an answer for it
        return pickle.dumps((True, _portable(error)), pickle.HIGHEST_PROTOCOL)


def _portable(error: Exception) -> Exception:
    """Returns the error itself if it can be pickled, else a RefusalError with its text."""
    if type(error).__module__.partition(".")[0] == "bellwether_kafka":
        return error
    return RefusalError(RefusalCause.PLAN, f"{type(error).__name__}: {error}"[:1_000])


def _jobs(source: IO[bytes]) -> Callable[[], tuple[int, bytes]]:
    """Returns a function that waits for the next frame and returns its number and content. A thread reads the pipe, so
    that the end of the parent ends this process even while a plan hangs."""
    waiting: queue.Queue[tuple[int, bytes]] = queue.Queue()

    def read() -> None:
        while True:
            header = source.read(HEADER.size)
            if len(header) < HEADER.size:
                os._exit(0)
            number, size = HEADER.unpack(header)
            waiting.put((number, source.read(size)))

    threading.Thread(target=read, name="jobs", daemon=True).start()
    return waiting.get


def _answer(out: IO[bytes], number: int, data: bytes) -> None:
    out.write(HEADER.pack(number, len(data)) + data)
    out.flush()


def _limit_memory(limit: int) -> None:
    if resource is not None:
        with contextlib.suppress(ValueError, OSError):  # a lower limit is set already
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
