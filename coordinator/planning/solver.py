"""A process for plans that may not end: those of plug-ins, and of very large groups.

A hanging thread cannot be stopped, but a process can be killed at the deadline, which also frees the memory that a
plug-in has used. So one is started ahead of time and makes one plan after the other; if it is killed, another starts at
once. Small plans of the stock policies take milliseconds and are made in this process.

Parent and child (`solver_worker`) exchange pickles over pipes: both are Bellwether's code, and a plug-in has the same
permissions anyway. The child receives no settings, and ends when its parent does.
"""

import asyncio
import os
import pickle
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import TypeVar

import structlog

from bellwether_kafka.assignors.shared import RefusalCause, RefusalError
from bellwether_kafka.coordinator.planning.solver_worker import HEADER, MEMORY_VARIABLE, Job

OWN_VARIABLES = "BELLWETHER_"  # settings, including secrets
STREAM_BUFFER_BYTES = 1 << 20
# Not with -m, because pickles would name the module `__main__`.
WORKER = "from bellwether_kafka.coordinator.planning.solver_worker import main; main()"
START_S_MAX = 30.0
# Address space, not resident memory: numpy alone reserves hundreds of megabytes that it never touches.
MEMORY_BYTES_MAX = 8 << 30
# From these sizes on, pickling costs less than the delay that a long plan causes to heartbeats in Bellwether's process.
LARGE_PARTITIONS = 200_000
LARGE_MEMBERS = 2_000

Value = TypeVar("Value")

log = structlog.get_logger(__name__)


def foreign_code(*objects: object) -> bool:
    """Returns whether any of these objects may be foreign code: its class is not part of Bellwether."""
    return any(type(item).__module__.partition(".")[0] != __package__.partition(".")[0] for item in objects)


class Solver:
    """Runs jobs in a process, to which `subject`, such as a policy, is sent once. For one event loop.

    `always`: every plan is made there, because the subject may be foreign code; otherwise only large plans are.
    """

    def __init__(self, subject: object, *, always: bool, memory_bytes_max: int = MEMORY_BYTES_MAX) -> None:
        self.always = always
        self._memory_bytes_max = memory_bytes_max
        self._subject = _pickled(subject)
        self._process: asyncio.subprocess.Process | None = None
        self._starting: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[int]] = set()
        self._busy = asyncio.Lock()
        self._frames = 0  # sent to any process: the number of the last one
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
        running = self._process is not None and self._process.returncode is None
        return running and (self._starting is None or self._starting.done())

    def warm(self) -> None:
        """Starts the process if it is not running."""
        starting = self._starting is not None and not self._starting.done()
        if not starting and not self.ready and self._subject is not None and not self._closed:
            self._starting = asyncio.get_running_loop().create_task(self._start(self._subject))

    async def solve(self, job: Job[Value], limit_s: float) -> Value:
        """Returns the result of the job. Raises its exception; RefusalError if the process dies or does not start;
        TimeoutError at the limit, after which the process is killed and another one started."""
        try:
            async with asyncio.timeout(limit_s), self._busy:
                self.warm()
                if self._starting is not None:
                    await asyncio.shield(self._starting)
                if not self.ready:
                    raise RefusalError(RefusalCause.PLAN, "the process that plans has not started; see the log")
                sent = await asyncio.to_thread(pickle.dumps, job, pickle.HIGHEST_PROTOCOL)
                answer = await self._answered(sent)
        except TimeoutError:  # TimeoutError is an OSError, too
            raise
        except (asyncio.IncompleteReadError, OSError, EOFError) as error:
            reason = "the process that plans has ended, perhaps out of memory"
            raise RefusalError(RefusalCause.PLAN, reason) from error
        failed, value = await asyncio.to_thread(pickle.loads, answer)
        if failed:
            raise value
        return value  # type: ignore[no-any-return]  # what the job returns

    async def _answered(self, job: bytes) -> bytes:
        """Returns the answer to one job. Kills the process if the answer does not arrive: its memory is wanted back."""
        try:
            return await self._exchanged(job)
        except BaseException as error:
            log.warning("solver_killed", reason=str(error) or type(error).__name__)
            self._kill()
            self.warm()
            raise

    async def close(self) -> None:
        self._closed = True
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        self._kill()
        await asyncio.gather(*self._ending)

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is None:
            process.kill()
        ending = asyncio.get_running_loop().create_task(process.wait())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def _start(self, subject: bytes) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(OWN_VARIABLES)}
        environment |= {
            "PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path),
            "OPENBLAS_NUM_THREADS": "1",
            MEMORY_VARIABLE: str(self._memory_bytes_max),
        }
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", WORKER, stdin=PIPE, stdout=PIPE, env=environment, limit=STREAM_BUFFER_BYTES
        )
        try:
            async with asyncio.timeout(START_S_MAX):
                await self._exchanged(subject)  # the child has loaded the subject
        except (TimeoutError, asyncio.IncompleteReadError, OSError, EOFError) as error:
            log.warning("solver_not_started", reason=str(error) or f"no answer within {START_S_MAX:.0f} s")
            self._kill()

    async def _exchanged(self, data: bytes) -> bytes:
        """Sends a frame and returns the answer that has its number. Raises EOFError for any other answer."""
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise EOFError
        self._frames += 1
        number = self._frames
        process.stdin.write(HEADER.pack(number, len(data)) + data)
        await process.stdin.drain()
        answered, size = HEADER.unpack(await process.stdout.readexactly(HEADER.size))
        if answered != number:
            raise EOFError(f"the answer to frame {answered} came in place of that to {number}")
        return await process.stdout.readexactly(size)


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
