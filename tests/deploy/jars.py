"""Jars built as a user builds them."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import missing_tool
from tests.interop.support.jvm import CACHE, MissingToolError, file_lock, tool


@contextmanager
def packaged(config: pytest.Config, folder: Path) -> Iterator[Path]:
    """The folder in which `mvn package` leaves the jars of this project."""
    try:
        maven = tool("mvn")
        tool("javac")
    except MissingToolError as missing:
        missing_tool(config, str(missing))
    command = [maven, "-q", "-B", "-f", str(folder), f"-Dmaven.repo.local={CACHE / 'maven'}", "package"]
    with file_lock(folder / "target" / ".lock"):
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=500)
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
        yield folder / "target"
