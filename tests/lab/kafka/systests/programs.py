"""One program of a scenario as a process: started, stopped and killed by its process id, watched by what it writes."""

import re
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.paths import ROOT

STOP_LIMIT_S = 120.0
LIMIT_S = 60.0  # as Kafka's tests wait for a line; they run on a machine for each process, so Bellwether waits longer
PATIENCE = 3.0


class FailedError(Exception):
    """A scenario did not come out as Kafka's test asks; the text says what was not so."""


@dataclass(slots=True)
class Program:
    """`out` is what it writes to standard output, `log` its log; both go on over restarts."""

    name: str
    command: Sequence[str]
    folder: Path
    deadline: float
    _process: subprocess.Popen[bytes] | None = None
    _marks: dict[str, int] = field(default_factory=dict)

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts it; what it wrote before does not count as seen from now on."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.mark()
        with self._path("out").open("ab") as out, self._path("log").open("ab") as log:
            self._process = subprocess.Popen(self.command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=log)

    def stop(self, *, clean: bool = True) -> None:
        """SIGTERM, or SIGKILL, and its end. Raises FailedError where it does not end."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM if clean else signal.SIGKILL)
        try:
            self._process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise FailedError(f"{self.name} did not end within {STOP_LIMIT_S:.0f} s of SIGTERM") from None

    def kill(self) -> None:
        self.stop(clean=False)

    def mark(self) -> None:
        """What it wrote until now does not count in `wait_for`."""
        self._marks = {kind: self._size(kind) for kind in ("out", "log")}

    def wait_for(self, pattern: str, limit_s: float = LIMIT_S, *, kind: str = "out", times: int = 1) -> None:
        """Until lines since the last mark match, so many. Raises FailedError."""
        seen = re.compile(pattern.encode(), re.MULTILINE)

        def met() -> bool:
            return len(seen.findall(self._since_mark(kind))) >= times

        self.wait(met, limit_s, f"{pattern!r} {times} times in the {kind} of {self.name}")

    def wait(self, met: Callable[[], bool], limit_s: float, what: str) -> None:
        """Until this is so. Raises FailedError, with the end of what it wrote."""
        until = min(time.monotonic() + limit_s * PATIENCE, self.deadline)
        while not met():
            if time.monotonic() > until:
                raise FailedError(f"never saw {what}; the end of its output:\n{self.tail()}")
            time.sleep(0.1)

    def wait_for_end(self, limit_s: float) -> int:
        """Its exit code. Raises FailedError."""
        assert self._process is not None
        self.wait(lambda: not self.running, limit_s, f"the end of {self.name}")
        return self._process.returncode

    def text(self, kind: str = "out") -> str:
        """All that it wrote, over all starts."""
        return self._path(kind).read_text(errors="replace") if self._path(kind).exists() else ""

    def count(self, pattern: str, *, kind: str = "out") -> int:
        return len(re.findall(pattern, self.text(kind), re.MULTILINE))

    def tail(self, lines: int = 12) -> str:
        ends = (self.text(kind).splitlines()[-lines:] for kind in ("out", "log"))
        return "\n".join(line[:300] for end in ends for line in end)

    def _path(self, kind: str) -> Path:
        return self.folder / f"{self.name}.{kind}"

    def _size(self, kind: str) -> int:
        return self._path(kind).stat().st_size if self._path(kind).exists() else 0

    def _since_mark(self, kind: str) -> bytes:
        with self._path(kind).open("rb") as file:
            file.seek(self._marks.get(kind, 0))
            return file.read()
