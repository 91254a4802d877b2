"""The arguments of `bellwether guard`, and its run.

They are parsed with argparse, because typer and pydantic, which all other commands use, would take most of a guard's
memory and start-up time. `--help` still comes from typer (`coordinator/cli/processes.py`).
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from bellwether_kafka.coordinator.guard.guard_options import GRACE_S, GRACE_S_MAX, GuardOptions
from bellwether_kafka.coordinator.guard.guarded import CommandError, wait_for_pid
from bellwether_kafka.coordinator.guard.run import echo, guard_child, guard_process
from bellwether_kafka.coordinator.guard.settings import GuardSettingsError, broker_settings

BAD_INPUT = 2
PID_FILE_WAIT_S = 60.0
CONFIG_VARIABLE = "BELLWETHER_CONFIG"


class ArgumentError(Exception):
    """The arguments are wrong; the message is a sentence."""


@dataclass(frozen=True, slots=True)
class GuardArguments:
    """The arguments of the command line. Each field has the name of its option."""

    group: str
    command: tuple[str, ...] = ()
    pid: int | None = None
    pid_file: Path | None = None
    state_dir: Path | None = None
    client_id: tuple[str, ...] = ()
    grace: float = GRACE_S
    fence: bool = True
    bootstrap: str | None = None
    config: Path | None = None
    topic: str | None = None

    def check(self) -> None:
        """Raises ArgumentError if the platform is not Linux or the arguments do not fit together."""
        if sys.platform != "linux":
            raise ArgumentError("bellwether guard needs Linux.")
        if not self.group:
            raise ArgumentError("Name the group by --group.")
        if [bool(self.command), self.pid is not None, self.pid_file is not None].count(True) != 1:
            raise ArgumentError("Name the command to run, behind --, or a process by --pid or --pid-file.")
        if self.state_dir is None and not self.client_id:
            raise ArgumentError(
                "Name --state-dir (Kafka Streams with persistent stores), or a --client-id that only this process has."
            )
        if not 0 <= self.grace <= GRACE_S_MAX:
            raise ArgumentError(f"--grace is a number of seconds up to {GRACE_S_MAX:g}, 0 for none.")


def guard(arguments: Sequence[str]) -> int:
    """Runs `bellwether guard` with these arguments and returns the exit code."""
    try:
        return run_guard(parsed(arguments))
    except ArgumentError as error:
        echo(str(error))
        return BAD_INPUT


def run_guard(given: GuardArguments, environ: Mapping[str, str] = os.environ) -> int:
    """Guards the process until it has ended and returns the exit code."""
    try:
        given.check()
        options = _options(given, environ)
        pid = given.pid if given.pid_file is None else wait_for_pid(given.pid_file, PID_FILE_WAIT_S)
        if pid is not None:
            return guard_process(pid, options)
        return guard_child(given.command, options)
    except (ArgumentError, GuardSettingsError) as error:
        echo(str(error))
        return BAD_INPUT
    except CommandError as error:
        echo(str(error))
        return error.exit_code


def parsed(arguments: Sequence[str]) -> GuardArguments:
    """Parses the command line. Raises ArgumentError."""
    own, command = list(arguments), list[str]()
    if "--" in own:
        at = own.index("--")
        own, command = own[:at], own[at + 1 :]
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--group", default="")
    parser.add_argument("--pid", type=int)
    parser.add_argument("--pid-file", type=Path)
    parser.add_argument("--state-dir", type=Path)
    parser.add_argument("--client-id", action="append", default=[])
    parser.add_argument("--grace", type=float, default=GRACE_S)
    parser.add_argument("--fence", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--bootstrap")
    parser.add_argument("--config", type=Path)
    parser.add_argument("--topic")
    options, unknown_options = parser.parse_known_args(own)
    if unknown_options:
        raise ArgumentError(f"'{unknown_options[0]}' is no option of the guard; the command goes behind --.")
    return GuardArguments(**{**vars(options), "client_id": tuple(options.client_id), "command": tuple(command)})


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ArgumentError(f"{message[:1].upper()}{message[1:]}; see 'bellwether guard --help'.")


def _options(given: GuardArguments, environ: Mapping[str, str]) -> GuardOptions:
    named = environ.get(CONFIG_VARIABLE)
    file = given.config or (Path(named) if named else None)
    brokers = broker_settings(file, given.bootstrap, given.topic, environ)
    return GuardOptions(
        group_id=given.group,
        properties=brokers.properties,
        control_topic=brokers.control_topic,
        state_dir=given.state_dir,
        client_ids=given.client_id,
        grace_s=given.grace,
        fence=given.fence,
    )
