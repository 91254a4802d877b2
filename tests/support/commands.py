"""The command `bellwether` in this process: starting one takes a second, what the command does takes none."""

import io
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from unittest import mock

from bellwether_kafka.coordinator.cli import main
from tests.support.documented import check_answer

# kafka-python cannot read what they answer to ApiVersions.
VERSION_OF_EMBEDDED_BROKERS = {"BELLWETHER_KAFKA_BELLWETHER_API_VERSION": "2.3"}


def bellwether(
    *arguments: str, text: str = "", version: Mapping[str, str] = VERSION_OF_EMBEDDED_BROKERS, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Returns how the command ends, and what it prints, which agrees with the published schema if it is JSON. An error
    that it does not expect goes through to the test."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BELLWETHER_")}
    clean = kept | dict(version) | environ
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
    check_answer(arguments, printed.getvalue())
    return subprocess.CompletedProcess(arguments, code, printed.getvalue(), complained.getvalue())


on_real_brokers = partial(bellwether, version={})  # which answer requests of any version
