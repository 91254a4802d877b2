"""Calls the jar's assignors as a broker does, and runs what they ask, without a broker."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from bellwether_kafka.coordinator.serving import Answers, AssignorServer, KnownGroups, TopicNames
from tests.interop.support.jvm import BROKER_44, CURRENT, Release, java
from tests.interop.support.members import wait_until
from tests.paths import ROOT

STARTED = "listens"
RACK_FIRST = "bellwether.broker.RackFirstAssignor"
SIZE_SMALL, SIZE_LARGE = (6, 60), (100, 1_000)

Answer = Callable[[bytes], tuple[bytes, Callable[[bool], None]]]


@dataclass(frozen=True, slots=True)
class Called:
    """What came of some calls. Times are of `assign`. `owners`, after a single call: of each partition."""

    calls: int
    served: int
    faults: int
    fault: str
    moved_by_fallback: int
    crossing: int
    p50_micros: int
    p99_micros: int
    worst_micros: int
    reason: str
    owners: Sequence[str] = ()


class Harness:
    """One JVM with one assignor; a context manager. `racks` are those of brokers and of members."""

    def __init__(
        self,
        address: str,
        *,
        deadline_ms: int = 20,
        assignor: str = RACK_FIRST,
        release: Release = CURRENT,
        racks: Sequence[str] = ("az1", "az2", "az3"),
    ) -> None:
        properties = (f"bellwether.assignor.address={address}", f"bellwether.assignor.deadline.ms={deadline_ms}")
        self._start(release, "bellwether.AssignorMain", assignor, *properties, f"racks={','.join(racks)}")

    def _start(self, release: Release, *arguments: str) -> None:
        command = java(release).command(*arguments, options=("-Xmx256m",))
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._log: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        assert "ready" in self._line(), self.log
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait(20)
        self._reader.join(20)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()

    @property
    def log(self) -> str:
        return "\n".join(self._log)

    def call(self, size: tuple[int, int], calls: int) -> Called:
        """`size` is members and partitions. Before each call a member leaves or joins."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{size[0]} {size[1]} {calls}\n")
        self._process.stdin.flush()
        return Called(**json.loads(self._line()))

    def until_served(self, size: tuple[int, int], limit_s: float = 60.0) -> None:
        """A plan comes from Bellwether."""
        wait_until(lambda: self.call(size, 2).served == 2, limit_s, lambda: self.log)

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._log.append(line.rstrip())


class TaskHarness(Harness):
    """One JVM with the assignor of tasks. A size is processes of two threads each, and tasks, half of them with state.
    `crossing` counts standbys in the rack of their active task."""

    def __init__(self, address: str, *, deadline_ms: int = 200) -> None:
        properties = (f"bellwether.assignor.address={address}", f"bellwether.assignor.tasks.deadline.ms={deadline_ms}")
        self._start(BROKER_44, "bellwether.TaskAssignorMain", *properties)


def answers() -> Answers:
    """What a Bellwether answers that observes no group."""
    return Answers(KnownGroups(), TopicNames(), lambda _: None, lambda _: None)


class ChangedAnswers:
    """Right answers, which `change` changes before they are sent."""

    def __init__(self) -> None:
        self._right = answers()
        self.change: Callable[[bytes], bytes] = bytes

    def answer(self, data: bytes) -> tuple[bytes, Callable[[bool], None]]:
        sent, done = self._right.answer(data)
        return self.change(sent), done


@contextmanager
def serving(address: str, answer: Answer | None = None) -> Iterator[str]:
    """A server in this process; its address."""
    server = AssignorServer(address, answer or answers().answer)
    try:
        yield server.start()
    finally:
        server.stop()


@contextmanager
def served_apart(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A server in a process of its own on a Unix socket, which may be stopped and killed."""
    command: Sequence[str] = (sys.executable, "-m", "tests.interop.support.assignors.assignor", f"unix:{path}")
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert STARTED in process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.wait(20)
        for stream in (process.stdout, process.stdin):
            assert stream is not None
            stream.close()


if __name__ == "__main__":
    AssignorServer(sys.argv[1], answers().answer).start()
    print(STARTED, flush=True)
    sys.stdin.read()  # until the parent has ended
