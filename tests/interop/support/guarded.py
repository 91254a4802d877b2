"""A command under `bellwether guard` on a real cluster: the guard, its child, and what the guard said."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.interop.support.bellwether import clean_environment
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import wait_until
from tests.paths import ROOT

CONSUMER = """
import json, sys, confluent_kafka
properties, group, topic, client_id, session_ms, heartbeat_ms, protocol = sys.argv[1:]
classic = {"session.timeout.ms": int(session_ms), "heartbeat.interval.ms": int(heartbeat_ms),
    "partition.assignment.strategy": "range"}
consumer = confluent_kafka.Consumer({**json.loads(properties), "group.id": group, "client.id": client_id,
    "log_level": 0, "group.protocol": protocol, **(classic if protocol == "classic" else {})})
consumer.subscribe([topic])
while True:
    consumer.poll(0.1)
"""


def guard_command(cluster: KafkaCluster, group: str, *options: str) -> list[str]:
    """The words in front of the command."""
    where = ["--group", group, "--bootstrap", cluster.bootstrap]
    return [sys.executable, "-m", "bellwether_kafka", "guard", *where, *options, "--"]


def children(pid: int) -> list[int]:
    """The child processes of a process; [] once it has ended."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def child_of(pid: int, what: Callable[[], str]) -> int:
    """The child of a guard, once it has one. AssertionError with `what` says why there is none."""
    pids: list[int] = []

    def started() -> bool:
        pids[:] = children(pid)
        return bool(pids)

    wait_until(started, 30, what)
    return pids[0]


class Guarded:
    """A guard with its command, if it has one; a context manager that ends both."""

    def __init__(self, guard: Sequence[str], command: Sequence[str] = ()) -> None:
        self._log = tempfile.NamedTemporaryFile(mode="r")  # noqa: SIM115 - closed with the process
        with Path(self._log.name).open("w") as log:
            self.process = subprocess.Popen([*guard, *command], stderr=log, cwd=ROOT, env=clean_environment())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pid in (*children(self.process.pid), self.process.pid):
            if self.process.poll() is None:
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self._log.close()

    @property
    def child(self) -> int:
        return child_of(self.process.pid, self.message)

    def message(self) -> str:
        return Path(self._log.name).read_text()
