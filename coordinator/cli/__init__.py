"""The command `bellwether`."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from bellwether_kafka.coordinator.guard import guard as run_as_guard
from bellwether_kafka.coordinator.on_demand import on_demand

if TYPE_CHECKING:
    from bellwether_kafka.coordinator.cli.command_table import app
    from bellwether_kafka.coordinator.cli.lazy import EXIT_CODES, Exit
else:
    __getattr__ = on_demand(__name__, {"command_table": ("app",), "lazy": ("EXIT_CODES", "Exit")})

GUARD = "guard"


def main() -> None:
    """The entry point of the distribution. `guard` bypasses the table of all commands, except for its help, so that a
    guard imports little and stays small."""
    if sys.argv[1:2] == [GUARD] and not _asks_for_help(sys.argv[2:]):
        sys.exit(run_as_guard(sys.argv[2:]))
    import_module(f"{__name__}.command_table").main()


def _asks_for_help(arguments: list[str]) -> bool:
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return not arguments or "--help" in own or "-h" in own
