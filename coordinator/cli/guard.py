"""The command `bellwether guard` as `--help`, completion and the page of commands have it. Started as a program it
reads its arguments in `coordinator.guard`, which is smaller.
"""

from pathlib import Path
from typing import Annotated

import typer

from bellwether_kafka.coordinator.guard import GRACE_S, GuardArguments, run_guard


def guard(
    group: Annotated[str, typer.Option(help="The group id, of an application its application id.")],
    command: Annotated[
        list[str] | None, typer.Argument(help="The command that runs the process, behind --.", show_default=False)
    ] = None,
    pid: Annotated[int | None, typer.Option(help="Watch this process instead of running a command.")] = None,
    state_dir: Annotated[
        Path | None,
        typer.Option(help="Kafka Streams' state.dir, whose process id tells which members are its own."),
    ] = None,
    client_id: Annotated[
        list[str] | None, typer.Option(help="A client id that only this process has; may be repeated.")
    ] = None,
    grace: Annotated[
        float, typer.Option(help="On SIGTERM, seconds to empty the process before it gets the signal.")
    ] = GRACE_S,
    fence: Annotated[
        bool, typer.Option("--fence", help="Fence its producers when it is gone; for exactly-once.")
    ] = False,
    bootstrap: Annotated[str | None, typer.Option(help="bootstrap.servers: host:port, with commas between.")] = None,
    config: Annotated[
        Path | None, typer.Option(help="A TOML file.", envvar="BELLWETHER_CONFIG", show_default=False)
    ] = None,
    topic: Annotated[
        str | None, typer.Option(help="The control topic, bellwether-control unless the file names one.")
    ] = None,
) -> None:
    named, ids = tuple(command or ()), tuple(client_id or ())
    given = GuardArguments(group, named, pid, state_dir, ids, grace, fence, bootstrap, config, topic)
    raise typer.Exit(run_guard(given))
