"""`python -m tests.measure.pauses.rolled` prints the transcript of a `bellwether roll` on a live application: three
instances of which each has a standby elsewhere, under load, led by Bellwether with streams-ha.
"""

import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from bellwether_kafka.coordinator.guard.state_directory import StateDirectory
from tests.interop.support.bellwether import COMMAND, clean_environment, toml
from tests.interop.support.members import wait_until
from tests.interop.support.streams_led import settings_of
from tests.measure.pauses.faults.scene import LIMIT_S, NAMES, Scene, Setting, brokers, now_ms, scene
from tests.paths import ROOT

GROUP = "wordcount"
SESSION_MS = 20_000
ROLL_LIMIT_S = 900
RESTART_ONE = """#!/bin/sh
echo "$1" > {folder}/asked
timeout 120 cat {folder}/answered
"""
END = "end"


class Supervisor:
    """Carries out what `restart-one PROCESS-ID` asks for: stops an instance in order and starts it again."""

    def __init__(self, found: Scene, folder: Path) -> None:
        self._scene, self._asked, self._answered = found, folder / "asked", folder / "answered"
        for pipe in (self._asked, self._answered):
            os.mkfifo(pipe)
        command = folder / "restart-one"
        command.write_text(RESTART_ONE.format(folder=folder))
        command.chmod(command.stat().st_mode | stat.S_IXUSR)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._asked.write_text(END)
        self._thread.join(LIMIT_S)

    def _serve(self) -> None:
        while (asked := self._asked.read_text().strip()) != END:
            name = next((one for one in NAMES if self._process_id(one) == asked), None)
            if name is None:
                self._answered.write_text(f"no instance has the process id {asked}\n")
                continue
            began = time.monotonic()
            self._scene.instance(name).stop()
            self._scene.start(name)
            self._scene.until_joining(name)
            self._answered.write_text(f"{name} restarted in {time.monotonic() - began:.1f} s\n")

    def _process_id(self, name: str) -> str | None:
        return StateDirectory(self._scene.instance(name).home / "state" / self._scene.group).process_id()


@contextmanager
def supervised(found: Scene, folder: Path) -> Iterator[None]:
    supervisor = Supervisor(found, folder)
    try:
        yield
    finally:
        supervisor.end()


def roll(found: Scene, folder: Path) -> int:
    """Prints the command and what it says; returns its exit code."""
    config = folder / "bellwether.toml"
    options = settings_of(found.app.application, folder, policy="streams-ha", stores="persistent")
    login = {"bootstrap.servers": found.cluster.bootstrap}
    config.write_text(toml(login, [{"name": found.group, "mode": "lead", **options}], control_topic=found.topic))
    words = ["roll", found.group, "--exec", "restart-one {member}"]
    print(f"$ bellwether roll {found.group} --exec 'restart-one {{member}}'", flush=True)
    path = {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "BELLWETHER_CONFIG": str(config)}
    process = subprocess.run(
        [*COMMAND, *words],
        cwd=ROOT,
        env=clean_environment(path),
        stdin=subprocess.DEVNULL,
        stdout=sys.stdout,
        stderr=subprocess.STDOUT,
        timeout=ROLL_LIMIT_S,
        check=False,
    )
    return process.returncode


def main() -> int:
    with (
        brokers() as cluster,
        scene(cluster, GROUP, Setting(guarded=False, session_ms=SESSION_MS)) as found,
        TemporaryDirectory(prefix="bellwether-roll-") as directory,
    ):
        wait_until(lambda: found.led_by() == "Bellwether", LIMIT_S, found.send)
        began_ms = now_ms()
        with supervised(found, Path(directory)):
            code = roll(found, Path(directory))
        found.app.wait_settled(limit_s=LIMIT_S)
        line, tasks = found.app.timeline(), found.app.application.tasks
        pauses = [
            end - begin for each in line.pauses(tasks, began_ms, now_ms() - 1_000).values() for begin, end in each
        ]
        print(f"exit code {code}; the longest pause of a task was {max(pauses, default=0) / 1000:.1f} s", end="; ")
        found.load.stop()
        found.app.wait_counted(found.load.expected, limit_s=LIMIT_S)
        wait_until(lambda: not found.orders(), LIMIT_S, found.send)
        print(f"every record was counted once; load average {os.getloadavg()[0]:.0f}")
        return code


if __name__ == "__main__":
    sys.exit(main())
