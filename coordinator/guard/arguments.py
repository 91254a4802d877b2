"""The arguments of `bellwether guard`, what it reads from the file and the variables that all commands
read, and its run.

Arguments are parsed with argparse, because typer and pydantic, which all other commands use, would take most of a
guard's memory and start-up time. `--help` still comes from typer (`coordinator/cli/processes.py`). The process is
started first, and the code that talks to brokers is imported while it runs.
"""

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from bellwether_kafka.bounded import CONFIG_BYTES_MAX, OutsideTextError, read_file, toml_of
from bellwether_kafka.coordinator.guard.guarded import Child, CommandError, ForeignProcess, Guarded, wait_for_pid
from bellwether_kafka.coordinator.names import without_secrets
from bellwether_kafka.coordinator.properties import CONTROL_TOPIC, process_properties

GRACE_S = 15.0
GRACE_S_MAX = 86_400.0
Echo = Callable[[str], None]  # a sentence for the log of the process


@dataclass(frozen=True, slots=True)
class GuardOptions:
    """The options of a guard.

    `group_id`: the application id, for Kafka Streams. `properties`: librdkafka's. `state_dir` (Kafka Streams'
    state.dir) holds the process id that identifies members; otherwise `client_ids` do, which the operator states are
    this process' own. `grace_s`: how long an evacuation may delay the stop, in seconds; 0 for no evacuation. `fence`:
    also end the transactions of a dead process.
    """

    group_id: str
    properties: Mapping[str, str]
    control_topic: str
    state_dir: Path | None = None
    client_ids: tuple[str, ...] = ()
    grace_s: float = GRACE_S
    fence: bool = True


def once(echo: Echo) -> Echo:
    """Returns an echo that drops sentences it has already echoed."""
    shown: set[str] = set()

    def echo_once(sentence: str) -> None:
        if sentence not in shown:
            shown.add(sentence)
            echo(sentence)

    return echo_once


BOOTSTRAP = "bootstrap.servers"
CONTROL_VARIABLE = "BELLWETHER_CONTROL_TOPIC"


class GuardSettingsError(ValueError):
    """A setting is wrong; the message is a sentence with the remedy."""


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """librdkafka's properties, which contain secrets in clear text and must not be logged, and the control topic."""

    properties: Mapping[str, str]
    control_topic: str


def broker_settings(
    file: Path | None, bootstrap: str | None, topic: str | None, environ: Mapping[str, str]
) -> BrokerSettings:
    """Reads the file, the environment and the command line; the last wins. Raises GuardSettingsError."""
    table = _read(file) if file is not None else {}
    given = {BOOTSTRAP: bootstrap} if bootstrap is not None else {}
    try:
        properties = process_properties(table.get("kafka", {}), environ, given)
    except ValueError as error:
        raise GuardSettingsError(f"The setting kafka is wrong: {error}.") from None
    if not properties.get(BOOTSTRAP, "").strip():
        raise GuardSettingsError(
            f"{BOOTSTRAP} is not set; use --bootstrap, or name a file that has it by --config or BELLWETHER_CONFIG."
        )
    named = topic or (environ[CONTROL_VARIABLE] if CONTROL_VARIABLE in environ else table.get("control_topic"))
    return BrokerSettings(properties, str(named or CONTROL_TOPIC))


def _read(file: Path) -> dict[str, object]:
    try:
        return toml_of(read_file(file, CONFIG_BYTES_MAX))
    except OSError as error:
        raise GuardSettingsError(
            f"The configuration file {file} cannot be read ({error.strerror}); check --config."
        ) from None
    except OutsideTextError as error:
        raise GuardSettingsError(f"The configuration file {file} cannot be used: {error}; correct it.") from None


def guard_child(command: Sequence[str], options: GuardOptions) -> int:
    """Runs a command to its end, ends its memberships and returns the command's exit code. Raises CommandError."""
    child = Child(command)
    child.start()
    return _attended(child, options)


def guard_process(pid: int, options: GuardOptions) -> int:
    """Watches a process that the guard did not start, until it has ended. Raises CommandError."""
    return _attended(ForeignProcess(pid), options)


def echo(sentence: str) -> None:
    """Prints a line of the guard's among those of the process."""
    print(f"bellwether guard: {without_secrets(sentence)}", file=sys.stderr, flush=True)  # noqa: T201 - logs of the process go there, too


def _attended(process: Guarded, options: GuardOptions) -> int:
    """Attends the process to its end and returns its exit code. An error of the guard must not harm the process: it is
    reported, and the guard then only waits for the end."""
    try:
        import asyncio  # noqa: PLC0415 - as below

        from bellwether_kafka.coordinator.guard.attend import attend  # noqa: PLC0415 - takes longer than the start may

        asyncio.run(attend(process, options, echo))
    except Exception as error:  # noqa: BLE001 - see above
        echo(f"Nothing is guarded: {error} ({type(error).__name__}). The process runs on.")
    process.wait()
    return process.exit_code


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
