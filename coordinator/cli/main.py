"""The command `bellwether`.

Every command ends with one of the codes of `cli_output.EXIT_CODES`, which `--help` and docs/commands.md tell.

A mistake of a user is one sentence on standard error, never a traceback. What only one command needs is imported by
that command, so that `--help` and `decode` start at once.
"""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from bellwether_kafka.coordinator.cli import orders as cli_orders
from bellwether_kafka.coordinator.cli.doctor import doctor_app
from bellwether_kafka.coordinator.cli.groups import groups_app
from bellwether_kafka.coordinator.cli.output import EPILOG, As, Output, as_json, fail, tell
from bellwether_kafka.coordinator.cli.pipeline import add_commands
from bellwether_kafka.coordinator.cli.plan import plan_app
from bellwether_kafka.coordinator.cli.replay import replay_app
from bellwether_kafka.coordinator.cli.simulate import simulate_app
from bellwether_kafka.coordinator.cli.top import top_app
from bellwether_kafka.coordinator.cli.topology import topology_app

DISTRIBUTION = "bellwether-kafka"
app = typer.Typer(
    name="bellwether",
    help="Leads classic Kafka consumer groups and decides the assignment of every member.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


app.add_typer(topology_app)
app.add_typer(groups_app)
add_commands(app)
app.add_typer(plan_app)
app.add_typer(simulate_app)
app.add_typer(doctor_app)
app.add_typer(top_app)
app.add_typer(replay_app)
cli_orders.add_to(app)


def main() -> None:
    """The entry point of the distribution."""
    app(prog_name="bellwether")


@app.command(epilog=EPILOG)
def run(
    config: Annotated[
        Path | None, typer.Option(help="A TOML file.", envvar="BELLWETHER_CONFIG", show_default=False)
    ] = None,
    bootstrap: Annotated[str | None, typer.Option(help="bootstrap.servers: host:port, with commas between.")] = None,
    group: Annotated[list[str] | None, typer.Option(help="A group; may be repeated.")] = None,
    mode: Annotated[str, typer.Option(help="For --group: observe (joins nothing), assist or lead.")] = "observe",
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
) -> None:
    """Observe or lead the configured groups, each as its mode says, until SIGTERM or Ctrl-C.

    Settings come from the file, then BELLWETHER_* variables, then these options; the last wins.
    """
    import asyncio

    from bellwether_kafka.coordinator.runtime import serve
    from bellwether_kafka.coordinator.settings import SettingsError, load
    from bellwether_kafka.coordinator.telemetry import configure_logs

    given: dict[str, Any] = {}
    if bootstrap is not None:
        given["kafka"] = {"bootstrap.servers": bootstrap}
    if group:
        given["groups"] = [{"name": name, "mode": mode} for name in group]
    if log_level is not None:
        given["log_level"] = log_level
    try:
        settings = load(config, given)
    except SettingsError as error:
        fail(str(error))
    configure_logs(settings.log_level, settings.log_format)
    outcome = asyncio.run(serve(settings, _version()))
    for message in outcome.messages:
        typer.echo(message, err=True)
    raise typer.Exit(outcome.exit_code)


@app.command(epilog=EPILOG)
def decode(
    kind: Annotated[str, typer.Argument(help="subscription, assignment, ... (a wrong one lists them all)")],
    data: Annotated[str, typer.Argument(metavar="HEX", help='Hex digits, or "-" to read them from standard input.')],
    output: As = Output.JSON,
) -> None:
    """Show a blob of a group (a subscription, an assignment, userData) as JSON."""
    from bellwether_kafka.protocol import blob_to_json
    from bellwether_kafka.protocol.primitives import LocalProtocolError, RemoteProtocolError

    text = sys.stdin.read() if data == "-" else data
    try:
        blob = bytes.fromhex(text.strip().removeprefix("0x").replace(":", ""))
    except ValueError:
        fail("HEX is not an even number of hex digits (0-9, a-f).")
    try:
        found = blob_to_json(kind, blob)
    except LocalProtocolError as error:
        fail(_as_sentence(str(error)))
    except RemoteProtocolError as error:
        fail(f"These {len(blob)} bytes are no {kind}: {str(error).rstrip('.')}.")
    if output is Output.JSON:
        as_json(found)
        return
    import yaml

    typer.echo(yaml.safe_dump(found, sort_keys=False, allow_unicode=True), nl=False)


@app.command()
def version(output: As = Output.TABLE) -> None:
    """Print the version."""
    tell(output, f"bellwether {_version()}", version=_version())


def _version() -> str:
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed(DISTRIBUTION)
    except PackageNotFoundError:
        return "unknown (not installed)"


def _as_sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
