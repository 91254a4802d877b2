"""Runs the real `bellwether run` as a process, and finds out from the broker, not from it, whether it leads."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import wait_until
from tests.interop.support.raw import RawError, describe
from tests.kit.commands import check_answer
from tests.paths import ROOT
from tests.patience import PATIENCE
from tests.watched_process import CONSTANTS, MARK

COMMAND = (sys.executable, "-m", "bellwether_kafka")
WATCHED = (sys.executable, "-m", "tests.watched_process")
STOP_TIMEOUT_S = 30.0
INSTANCE = "bellwether"
# Constants of a membership, which no user can set: `options` may have them all the same (`tests.watched_process`).
HIDDEN = ("hold_ms_max", "takeover_attempts_max", "takeovers_in_vain_max")


@dataclass(frozen=True, slots=True)
class Ended:
    """A run that ended by itself: exit code and everything it wrote."""

    code: int
    stdout: str
    stderr: str

    @property
    def text(self) -> str:
        return self.stdout + self.stderr


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment without settings that the caller may have made for a Bellwether of their own."""
    return {k: v for k, v in os.environ.items() if not k.startswith("BELLWETHER_")} | dict(extra or {})


def run_to_end(
    arguments: Sequence[str], *, environment: Mapping[str, str] | None = None, limit_s: float = 180.0
) -> Ended:
    """Runs `bellwether` with these arguments and expects it to end. Raises subprocess.TimeoutExpired if it does not
    within `limit_s` or more, and AssertionError if it prints JSON that differs from its schema."""
    done = subprocess.run(
        [*COMMAND, *arguments],
        cwd=ROOT,
        env=clean_environment(environment),
        capture_output=True,
        text=True,
        timeout=limit_s * PATIENCE,
        check=False,
    )
    check_answer(arguments, done.stdout)
    return Ended(done.returncode, done.stdout, done.stderr)


def ordered(cluster: KafkaCluster, topic: str, *arguments: str) -> Ended:
    """An operator's order by way of this control topic, which must succeed."""
    ended = run_to_end([*arguments, "--bootstrap", cluster.bootstrap, "--topic", topic])
    assert ended.code == 0, ended.text
    return ended


def toml(kafka: Mapping[str, str], groups: Sequence[Mapping[str, Any]], **settings: Any) -> str:
    """A configuration file. JSON's strings, numbers, booleans and lists are TOML's too. `settings` that are mappings
    are tables."""
    tables = {"kafka": kafka} | {key: value for key, value in settings.items() if isinstance(value, Mapping)}
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items() if key not in tables]
    for name, table in tables.items():
        lines += [f"[{name}]", *(f"{json.dumps(key)} = {json.dumps(value)}" for key, value in table.items())]
    for group in groups:
        lines += ["[[groups]]", *(f"{key} = {json.dumps(value)}" for key, value in group.items())]
    return "\n".join(lines) + "\n"


class Bellwether:
    """One process that leads these groups; a context manager. `settings` are top-level, `options` for each group, `own`
    for single ones by name; `beside` are entries that name none. `login` are Kafka properties instead of the cluster's
    for `user`."""

    def __init__(
        self,
        cluster: KafkaCluster,
        groups: Sequence[str],
        *,
        options: Mapping[str, Any] | None = None,
        user: str = "admin",
        command: Sequence[str] = WATCHED,
        login: Mapping[str, str] | None = None,
        own: Mapping[str, Mapping[str, Any]] | None = None,
        beside: Sequence[Mapping[str, Any]] = (),
        **settings: Any,
    ) -> None:
        self._cluster = cluster
        self._command = tuple(command)
        self._groups = tuple(groups)
        config = dict(login) if login is not None else cluster.client_config(user, user)
        config.pop("log_level", None)
        top = {"instance_id": INSTANCE, "http_address": "", **settings}
        constants = {name: value for name, value in (options or {}).items() if name in HIDDEN}
        self._constants = json.dumps({"metadata_interval_ms": 1_000, **constants})
        options = {name: value for name, value in (options or {}).items() if name not in HIDDEN}
        reported = [{"name": name, "mode": "lead", **options, **(own or {}).get(name, {})} for name in groups]
        subscribing = [{"subscribes": True, **answer} if answer["mode"] == "lead" else answer for answer in reported]
        self._config = toml(config, [*subscribing, *beside], **top)
        self._directory = tempfile.TemporaryDirectory(prefix="bellwether-run-")
        self._lines: list[str] = []
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._directory.cleanup()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, *, wait: bool = True) -> None:
        """Starts the process and waits until it is a member of every group."""
        path = Path(self._directory.name) / "bellwether.toml"
        path.write_text(self._config)
        self._process = subprocess.Popen(
            [*self._command, "run", "--config", str(path)],
            cwd=ROOT,
            env=clean_environment({"BELLWETHER_LOG_FORMAT": "json", CONSTANTS: self._constants}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()
        if wait:
            for group in self._groups:
                wait_until(lambda group=group: self.is_member(group), 60, self.tail)  # type: ignore[misc]  # default

    def is_member(self, group: str) -> bool:
        assert self.running, f"bellwether ended:\n{self.tail()}"
        if self._cluster.users is None:
            # librdkafka may abort the whole process when the connection of its request drops (its issue 4605).
            try:
                return any(m.instance_id == INSTANCE for m in describe(self._cluster.bootstrap, group).members)
            except (RawError, OSError):
                return False
        described = self._cluster.admin.describe_consumer_groups([group])[group].result(timeout=10)
        return any(member.group_instance_id == INSTANCE for member in described.members)

    def wait_for_end(self, limit_s: float) -> int:
        """Until it has ended by itself; its exit code. Raises AssertionError."""
        wait_until(lambda: not self.running, limit_s, self.tail)
        return self._end(signal.SIGKILL)

    def terminate(self) -> None:
        """SIGTERM without waiting."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def log(self, event: str | None = None, **fields: object) -> list[dict[str, Any]]:
        """Its JSON log lines with this event and these fields, oldest first."""
        entries = []
        for line in list(self._lines):
            try:
                entry = json.loads(line)
            except json.JSONDecodeError:
                continue
            if event in (None, entry.get("event")) and all(entry.get(k) == v for k, v in fields.items()):
                entries.append(entry)
        return entries

    def logged(self, event: str, limit_s: float = 30.0, **fields: object) -> list[dict[str, Any]]:
        """The same, but at least one: what brokers and members show may come before its line."""
        wait_until(lambda: bool(self.log(event, **fields)), limit_s, self.tail)
        return self.log(event, **fields)

    def wait_for_words(self, words: str, limit_s: float = 30.0) -> None:
        """Waits until these words stand in what it wrote. Raises AssertionError."""
        wait_until(lambda: words in self.text(), limit_s, self.tail)

    def tail(self, lines: int = 40) -> str:
        return "\n".join(self._lines[-lines:])

    def log_of(self, group: str, lines: int = 15) -> str:
        """The end of what it logged about a group, for a failure report."""
        return "\n".join(json.dumps(entry) for entry in self.log(group=group)[-lines:])

    def text(self) -> str:
        return "\n".join(self._lines)

    def _end(self, how: signal.Signals) -> int:
        process = self._process
        if process is None:
            return 0
        process.send_signal(how)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_TIMEOUT_S)
        if self._reader is not None:
            self._reader.join(STOP_TIMEOUT_S)
        if process.stdout is not None:
            process.stdout.close()
        self._process = None
        blocking = [line for line in self._lines if line.startswith(MARK)]
        assert not blocking, "\n".join(blocking)
        return process.returncode

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._lines.append(line.rstrip())


def resident_mb(pid: int, *, most: bool = False) -> float:
    """Resident memory of a process in MiB, now or the most that it has had (Linux)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:" if most else "VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} is gone")


def cpu_s(pid: int) -> float:
    """CPU seconds that a process has used (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
