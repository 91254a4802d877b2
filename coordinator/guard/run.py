"""The whole guard: starts the process first and imports the code that talks to brokers while it runs."""

import sys
from collections.abc import Sequence

from bellwether_kafka.coordinator.guard.guard_options import GuardOptions
from bellwether_kafka.coordinator.guard.guarded import Child, ForeignProcess, Guarded
from bellwether_kafka.coordinator.names import without_secrets


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
