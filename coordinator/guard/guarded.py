"""The guarded process: a child of the guard, or a process that was started otherwise. Linux only.

The guard treats its child as an init process does: it forwards every signal, adopts and reaps orphans, and exits with
the child's exit code. The child leads a process group, and signals go to all of it (as with `tini -g`), because a shell
does not pass them on; once one was sent, the guard waits until the group is empty.
"""

import ctypes
import os
import select
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from bellwether_kafka.bounded import read_small
from bellwether_kafka.coordinator.guard.proc import began_at, descends, lives

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop  # the import would delay the start of the child

PR_SET_CHILD_SUBREAPER = 36
# Not forwarded: signals that the kernel sends because of the guard's own faults or its terminal, and those that cannot
# be caught.
OWN_SIGNALS = frozenset(
    {
        signal.SIGKILL,
        signal.SIGSTOP,
        signal.SIGCHLD,
        signal.SIGFPE,
        signal.SIGILL,
        signal.SIGSEGV,
        signal.SIGBUS,
        signal.SIGABRT,
        signal.SIGTRAP,
        signal.SIGSYS,
        signal.SIGTTIN,
        signal.SIGTTOU,
        signal.SIGPIPE,
        signal.SIGXFSZ,
    }
)
NOT_FOUND, NOT_EXECUTABLE, KILLED = 127, 126, 128  # exit codes as in shells; to KILLED the signal's number is added
WAIT_S = 0.1
TERMINAL = 0  # a file descriptor: the standard input, if that is one
OWN_VARIABLES = "BELLWETHER_"  # settings, including secrets, which the command must not get
PID_BYTES_MAX = 32
CLOCK_S = 1.0  # tolerance between start times of processes and times of files
# Signals that Python ignores; a child gets the system's default back.
RESTORED = (signal.SIGPIPE, signal.SIGXFSZ)


class CommandError(Exception):
    """The command could not be started, or the process not watched. The guard exits with `exit_code`."""

    def __init__(self, reason: str, exit_code: int) -> None:
        super().__init__(reason)
        self.exit_code = exit_code


class Guarded:
    """The base of both kinds of process. The first SIGTERM sets `stopping`, a second one `urgent`; `ended` is true
    once the process is gone. After each of these, `changed` is called in the attached event loop.

    Signals are always handled by `signal.signal`. An event loop's handlers would lose signals that arrive between its
    last poll and its end.
    """

    def __init__(self) -> None:
        self.pid = 0
        self.began = time.monotonic()
        self.ended_at: float | None = None
        self.stopping = self.urgent = False
        self.changed: Callable[[], object] = lambda: None
        self._loop: AbstractEventLoop | None = None

    @property
    def ended(self) -> bool:
        return self.ended_at is not None

    @property
    def lived_s(self) -> float:
        return (self.ended_at or time.monotonic()) - self.began

    @property
    def exit_code(self) -> int:
        return 0

    def attach(self, loop: "AbstractEventLoop") -> None:
        """From now on `changed` is called in this loop."""
        self._loop = loop

    def wait(self) -> None:
        """Blocks until the process has ended. Needs no event loop."""
        raise NotImplementedError

    @property
    def stopped_by_guard(self) -> bool:
        """Whether SIGTERM reaches the process only through the guard."""
        return False

    def stop(self) -> None:
        """Sends SIGTERM, if stopping the process is the guard's job."""

    def is_own(self, process: int) -> bool:
        """Returns whether a live process is the guarded one or its descendant."""
        return descends(process, self.pid)

    def is_gone_whole(self) -> bool:
        """Returns whether the process and its descendants are gone, as far as the guard can know."""
        return self.ended

    def _end(self) -> None:
        self.ended_at = time.monotonic()
        self._send_stop()

    def _on_sigterm(self) -> None:
        self.stopping, self.urgent = True, self.stopping
        self._send_stop()

    def _send_stop(self) -> None:
        """Wakes the loop, which may be sleeping. A closed loop raises RuntimeError, which is ignored."""
        if self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self.changed)


class Child(Guarded):
    """COMMAND as a child of the guard. Call `start` before importing anything slow."""

    def __init__(self, command: Sequence[str]) -> None:
        super().__init__()
        self._command = list(command)
        self._status: dict[int, int] = {}
        self._stop_sent = False
        self._early: list[int] = []  # signals that came before the child was started
        self._signalled = False

    def start(self) -> None:
        """Starts the command. Raises CommandError."""
        _adopt_orphans()
        self._listen()
        in_foreground = os.isatty(TERMINAL) and os.tcgetpgrp(TERMINAL) == os.getpgrp()
        try:
            self.pid = os.posix_spawnp(self._command[0], self._command, _environment(), setpgroup=0, setsigdef=RESTORED)
        except OSError as error:
            code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
            raise CommandError(f"The command {self._command[0]} cannot be run ({error.strerror}).", code) from None
        self.began = time.monotonic()
        if in_foreground:
            self._give_terminal()
        for number in self._early:
            self._send(number)
        self._reap()

    @property
    def exit_code(self) -> int:
        """The exit code of the child, once it has ended; 128 plus the signal's number if a signal killed it."""
        code = os.waitstatus_to_exitcode(self._status[self.pid])
        return code if code >= 0 else KILLED - code

    @property
    def stopped_by_guard(self) -> bool:
        return True

    def attach(self, loop: "AbstractEventLoop") -> None:
        super().attach(loop)
        self._reap()

    def stop(self) -> None:
        self._stop_sent = True
        self._send(signal.SIGTERM)

    def wait(self) -> None:
        self._reap()
        if self.stopping and not self._stop_sent:
            self.stop()
        self._stop_sent = True
        while not self.ended:
            time.sleep(WAIT_S)  # a signal does not end the sleep, but its handler runs
            self._reap()

    def is_own(self, process: int) -> bool:
        """Returns whether the process descends from the guard: the child's orphans become the guard's own children."""
        return descends(process, os.getpid()) and process != os.getpid()

    def is_gone_whole(self) -> bool:
        """Returns whether no process is left that the child has started."""
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return True
        return False

    def _listen(self) -> None:
        for number in _forwarded():
            signal.signal(number, lambda received, _frame: self._on_signal(received))
        signal.signal(signal.SIGCHLD, lambda *_: self._reap())

    def _on_signal(self, number: int) -> None:
        if number == signal.SIGTERM and not self._stop_sent:
            self._on_sigterm()
        else:
            self._send(number)

    def _send(self, number: int) -> None:
        if not self.pid:
            self._early.append(number)
        elif not self.ended:
            self._signalled = True
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def _give_terminal(self) -> None:
        """Makes the child's group that of the terminal's foreground, which gets its input and its signals."""
        with suppress(OSError):  # the child has ended, or it is not the terminal of this session
            os.tcsetpgrp(TERMINAL, self.pid)
            os.killpg(self.pid, signal.SIGCONT)  # it may have read already, and was stopped

    def _group_lives(self) -> bool:
        try:
            os.killpg(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True

    def _reap(self) -> None:
        """Reaps every child that has ended, adopted ones too."""
        with suppress(ChildProcessError):
            while (reaped := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = reaped
                if pid == self.pid or not self.pid:
                    self._status[pid] = status
        if self.pid in self._status and not self.ended and not (self._signalled and self._group_lives()):
            self._end()


class ForeignProcess(Guarded):
    """A process that another one starts and stops. The guard sees its end, but not its exit code."""

    def __init__(self, pid: int) -> None:
        super().__init__()
        self.pid = pid
        try:
            self._descriptor = os.pidfd_open(pid)
        except OSError as error:
            raise CommandError(f"The process {pid} cannot be watched ({error.strerror}); check --pid.", 2) from None

    def attach(self, loop: "AbstractEventLoop") -> None:
        super().attach(loop)

        def gone() -> None:
            loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._end()

        loop.add_reader(self._descriptor, gone)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._on_sigterm())

    def wait(self) -> None:
        while not self.ended:
            if self.stopping or select.select([self._descriptor], [], [], WAIT_S)[0]:
                self._end()


def wait_for_pid(file: Path, wait_s: float) -> int:
    """Waits until the file names a live process that already lived when the file was written, and returns its process
    id.

    Until the next start the file may hold an old process id, which another program may have by now. Raises
    CommandError.
    """
    deadline = time.monotonic() + wait_s
    while True:
        pid, why_not = _named_in(file)
        if not why_not:
            return pid
        if time.monotonic() >= deadline:
            why_not = why_not.format(wait=f"for {wait_s:.0f} s")
            raise CommandError(f"{file} {why_not}; check --pid-file.", 2)
        time.sleep(WAIT_S)


def _named_in(file: Path) -> tuple[int, str]:
    """Returns the process id in the file, and why it cannot be the process meant ("" if it can)."""
    nobody = "has named no process {wait}"
    try:
        text, written_at = read_small(file, PID_BYTES_MAX)
        pid = int(text.decode("ascii"))
    except FileNotFoundError:
        return 0, nobody
    except OSError as error:
        return 0, f"cannot be read ({error.strerror})"
    except ValueError:
        return 0, nobody
    began = began_at(pid) if pid > 0 and lives(pid) else None
    if began is None:
        return 0, nobody
    if descends(os.getpid(), pid):
        return 0, f"names the process {pid}, which is the guard itself or has started it"
    if began > written_at + CLOCK_S:
        return (
            0,
            f"names the process {pid}, which began after the file was written: the number is another program's now",
        )
    return pid, ""


def _environment() -> dict[str, str]:
    """Returns the command's environment: without Bellwether's settings and credentials."""
    return {name: value for name, value in os.environ.items() if not name.startswith(OWN_VARIABLES)}


def _forwarded() -> list[int]:
    return [number for number in signal.valid_signals() if number not in OWN_SIGNALS]


def _adopt_orphans() -> None:
    """Makes the guard adopt the orphans of its child. As PID 1 it gets them anyway."""
    prctl: Callable[..., int] = ctypes.CDLL(None, use_errno=True).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
