"""The command `bellwether` in this process: starting one takes a second, what the command does takes none."""

import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from unittest import mock

from bellwether_kafka.coordinator.cli import main


def bellwether(*arguments: str, text: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    """How the command ends, and what it prints; an error that it does not expect goes through to the test."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("BELLWETHER_")} | environ
    code: object = 0
    printed, complained = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, clean, clear=True),
        mock.patch.object(sys, "argv", ["bellwether", *arguments]),
        mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode()))),
        redirect_stdout(printed),
        redirect_stderr(complained),
    ):
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
    assert isinstance(code, int), code
    return subprocess.CompletedProcess(arguments, code, printed.getvalue(), complained.getvalue())
