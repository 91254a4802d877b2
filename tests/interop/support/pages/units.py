"""Instances as units of a service manager, for pages that restart them."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

UNIT = "while :; do ./orders --client-id {name} & echo $! > {name}.pid; wait $!; done"


# In place of systemd's: it returns when the instance of a unit has ended and started again.
SYSTEMCTL = """#!/bin/sh
name=${2#app@}
before=$(cat "$name.pid")
kill "$before"
until [ "$(cat "$name.pid")" != "$before" ]; do sleep 0.1; done
"""


@contextmanager
def running_units(folder: Path, *names: str) -> Iterator[None]:
    """Instances that start again when they end, as under systemd."""
    units = [subprocess.Popen(["sh", "-c", UNIT.format(name=name)], cwd=folder) for name in names]
    try:
        yield
    finally:
        for unit in units:
            unit.kill()
            unit.wait()
        for name in names:
            os.kill(int((folder / f"{name}.pid").read_text()), signal.SIGTERM)
