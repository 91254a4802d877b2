"""A process in which plans are made that may not end: those of plug-ins, and of very large groups.

A thread that hangs cannot be stopped; a process can be killed at the deadline, and takes with it whatever memory the
plug-in has eaten. So one is started ahead of time, answers one plan after the other, and when it is killed its successor
starts at once. Small stock plans take milliseconds and stay in our own process.

Parent and child speak in pickles over pipes: both are our own code, and a plug-in runs with our rights anyway. The child
sees none of our settings and ends when its parent does.
"""

import asyncio
import os
import pickle
import struct
import sys
from collections.abc import Callable
from typing import IO, Any, TypeVar

import structlog

from assignors.decide import DecisionError
PREFIX = "BELLWETHER_"

HEADER = struct.Struct(">Q")
STREAM_BUFFER_BYTES = 1 << 20
START_S_MAX = 30.0
# Address space, not resident memory: numpy alone reserves hundreds of megabytes that it never touches.
MEMORY_BYTES_MAX = 8 << 30
MEMORY_VARIABLE = "SOLVER_MEMORY_BYTES"
READY = b"ready"
# Where pickling costs less than what a long plan does to heartbeats in our own process.
LARGE_PARTITIONS = 200_000
LARGE_MEMBERS = 2_000

Value = TypeVar("Value")

log = structlog.get_logger(__name__)


def foreign(subject: object) -> bool:
    """Whether code behind this value is anybody's: its class is none of ours."""
    module = subject.__module__ if callable(subject) and hasattr(subject, "__module__") else type(subject).__module__
    return module.partition(".")[0] not in ("assignors", "builtins")


class Solver:
    """Calls `work(subject, *arguments)` in the process; `subject`, such as a policy, is sent once. For one event loop.

    `always`: the subject may hold anybody's code, so every plan is made there. Otherwise only large ones are.
    """

    def __init__(self, subject: object, *, always: bool, memory_bytes_max: int = MEMORY_BYTES_MAX) -> None:
        self.always = always
        self._memory_bytes_max = memory_bytes_max
        self._subject = _pickled(subject)
        self._process: asyncio.subprocess.Process | None = None
        self._starting: asyncio.Task[None] | None = None
        self._busy = asyncio.Lock()
        self._closed = False

    def wants(self, members: int, partitions: int) -> bool:
        """Whether a plan of this size is made in the process. A large group's first one is not: it only starts it."""
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
        running = self._process is not None and self._process.returncode is None
        return running and (self._starting is None or self._starting.done())

    def warm(self) -> None:
        """Starts the process if it does not run."""
        starting = self._starting is not None and not self._starting.done()
        if not starting and not self.ready and self._subject is not None and not self._closed:
            self._starting = asyncio.get_running_loop().create_task(self._start(self._subject))

    async def solve(self, work: Callable[..., Value], arguments: tuple[object, ...], limit_s: float) -> Value:
        """What `work` returns. Raises what it raises, DecisionError when the process dies, TimeoutError at the limit;
        then the process is killed and another one started."""
        asked = False
        try:
            async with asyncio.timeout(limit_s), self._busy:
                self.warm()
                if self._starting is not None:
                    await asyncio.shield(self._starting)
                job = await asyncio.to_thread(pickle.dumps, (work, arguments), pickle.HIGHEST_PROTOCOL)
                asked = True
                await self._send(job)
                answer = await self._receive()
            failed, value = await asyncio.to_thread(pickle.loads, answer)
        except TimeoutError:
            if asked:
                await self._replace("it was not ready in time")
            raise
        except (asyncio.IncompleteReadError, OSError, EOFError) as error:
            await self._replace("it ended by itself")
            raise DecisionError("the process that plans has ended, perhaps out of memory") from error
        if failed:
            raise value
        return value  # type: ignore[no-any-return]  # what `work` returns

    async def close(self) -> None:
        self._closed = True
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        await self._kill()

    async def _replace(self, why: str) -> None:
        log.warning("solver_killed", reason=why)
        await self._kill()
        self.warm()

    async def _kill(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is None:
            process.kill()
        await process.wait()

    async def _start(self, subject: bytes) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
        environment |= {
            "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
            "OPENBLAS_NUM_THREADS": "1",
            MEMORY_VARIABLE: str(self._memory_bytes_max),
        }
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "coordinator.solver",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=environment,
            limit=STREAM_BUFFER_BYTES,
        )
        try:
            async with asyncio.timeout(START_S_MAX):
                await self._send(subject)
                if await self._receive() != READY:
                    raise EOFError("it does not speak")
        except (TimeoutError, asyncio.IncompleteReadError, OSError, EOFError) as error:
            log.warning("solver_not_started", reason=str(error) or type(error).__name__)

    async def _send(self, data: bytes) -> None:
        if self._process is None or self._process.stdin is None:
            raise EOFError
        self._process.stdin.write(HEADER.pack(len(data)) + data)
        await self._process.stdin.drain()

    async def _receive(self) -> bytes:
        if self._process is None or self._process.stdout is None:
            raise EOFError
        (size,) = HEADER.unpack(await self._process.stdout.readexactly(HEADER.size))
        return await self._process.stdout.readexactly(size)


def _pickled(subject: object) -> bytes | None:
    try:
        return pickle.dumps(subject, pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001 - whatever a plug-in's own pickling raises
        log.warning("solver_not_used", reason=f"the plug-in cannot be sent to another process: {error}")
        return None


# ---- the child -------------------------------------------------------------------------------------------------------


def main() -> None:
    """Answers jobs until its parent closes the pipe. What a plug-in prints goes to standard error."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches us too; the parent decides
    _limit_memory(int(os.environ.get(MEMORY_VARIABLE, MEMORY_BYTES_MAX)))
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    jobs = _jobs(os.fdopen(os.dup(0), "rb"))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    subject = pickle.loads(jobs())  # noqa: S301 - from our own parent
    _answer(out, READY)
    while True:
        _answer(out, _solved(subject, jobs()))


def _solved(subject: object, job: bytes) -> bytes:
    try:
        work, arguments = pickle.loads(job)  # noqa: S301 - from our own parent
        answer: tuple[bool, object] = (False, work(subject, *arguments))
        return pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001 - a plug-in's; the parent has an answer for it
        return pickle.dumps((True, _portable(error)), pickle.HIGHEST_PROTOCOL)


def _portable(error: Exception) -> Exception:
    """The error itself where it survives pickling, its words otherwise."""
    if type(error).__module__.partition(".")[0] in ("assignors", "coordinator"):
        return error
    return DecisionError(f"{type(error).__name__}: {error}"[:1_000])


def _jobs(source: IO[bytes]) -> Callable[[], bytes]:
    """A thread reads, so that the end of the parent ends us even in the middle of a plan that hangs."""
    import queue
    import threading

    waiting: queue.Queue[bytes] = queue.Queue()

    def read() -> None:
        while True:
            header = source.read(HEADER.size)
            if len(header) < HEADER.size:
                os._exit(0)
            waiting.put(source.read(HEADER.unpack(header)[0]))

    threading.Thread(target=read, name="jobs", daemon=True).start()
    return waiting.get


def _answer(out: IO[bytes], data: bytes) -> None:
    out.write(HEADER.pack(len(data)) + data)
    out.flush()


def _limit_memory(limit: int) -> None:
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    except (ImportError, ValueError, OSError):  # not on this system, or a lower limit holds already
        return


def _main() -> Any:
    # As `__main__` this module would be another one than `coordinator.solver`, which pickles may name.
    from coordinator import solver

    return solver.main()


if __name__ == "__main__":
    _main()
