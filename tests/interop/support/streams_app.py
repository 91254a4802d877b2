"""Drives a real Kafka Streams application, one JVM per instance, and knows from its reports alone who runs what.

Each instance keeps a state directory of its own, so that a restart finds its state. Nothing here asks the leader: the
tasks, the generations and the restored records are what the instances print (see StreamsMain).
"""

import json
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.jvm import java
from tests.interop.support.members import wait_until
from tests.interop.support.streams_application import (
    OPTIONS,
    START_TIMEOUT_S,
    Application,
    _pairs,
)
from tests.interop.support.streams_load import Totals
from tests.interop.support.streams_timeline import Happening, Timeline
from tests.paths import ROOT
from tests.patience import PATIENCE

NEW, RUNNING = "NEW", "RUNNING"


DEFAULT_CLIENT_ID = {"client.id": ""}  # for settings: Kafka Streams makes it from the process id, not from the name


STOP_TIMEOUT_S = 40.0


QUIET_S = 2.0


class Instance:
    """One instance over all its lives: what it was sent, what it reported, what it runs now."""

    def __init__(self, name: str, rack: str | None, home: Path) -> None:
        self.name = name
        self.rack = rack
        self.home = home
        self.happenings: list[Happening] = []
        self.standbys: frozenset[str] = frozenset()
        # Records that a changelog partition is behind here, by its standby or warm-up; as of the last batch read.
        self.lags: dict[tuple[str, int], int] = {}
        self.topology = ""
        self.version = ""
        self.launcher: tuple[str, ...] = ()  # words in front of its command
        self._state = NEW
        self._running: set[str] = set()
        self._dumps: list[Mapping[str, Any]] = []
        self._changed_at = time.monotonic()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._stderr: IO[bytes] | None = None

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def state(self) -> str:
        """The state of KafkaStreams, NEW before it said any."""
        return self._state

    @property
    def running(self) -> frozenset[str]:
        """The active tasks that are restored and initialized here."""
        with self._lock:
            return frozenset(self._running)

    @property
    def quiet_s(self) -> float:
        """Seconds since a task, a partition or the state last changed."""
        return time.monotonic() - self._changed_at

    @property
    def errors(self) -> list[str]:
        return [h.message["text"] for h in list(self.happenings) if h.event == "error"]

    def process_id(self, application_id: str) -> str:
        """The id of its process in the group, which its state directory keeps."""
        file = self.home / "state" / application_id / "kafka-streams-process-metadata"
        return str(json.loads(file.read_text())["processId"])

    def launch(self, command: Sequence[str]) -> None:
        assert not self.alive
        temporary = self.home / "tmp"
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        self._state = NEW
        self._stderr = (self.home / "stderr.log").open("ab")
        self._received({"event": "launched", "t_ms": _now_ms()})
        self._process = subprocess.Popen(
            [*self.launcher, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
            cwd=ROOT,
        )
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()

    def stop(self) -> int:
        """Closes it the orderly way (it does not leave the group: Streams' default); returns the exit code."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        return self._finish()

    def kill(self) -> None:
        """SIGKILL."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self.gone()
        self._finish()

    def gone(self) -> None:
        """Its process has ended, whatever its launcher still does."""
        self._received({"event": "killed", "t_ms": _now_ms()})

    def dump(self, limit_s: float = 20.0) -> Mapping[str, Any] | None:
        """What its active stores hold, see StreamsMain; None when a task moved meanwhile."""
        before = len(self._dumps)
        self.send("dump")
        wait_until(lambda: len(self._dumps) > before or not self.alive, limit_s, lambda: f"{self.name} dumps nothing")
        message = self._dumps[-1] if len(self._dumps) > before else {"event": "dump-failed"}
        return message if message["event"] == "dump" else None

    def send(self, line: str) -> None:
        """A line on its standard input, see StreamsMain."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def complaints(self, size: int = 100_000) -> str:
        log = self.home / "stderr.log"
        return log.read_bytes()[-size:].decode(errors="replace") if log.exists() else ""

    def _finish(self) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_TIMEOUT_S)
        if self._reader is not None:
            self._reader.join(STOP_TIMEOUT_S)
        for stream in (process.stdin, process.stdout, self._stderr):
            if stream is not None:
                stream.close()
        self._received({"event": "ended", "t_ms": _now_ms(), "code": process.returncode})
        return process.returncode

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            try:
                message = json.loads(line)
            except json.JSONDecodeError:
                continue  # the half line of a killed process
            self._received(message)

    def _received(self, message: dict[str, Any]) -> None:
        event = message["event"]
        with self._lock:
            if event in ("dump", "dump-failed"):
                self._dumps.append(message)
                return
            self.happenings.append(Happening(message["t_ms"], self.name, event, message))
            if event == "running":
                self._running.add(message["task"])
            elif event == "suspended":
                self._running.discard(message["task"])
            elif event in ("killed", "ended"):
                self._running.clear()
                self.standbys = frozenset()
                self.lags.clear()
                self._state = "DEAD"
            elif event == "state":
                self._state = message["state"]
            elif event == "tasks":
                self.standbys = frozenset(message["standby"])
            elif event == "standby":
                self.lags[message["topic"], message["partition"]] = max(0, message["lag"])
            elif event == "standby-end":
                self.lags.pop((message["topic"], message["partition"]), None)
            elif event == "topology":
                self.topology, self.version = message["text"], message["version"]
            if event not in ("processed", "standby"):
                self._changed_at = time.monotonic()


class StreamsApp:
    """The instances of one application on one cluster; a context manager that ends what it started."""

    def __init__(self, cluster: KafkaCluster, application: Application) -> None:
        self.cluster = cluster
        self.application = application
        self.instances: dict[str, Instance] = {}
        self._directory = tempfile.TemporaryDirectory(prefix="bellwether-streams-", ignore_cleanup_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        closers = [threading.Thread(target=instance.stop) for instance in self.instances.values()]
        for closer in closers:
            closer.start()
        for closer in closers:
            closer.join()
        self._directory.cleanup()

    @property
    def live(self) -> list[Instance]:
        return [instance for instance in self.instances.values() if instance.alive]

    def add(
        self,
        name: str,
        rack: str | None = None,
        settings: Mapping[str, str] | None = None,
        launcher: Callable[[Path], Sequence[str]] = lambda _state_dir: (),
    ) -> Instance:
        """Makes an instance and starts it. `settings` are Streams settings for this instance alone, `launcher` has the
        words in front of its command, by its state directory."""
        instance = Instance(name, rack, Path(self._directory.name) / name)
        instance.launcher = tuple(launcher(instance.home / "state"))
        self.instances[name] = instance
        self.start(name, settings=settings)
        return instance

    def start(
        self, name: str, application: Application | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        """Starts a stopped or killed instance on its old state, as another version of the application if given."""
        instance = self.instances[name]
        application = application or self.application
        arguments = application.arguments(self.cluster.bootstrap, instance.home / "state")
        # The same for all its lives: Java asks for a rebalance of its own where an endpoint is not the one the group
        # knows.
        arguments["application.server"] = f"{name}.example:{8001 + list(self.instances).index(name)}"
        arguments["client.id"] = name
        if instance.rack is not None:
            arguments["consumer.client.rack"] = instance.rack
        arguments |= settings or {}
        options = (*OPTIONS, f"-Djava.io.tmpdir={instance.home / 'tmp'}")
        pairs = _pairs(arguments)
        instance.launch(java(application.release).command("bellwether.StreamsMain", *pairs, options=options))

    def owners(self) -> dict[str, str]:
        """The instance on which each task runs, as the instances report it. Raises AssertionError on two owners."""
        owners: dict[str, str] = {}
        for instance in self.live:
            for task in instance.running:
                assert task not in owners, f"{task} runs on {owners[task]} and on {instance.name}"
                owners[task] = instance.name
        return owners

    def wait_started(self, name: str) -> None:
        """Until the newest process of an instance has started Streams. A busy machine takes long to get so far."""
        wait_until(lambda: self.instances[name].state != NEW, START_TIMEOUT_S, self.send)

    def wait_running(self, *names: str, limit_s: float = START_TIMEOUT_S) -> None:
        """Until these instances (all live ones if none is named) are RUNNING."""
        chosen = [self.instances[name] for name in names] or self.live

        def running() -> bool:
            self._refuse_dead(chosen)
            return all(instance.state == RUNNING for instance in chosen)

        wait_until(running, limit_s, self.send)

    def wait_settled(
        self, *, spread: int | None = None, limit_s: float = START_TIMEOUT_S, quiet_s: float = QUIET_S
    ) -> dict[str, str]:
        """Until every task runs once and nothing changed for `quiet_s`; returns the owners.

        With `spread`, also until tasks and stateful tasks per thread differ by at most so much between instances.
        """

        def settled() -> bool:
            live = self.live
            self._refuse_dead(live)
            if any(instance.quiet_s < quiet_s or instance.state != RUNNING for instance in live):
                return False
            return self.complete() and (spread is None or self.spread() <= spread)

        wait_until(settled, limit_s, self.send)
        return self.owners()

    def wait_shared(self, *, limit_s: float = START_TIMEOUT_S) -> None:
        """Until every live instance runs a task and nothing changes: one that starts late may have none at first."""
        wait_until(lambda: all(instance.running for instance in self.live), limit_s, self.send)
        self.wait_settled(limit_s=limit_s)

    def complete(self) -> bool:
        """Whether every task runs on exactly one instance at this moment."""
        running = [task for instance in self.live for task in instance.running]
        return len(running) == len(self.application.tasks) and frozenset(running) == self.application.tasks

    def spread(self) -> int:
        """The largest difference between two live instances in running tasks, or in running stateful tasks."""
        stateful = {str(subtopology) for subtopology in self.application.changelogs}
        running = [instance.running for instance in self.live]
        all_counts = [len(tasks) for tasks in running]
        stateful_counts = [sum(task.split("_")[0] in stateful for task in tasks) for tasks in running]
        return max(max(counts) - min(counts) for counts in (all_counts, stateful_counts))

    def timeline(self) -> Timeline:
        """Everything that all instances said, in order of time."""
        return Timeline(tuple(h for instance in self.instances.values() for h in list(instance.happenings)))

    def totals(self) -> Totals | None:
        """What all active stores hold together; None while tasks move."""
        dumps = [instance.dump() for instance in self.live]
        return None if None in dumps or not self.complete() else Totals.of(d for d in dumps if d is not None)

    def wait_counted(self, expected: Totals, *, exactly_once: bool = True, limit_s: float = 60.0) -> Totals:
        """Until the stores hold what they must; AssertionError says what they hold instead."""
        deadline = time.monotonic() + limit_s * PATIENCE
        while True:
            totals = self.totals()
            complaint = "tasks keep moving"
            if totals is not None:
                complaint = totals.complaint(expected, exactly_once=exactly_once) or ""
                if not complaint:
                    return totals
            assert time.monotonic() < deadline, f"{complaint}\n{self.send()}"
            time.sleep(0.5)

    def send(self) -> str:
        """The state of everything, for a failure report."""
        lines = []
        for instance in self.instances.values():
            running = sorted(instance.running)
            lines.append(f"{instance.name} ({instance.rack}): {instance.state}, runs {running} {instance.errors[-2:]}")
            if instance.errors or not instance.alive:
                lines.append(instance.complaints(size=2000))
        return "\n".join(lines)

    def _refuse_dead(self, instances: Sequence[Instance]) -> None:
        for instance in instances:
            assert instance.alive, f"{instance.name} is dead\n{self.send()}"


def _now_ms() -> int:
    return int(time.time() * 1000)
